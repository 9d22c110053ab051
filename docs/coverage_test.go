package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

// TestEveryPropertyOfATypeIsDocumented holds the pages of the types that ship
// against their schemas.
func TestEveryPropertyOfATypeIsDocumented(t *testing.T) {
	schemas, err := filepath.Glob("../resources/*/schema.json")
	require.True(t, err == nil && len(schemas) >= 6, "found the schemas %v: %v", schemas, err)
	for _, path := range schemas {
		name := filepath.Base(filepath.Dir(path))
		text := must.Get(os.ReadFile(path))(t)
		page, err := os.ReadFile("types/" + name + ".md")
		if err != nil {
			t.Errorf("deployster/%s has no page: %v", name, err)
			continue
		}
		var schema any
		require.NoError(t, json.Unmarshal(text, &schema), "%s", path)
		for _, property := range properties(schema) {
			mentioned := regexp.MustCompile("`([a-z_]+\\.)?" + property + "`")
			assert.True(t, mentioned.Match(page), "docs/types/%s.md does not mention the property %s", name, property)
		}
	}
}

// properties lists the names of all properties that a schema knows.
func properties(schema any) []string {
	var names []string
	switch s := schema.(type) {
	case map[string]any:
		for key, value := range s {
			if all, ok := value.(map[string]any); ok && key == "properties" {
				for name := range all {
					names = append(names, name)
				}
			}
			names = append(names, properties(value)...)
		}
	case []any:
		for _, value := range s {
			names = append(names, properties(value)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var (
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`)
	helpFlag    = regexp.MustCompile(`(?m)^ +(?:-[a-z], )?(--[a-z-]+)`)
)

// TestEveryFlagIsDocumented holds the page of the command line against its help.
func TestEveryFlagIsDocumented(t *testing.T) {
	program := must.Get(binary())(t)
	page := must.Get(os.ReadFile("cli.md"))(t)
	found := 0
	var look func(path ...string)
	look = func(path ...string) {
		out, err := exec.Command(program, append(path, "--help")...).Output()
		require.NoError(t, err, "deployster %s --help: %v", strings.Join(path, " "), err)
		for _, flag := range helpFlag.FindAllStringSubmatch(string(out), -1) {
			if found++; !strings.Contains(string(page), "`"+flag[1]) {
				t.Errorf("cli.md does not mention the flag %s of %q", flag[1], strings.Join(path, " "))
			}
		}
		_, list, ok := strings.Cut(string(out), "Available Commands:\n")
		if !ok {
			return
		}
		list, _, _ = strings.Cut(list, "\n\n")
		for _, command := range helpCommand.FindAllStringSubmatch(list, -1) {
			below := append(slices.Clone(path), command[1])
			if found++; !strings.Contains(string(page), strings.Join(below, " ")) {
				t.Errorf("cli.md does not mention %q", strings.Join(below, " "))
			}
			look(below...)
		}
	}
	look()
	assert.True(t, found >= 30, "only %d commands and flags were found in the help", found)
}
