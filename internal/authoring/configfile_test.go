package authoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadConfig(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, want string }{
		"JSON as it is written": {"c.json", `{"i": 9007199254740993, "f": 1.0, "s": "\ud83d\ude00", "n": null}`, `{"f":1.0,"i":9007199254740993,"n":null,"s":"😀"}`},
		"YAML":                  {"c.yaml", "i: 9007199254740993\nn: -3\nf: 0.5\nl: [1, x]\nd: 2026-01-31\nb: yes\nq: '1'\n", `{"b":"yes","d":"2026-01-31","f":0.5,"i":9007199254740993,"l":[1,"x"],"n":-3,"q":"1"}`},
		"an empty object":       {"c.yml", "{}", `{}`},
		"anchors":               {"c", "a: &x {k: 1}\nb: {<<: *x, m: 2}", `{"a":{"k":1},"b":{"k":1,"m":2}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadConfig(file(t, tc.file, tc.text))
			require.NoError(t, err)
			text, err := json.Marshal(got)
			assert.True(t, err == nil && string(text) == tc.want, "got  %s (%v)\nwant %s", text, err, tc.want)
		})
	}
}

func TestReadConfigRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, want string }{
		"no JSON":        {"c.json", "{", "one JSON object"},
		"a list":         {"c.json", "[1]", "must be a JSON object"},
		"two documents":  {"c.json", "{} {}", "after the JSON object"},
		"broken YAML":    {"c.yaml", "a: [", "yaml"},
		"text":           {"c.yaml", "hello", "must be a mapping"},
		"nothing":        {"c.yaml", "", "must be a mapping"},
		"not a number":   {"c.yaml", "a: .nan", "JSON cannot express"},
		"a number a key": {"c.yaml", "a: {1: x}", "a key must be text"},
		"a YAML bomb":    {"c.yaml", bomb(), "excessive aliasing"},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, tc.file, tc.text)
			_, err := ReadConfig(path)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want something with %q", err, tc.want)
			}
		})
	}
	if _, err := ReadConfig(filepath.Join(t.TempDir(), "none.json")); err == nil {
		t.Error("a file that is not there was read")
	}
}

func bomb() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		text += strings.NewReplacer("I", string(rune('0'+i)), "N", string(rune('1'+i))).Replace("aN: &aN [*aI, *aI, *aI, *aI, *aI, *aI, *aI, *aI, *aI, *aI]\n")
	}
	return text
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
