package schemas

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/inits"
	"github.com/deployster-go/deployster/schema"
)

// found is what the schema of a workspace finds wrong with a manifest.
func found(t *testing.T, s *schema.Schema, text []byte) (lines []string) {
	var document any
	require.NoError(t, yaml.Unmarshal(text, &document))
	for _, v := range s.Validate(document) {
		lines = append(lines, strings.Join(v.Path, ".")+": "+v.Message)
	}
	return lines
}

// compiled is the schema of a workspace in which manifests use types, and one of them is
// known to have answered a schema.
func compiled(t *testing.T, uses map[string]used) (*schema.Schema, []string) {
	text, notes, err := withTypes(uses, func(ref string) (inits.Type, bool) {
		switch ref {
		case "acme/vm":
			return inits.Type{ConfigSchema: []byte(`{"properties": {"size": {"type": "integer"}}, "additionalProperties": false}`)}, true
		case "acme/named":
			return inits.Type{ConfigSchema: []byte(`{"properties": {"size": {"$anchor": "x"}}}`)}, true
		case "acme/any":
			return inits.Type{}, true
		}
		return inits.Type{}, false
	})
	require.NoError(t, err)
	s := must.Get(schema.CompileConfig(text))(t)
	return s, notes
}

func TestTheSchemaAcceptsTheExamples(t *testing.T) {
	s, _ := compiled(t, nil)
	files := must.Get(filepath.Glob("../../../examples/*/*.yaml"))(t)
	manifests := 0
	for _, path := range files {
		text := must.Get(os.ReadFile(path))(t)
		outline, err := manifest.Outline(manifest.Source{Name: path, Data: text}, expression.New(t.TempDir()))
		if err != nil || len(outline.Resources) == 0 {
			continue
		}
		manifests++
		for _, line := range found(t, s, text) {
			t.Errorf("%s: %s", path, line)
		}
	}
	assert.GreaterOrEqual(t, manifests, 10, "only")
}

func TestTheSchemaRefusesWhatATypeDoes(t *testing.T) {
	s, _ := compiled(t, map[string]used{"acme/vm": {}, "deployster/file": {}})
	for text, want := range map[string]string{
		`resources: {a: {type: deployster/file, config: {path: x, contnt: y}}}`:       `resources.a.config.contnt: unknown property "contnt", did you mean "content"?`,
		`resources: {a: {type: acme/vm, config: {sise: 1}}}`:                          `resources.a.config.sise: unknown property "sise", did you mean "size"?`,
		`resources: {a: {type: acme/vm, config: {size: "{{ size }}"}}}`:               "",
		`resources: {a: {type: acme/other, config: {sise: 1}}}`:                       "",
		`resources: {a: {type: deployster/file, config: {path: x}, dependncies: {}}}`: "resources.a.dependncies: ",
	} {
		got := found(t, s, []byte(text))
		if want == "" && len(got) > 0 || want != "" && !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("of %s it says %q", text, got)
		}
	}
}

func TestTypesOfWhichNothingIsKnownAreNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"web.yaml":   "resources:\n  a: {type: acme/new}\n  b: {type: acme/vm}\n  c: {type: acme/named}\n  d: {type: acme/any}\n  e: {type: acme/new}\n",
		"vars.yml":   "a: 1\n",
		"broken.yml": "resources: [",
		"other.txt":  "resources: {a: {type: acme/else}}",
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	uses, err := typesOf(nil, expression.New("."))
	require.NoError(t, err)
	_, notes := compiled(t, uses)
	if len(notes) != 2 || notes[0] != "web.yaml:2:3: what acme/new accepts is not known: deployster validate --types web.yaml asks it" || !strings.HasPrefix(notes[1], "web.yaml:4:3: the config_schema of acme/named is left out: ") {
		t.Errorf("it notes %q", notes)
	}
	_, err = typesOf([]string{"broken.yml"}, expression.New("."))
	assert.Error(t, err, "a broken manifest that is named is no problem")
}
