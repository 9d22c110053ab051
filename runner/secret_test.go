package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner/diff"
)

// everything is all that a run told and kept.
func (w *world) everything(t *testing.T, err error) string {
	t.Helper()
	all := w.kept(t) + fmt.Sprint(err)
	for _, e := range append(w.events, w.logged...) {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
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
	if err == nil {
		t.Fatal("a resource that stays stale succeeded")
	}
	all := w.everything(t, err)
	for _, secret := range []string{"old-secret", "new-secret"} {
		if strings.Contains(all, secret) {
			t.Errorf("%s is told", secret)
		}
	}
	if !strings.Contains(err.Error(), `~ password: "(secret)" → "(secret)"`) {
		t.Errorf("that it differs is not told: %v", err)
	}
}

func TestSecretsAreHiddenHoweverTheyAreEncoded(t *testing.T) {
	for name, form := range map[string]string{
		"as it is":             `pässwörd/ & "more"`,
		"JSON of Go":           `p\u00e4ssw\u00f6rd/ \u0026 \"more\"`,
		"JSON without HTML":    `pässwörd/ & \"more\"`,
		"JSON of only ASCII":   `p\u00e4ssw\u00f6rd/ & \"more\"`,
		"JSON of PHP":          `p\u00e4ssw\u00f6rd\/ & \"more\"`,
		"JSON of Perl or .NET": `p\u00E4ssw\u00F6rd/ \u0026 \u0022more\u0022`,
		"JSON of mixed hands":  `p\u00E4sswörd\/ \u0026 \"mor\u0065\u0022`,
		"JSON within JSON":     `p\\u00e4ssw\\u00f6rd/ & \\\"more\\\"`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fail["db"] = true
			w.engine.Images["echo"] = image(func(ctx context.Context, c enginetest.Call) int {
				if len(c.Args) > 0 && c.Args[0] == "set" {
					fmt.Fprintln(c.Stdout, form)
				}
				return w.thing(ctx, c)
			})
			_, err := w.apply(t, `resources: {db: {type: echo, config: {value: 1, token: 'pässwörd/ & "more"'}}}`)
			if all := w.everything(t, err); strings.Contains(all, form) {
				t.Errorf("%s is told", form)
			}
		})
	}
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
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"271828", "0.57721", "hush-hush"} {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s is told in\n%s", secret, text)
			}
		}
	}
	w := newWorld(t)
	vault(w)
	plan, err := w.runner(t, manifest).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tells(t, plan)
	tells(t, w.events)
	r := plan.Resources[0]
	if short, _ := json.Marshal(r.State["short"]); string(short) != `["(secret)","(secret)","17","(secret)",112]` {
		t.Errorf("a short secret is hidden where it is all: %s", short)
	}
	if list, _ := json.Marshal(r.State["list"]); string(list) != `["(secret)",1,1.5]` {
		t.Errorf("other numbers stay: %s", list)
	}
	if args := strings.Join(r.Actions[0].Args, " "); args != "--pin (secret) (secret)" {
		t.Errorf("the arguments are %s", args)
	}
	report, err := w.runner(t, manifest).Drift(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
	plan, err := w.runner(t, text).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	report, err := w.runner(t, text).Drift(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []diff.Change{{Path: "value.(secret)", Op: diff.Add, New: "(secret)"}}
	if !slices.Equal(plan.Resources[0].Diff, want) || !slices.Equal(report.Resources[0].Diff, want) {
		t.Errorf("%+v\n%+v", plan.Resources[0].Diff, report.Resources[0].Diff)
	}
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
				w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
					for q := range p.questions {
						if q.Action == "state" && w.things["a"] == nil {
							p.say(`{"id":%d,"exit":0,"output":`+answer+"}\n", q.ID)
							continue
						}
						asked = append(asked, q.Action)
						p.answer(ctx, q)
					}
					return 0
				})
			}
			_, err := w.apply(t, text)
			if (err != nil) != fails {
				t.Fatal(err)
			}
			all := w.everything(t, err)
			for _, run := range w.engine.Runs() {
				all += fmt.Sprintln(run.Spec.Labels, run.Spec.Mounts)
			}
			for _, secret := range []string{"hush-hush", "271828"} {
				if strings.Contains(all, secret) {
					t.Errorf("served %t, fails %t: %s is told in\n%s", serve, fails, secret, all)
				}
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
	plan, err := w.runner(t, manifest, withSecrets).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.apply(t, manifest, withSecrets)
	all := string(text) + w.everything(t, err)
	for _, secret := range []string{"old-secret", "older-secret", "new-secret", `"123"`, `4567`} {
		if strings.Contains(all, secret) {
			t.Errorf("%s is told", secret)
		}
	}
	for _, shown := range []string{`user: me`, `port: 1`, `"Path":"level","Op":"~","Old":1,"New":2`} {
		if !strings.Contains(all, shown) {
			t.Errorf("%s is hidden", shown)
		}
	}
}
