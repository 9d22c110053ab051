package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner/diff"
)

// everything is all that a run told and kept.
func (w *world) everything(t *testing.T, err error) string {
	t.Helper()
	all := w.kept(t) + fmt.Sprint(err)
	for _, e := range append(w.events, w.logged...) {
		text, err := json.Marshal(e)
		require.NoError(t, err)
		all += string(text)
	}
	return all
}

// What a resource is now may hold an older secret than its configuration.
func TestSecretsOfStatesAreHidden(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["vault"] = image(func(_ context.Context, c enginetest.Call) int {
		if len(c.Args) == 0 {
			fmt.Fprint(c.Stdout, `{"config_schema":{"type":"object","properties":{"password":{"type":"string","writeOnly":true}}},"state_action":{"args":["state"]}}`)
			return 0
		}
		fmt.Fprint(c.Stdout, `{"status":"STALE","staleState":{"password":"old-secret"},"actions":[{"name":"rotate","args":["rotate"]}]}`)
		return 0
	})
	_, err := w.apply(t, "resources: {v: {type: vault, config: {password: new-secret}}}")
	require.Error(t, err, "a resource that stays stale succeeded")
	all := w.everything(t, err)
	for _, secret := range []string{"old-secret", "new-secret"} {
		assert.NotContains(t, all, secret)
	}
	assert.Contains(t, err.Error(), `~ password: "(secret)" → "(secret)"`, "that it differs is not told: %v", err)
}

// Wherever a secret stands in what a type says, and whatever kind of value it
// is, no plan, no report of drift and no event tells it.
func TestSecretsAreHiddenWhateverTheyAre(t *testing.T) {
	const manifest = `
resources:
  a: {type: vault, config: {pin: 271828, share: 0.57721, password: hush-hush, digit: "7", mode: 12}}
`
	answer := `{"status":"STALE","staleState":{"pin":"none","copy":271828,"list":[0.57721,1,1.5],"text":"271828 times","map":{"hush-hush":1},"short":["7",7,"17",12,112]},
		"actions":[{"name":"set-hush-hush","image":"registry/hush-hush","entrypoint":"/bin/hush-hush","description":"uses 271828","args":["--pin","271828","7"]}]}`
	vault := func(w *world) {
		w.engine.Images["registry/hush-hush"] = image(func(context.Context, enginetest.Call) int { return 0 })
		w.engine.Images["vault"] = image(func(_ context.Context, c enginetest.Call) int {
			if len(c.Args) == 0 {
				fmt.Fprint(c.Stdout, `{"config_schema":{"type":"object","properties":{"pin":{"writeOnly":true},"share":{"writeOnly":true},"password":{"writeOnly":true},"digit":{"writeOnly":true},"mode":{"writeOnly":true}}},"state_action":{"args":["state"]}}`)
				return 0
			}
			fmt.Fprint(c.Stdout, answer)
			return 0
		})
	}
	tells := func(t *testing.T, v any) {
		t.Helper()
		text, err := json.Marshal(v)
		require.NoError(t, err)
		for _, secret := range []string{"271828", "0.57721", "hush-hush"} {
			assert.NotContains(t, string(text), secret)
		}
	}
	w := newWorld(t)
	vault(w)
	plan := w.mustPlan(t, manifest)
	tells(t, plan)
	tells(t, w.events)
	r := plan.Resources[0]
	short, _ := json.Marshal(r.State["short"])
	assert.Equal(t, `["(secret)","(secret)","17","(secret)",112]`, string(short), "a short secret is hidden where it is all")
	list, _ := json.Marshal(r.State["list"])
	assert.Equal(t, `["(secret)",1,1.5]`, string(list), "other numbers stay")
	assert.Equal(t, "--pin (secret) (secret)", strings.Join(r.Actions[0].Args, " "))
	report := w.mustDrift(t, manifest)
	tells(t, report)
}

// A key of what one resource is configured with may be a secret of another.
func TestASecretIsHiddenInThePathOfADifference(t *testing.T) {
	w := newWorld(t)
	w.things["a"] = map[string]any{}
	text := `
resources:
  a: {type: thing, config: {value: {hush-hush: 271828}}}
  b: {type: thing, config: {value: 1, token: hush-hush}}
  c: {type: thing, config: {value: 1, token: "271828"}}
`
	plan := w.mustPlan(t, text)
	report := w.mustDrift(t, text)
	want := []diff.Change{{Path: "value.(secret)", Op: diff.Add, New: "(secret)"}}
	assert.Equal(t, want, plan.Resources[0].Diff)
	assert.Equal(t, want, report.Resources[0].Diff)
}

// The name of an action is all over: in the log, on containers, in the names of
// files. Only its type is told it as it is.
func TestSecretsInTheNamesOfActionsAreHidden(t *testing.T) {
	const answer = `{"status":"STALE","actions":[{"name":"set hush-hush","args":["set"]},{"name":"set 271828","args":["set"]}]}`
	const text = `
resources:
  a: {type: thing, config: {value: 1, token: hush-hush}}
  b: {type: thing, config: {value: 1, token: "271828"}, dependencies: {a: a}}`
	for _, serve := range []bool{false, true} {
		for _, fails := range []bool{false, true} {
			w := newWorld(t)
			w.fail["a"] = fails
			var asked []string
			w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
				if len(c.Args) > 0 && c.Args[0] == "state" && w.things["a"] == nil {
					fmt.Fprint(c.Stdout, answer)
					return 0
				}
				return w.thing(ctx, c)
			})
			if serve {
				w.engine.Images["thing"] = w.servingBut(func(p *served, q question) bool {
					first := q.Action == "state" && w.things["a"] == nil
					if first {
						p.say(`{"id":%d,"exit":0,"output":`+answer+"}\n", q.ID)
					} else {
						asked = append(asked, q.Action)
					}
					return first
				})
			}
			_, err := w.apply(t, text)
			require.Equal(t, fails, err != nil)
			all := w.everything(t, err)
			for _, run := range w.engine.Runs() {
				all += fmt.Sprintln(run.Spec.Labels, run.Spec.Mounts)
			}
			for _, secret := range []string{"hush-hush", "271828"} {
				assert.NotContains(t, all, secret, "%v, %v", serve, fails)
			}
			if names := w.names(); !slices.Contains(names, "action-started a set (secret)") || !fails && !slices.Contains(names, "action-started a set (secret)#2") {
				t.Errorf("the log tells %q", names)
			}
			if serve && !slices.Contains(asked, "set hush-hush") {
				t.Errorf("the process was asked for %q", asked)
			}
		}
	}
}

// A secret of a variable is hidden whatever its type makes of it, and so is the former one
// that stands where it will.
func TestSecretsOfVariablesAreHiddenInWhateverTheyGoInto(t *testing.T) {
	const manifest = `resources: {v: {type: page, config: {
  content: "user: me\npassword: {{ password }}\nport: 1\n", pin: '{{ pin }}', args: [serve, '--password={{ password }}'], level: 2}}}`
	w := newWorld(t)
	w.engine.Images["page"] = image(func(_ context.Context, c enginetest.Call) int {
		if len(c.Args) == 0 {
			fmt.Fprint(c.Stdout, `{"state_action":{"args":["state"]}}`)
			return 0
		}
		fmt.Fprintln(c.Stderr, "it is to be new-secret")
		fmt.Fprint(c.Stdout, `{"status":"STALE","staleState":{"content":"user: me\npassword: old-secret\nport: 1\n","pin":"4567","args":["--password=older-secret"],"level":1},"actions":[{"name":"write","args":["w"]}]}`)
		return 0
	})
	withSecrets := func(o *options) { o.Secrets = []any{"new-secret", "123"} }
	w.variables = map[string]any{"password": "new-secret", "pin": "123"}
	plan := w.mustPlan(t, manifest, withSecrets)
	text, err := json.Marshal(plan)
	require.NoError(t, err)
	_, err = w.apply(t, manifest, withSecrets)
	all := string(text) + w.everything(t, err)
	for _, secret := range []string{"old-secret", "older-secret", "new-secret", `"123"`, `4567`} {
		assert.NotContains(t, all, secret)
	}
	for _, shown := range []string{`user: me`, `port: 1`, `"Path":"level","Op":"~","Old":1,"New":2`} {
		assert.Contains(t, all, shown)
	}
}

func TestWhichSecretsReadVariables(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["vault"] = image(func(_ context.Context, c enginetest.Call) int {
		fmt.Fprint(c.Stdout, `{"removable":true,"state_action":{"args":["state"]},"config_schema":{"properties":{
			"token":{"writeOnly":true},"env":{"additionalProperties":{"writeOnly":true}}}}}`)
		return 0
	})
	for name, text := range map[string]string{"secrets/prod": "{{ stage }}", "texts/a": "{{ name | default('') }}"} {
		path := filepath.Join(w.workspace, filepath.FromSlash(name))
		require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	r := w.runner(t, `
resources:
  plain: {type: vault, config: {name: "{{ stage }}", token: fixed}}
  whole: {type: vault, config: {env: "{{ {'A': stage} }}"}}
  parts: {type: vault, config: {env: {B: "{{ stage }}", C: "a-{{ stage }}"}}}
  waits: {type: vault, dependencies: {p: plain}, config: {token: "{{ p.state.id }}{{ stage }}"}}
  computed: {type: vault, config: {token: "{% include 'secrets/' ~ 'prod' | lower %}", env: {D: "{% include ['secrets/prod'] %}", E: "{% include 'texts/' ~ 'a' | lower %}"}}}
  seen: {type: vault, readonly: true, config: {token: "{{ stage }}"}}
`)
	require.NoError(t, r.Removable(t.Context()))
	var got []string
	for _, use := range r.SecretUses([]string{"secrets/prod", "texts/a"}, "stage", "other") {
		got = append(got, use.Variable+" "+use.Path)
	}
	want := []string{
		"stage resources.computed.config.env.D", "stage resources.computed.config.token",
		"stage resources.parts.config.env.B", "stage resources.parts.config.env.C", "stage resources.seen.config.token",
		"stage resources.waits.config.token", "stage resources.whole.config.env.A",
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the uses are %q, want %q", got, want)
	}
}

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
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "module.yaml"), []byte(module), 0o600))
	const text = `
resources:
  source: {type: thing, config: {value: 4711}}
  reader: {type: thing, dependencies: {web: web}, config: {value: '{{ web.other }}'}}
modules: {web: {source: ./web, dependencies: {s: source}, vars: {key: 'hush-{{ s.state.value + 1 }}', open: shown}}}
outputs: {key: '{{ web.key }}'}
`
	plan := func() string {
		p := w.mustPlan(t, text)
		shown, err := json.Marshal(p)
		require.NoError(t, err)
		return string(shown)
	}
	all := plan()
	w.mustApply(t, text)
	assert.Equal(t, "key = hush-4712", w.things["web.file"])
	assert.Equal(t, "shown", w.things["reader"])
	all += w.everything(t, nil) + plan()
	assert.NotContains(t, all, "hush-4712", "the secret is told")
	if out := w.ended(t).Outputs.Outputs["key"]; !out.Secret || out.Value != nil {
		t.Errorf("the output is %+v", out)
	}
}
