package runner_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a module is given of a state, and may not be shown, is not: neither by a plan, before
// and after it is known, nor of what a run tells and keeps.
func TestWhatAModuleIsGivenInSecretIsHidden(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.workspace, "web")
	const module = `
variables: {key: {writeOnly: true}, open: {}}
resources:
  file: {type: thing, config: {value: 'key = {{ key }}'}}
  other: {type: thing, config: {value: '{{ open }}'}}
outputs: {key: '{{ key }}', other: '{{ other.state.value }}'}
`
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "module.yaml"), []byte(module), 0o600); err != nil {
		t.Fatal(err)
	}
	const text = `
resources:
  source: {type: thing, config: {value: 4711}}
  reader: {type: thing, dependencies: {web: web}, config: {value: '{{ web.other }}'}}
modules: {web: {source: ./web, dependencies: {s: source}, vars: {key: 'hush-{{ s.state.value + 1 }}', open: shown}}}
outputs: {key: '{{ web.key }}'}
`
	plan := func() string {
		p, err := w.runner(t, text).Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		shown, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return string(shown)
	}
	all := plan()
	_, err := w.apply(t, text)
	if err != nil {
		t.Fatal(err)
	}
	if w.things["web.file"] != "key = hush-4712" || w.things["reader"] != "shown" {
		t.Errorf("the world has %v", w.things)
	}
	if all += w.everything(t, err) + plan(); strings.Contains(all, "hush-4712") {
		t.Error("the secret is told")
	}
	if out := w.ended(t).Outputs.Outputs["key"]; !out.Secret || out.Value != nil {
		t.Errorf("the output is %+v", out)
	}
}
