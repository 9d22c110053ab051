package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

func answering(init, state string, exit int) enginetest.FakeImage {
	return image(func(_ context.Context, c enginetest.Call) int {
		_, _ = io.Copy(io.Discard, c.Stdin)
		if len(c.Args) == 0 && init != "" {
			_, _ = io.WriteString(c.Stdout, init)
			return 0
		}
		_, _ = io.WriteString(c.Stdout, state)
		return exit
	})
}

func TestAnswersThatAreNotTheProtocol(t *testing.T) {
	const init = `{"state_action":{"args":["state"]}}`
	for name, tc := range map[string]struct {
		init, state string
		exit        int
		want        []string
	}{
		"empty init":            {"", "", 0, []string{"bad", "init"}},
		"init exits with 137":   {"", "", 137, []string{"init exited with 137 (killed)"}},
		"init without state":    {`{"plugs":{}}`, "", 0, []string{"init", "state_action"}},
		"empty state":           {init, "", 0, []string{"state", "stdout was empty"}},
		"two documents":         {init, `{"status":"VALID","state":{}} {"status":"VALID","state":{}}`, 0, []string{"state", `{"status"`}},
		"text before JSON":      {init, "hello\n" + `{"status":"VALID","state":{}}`, 0, []string{"state", "hello"}},
		"VALID with actions":    {init, `{"status":"VALID","state":{},"actions":[{"name":"x"}]}`, 0, []string{"state", "VALID", "actions"}},
		"STALE without actions": {init, `{"status":"STALE"}`, 0, []string{"state", "STALE", "actions"}},
		"unknown status":        {init, `{"status":"MAYBE","state":{}}`, 0, []string{"state", "MAYBE"}},
		"invalid UTF-8":         {init, "{\"status\":\"VALID\",\"state\":{\"a\":\"\xff\"}}", 0, []string{"state", "UTF-8"}},
		"state exits with 137":  {init, "half an ans", 137, []string{"state exited with 137", "half an ans"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.engine.Images["bad"] = answering(tc.init, tc.state, tc.exit)
			_, err := w.apply(t, "resources: {db: {type: bad, config: {}}}")
			require.Error(t, err, "it was accepted")
			for _, want := range append(tc.want, "db") {
				assert.Contains(t, err.Error(), want, "%q does not say %q", err, want)
			}
		})
	}
}

func TestAnswersAreBounded(t *testing.T) {
	w := newWorld(t)
	written := 0
	w.engine.Images["endless"] = image(func(_ context.Context, c enginetest.Call) int {
		block := []byte(strings.Repeat("x", 1<<20))
		for written = 0; written < 1<<10; written++ {
			if _, err := c.Stdout.Write(block); err != nil {
				return 1
			}
		}
		return 0
	})
	_, err := w.apply(t, "resources: {db: {type: endless, config: {}}}")
	assert.ErrorContains(t, err, "8 MiB")
	assert.ErrorContains(t, err, "init")
	assert.LessOrEqual(t, written, 64)
}

func TestAnActionThatHangsIsEndedByItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.engine.Images["hang"] = image(func(ctx context.Context, c enginetest.Call) int {
			switch {
			case len(c.Args) == 0:
				fmt.Fprint(c.Stdout, `{"state_action":{"args":["state"]}}`)
			case c.Args[0] == "state":
				fmt.Fprint(c.Stdout, `{"status":"STALE","actions":[{"name":"wait","args":["wait"]}]}`)
			default:
				fmt.Fprintln(c.Stdout, "waiting for godot")
				<-ctx.Done()
				return 137
			}
			return 0
		})
		started := time.Now()
		_, err := w.apply(t, "resources: {db: {type: hang, timeout: 90s, config: {}}}")
		assert.ErrorIs(t, err, engine.ErrTimeout)
		assert.ErrorContains(t, err, `db: action wait`)
		assert.EqualValues(t, 90*time.Second, time.Since(started))
		i := slices.IndexFunc(w.logged, func(e report.Event) bool { return e.Kind == report.ActionFailed })
		require.GreaterOrEqual(t, i, 0)
		assert.Contains(t, w.logged[i].Output, "waiting for godot")
	})
}

func TestAResourceThatStaysStaleFails(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["liar"] = answering(`{"state_action":{"args":["state"]}}`, `{"status":"STALE","staleState":{"a":1},"actions":[{"name":"nothing"}]}`, 0)
	_, err := w.apply(t, "resources: {db: {type: liar, config: {a: 2}}}")
	assert.ErrorContains(t, err, "STALE")
	assert.ErrorContains(t, err, "~ a: 1 → 2")
}

// Whoever prints it, a line that is longer than is kept is shown in parts.
func TestALineOfAnyLengthEndsNothing(t *testing.T) {
	long := strings.Repeat("y", 200_000)
	for name, make := range map[string]func(w *world, p enginetest.Program) enginetest.FakeImage{
		"containers": func(_ *world, p enginetest.Program) enginetest.FakeImage { return image(p) },
		"served": func(w *world, p enginetest.Program) enginetest.FakeImage {
			return w.serving(func(ctx context.Context, s *served) int {
				fmt.Fprintln(s.Stderr, long)
				for q := range s.questions {
					if q.Action == "state" {
						s.say(`{"id":%d,"stderr":"`+long+`"}`+"\n", q.ID)
					}
					if q.Action == "set" {
						s.say(`{"id":%d,"output":"`+long+`"}`+"\n", q.ID)
					}
					s.answer(ctx, q)
				}
				return 0
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.engine.Images["thing"] = make(w, func(ctx context.Context, c enginetest.Call) int {
				if len(c.Args) > 0 {
					fmt.Fprintln(c.Stderr, long)
					if c.Args[0] == "set" {
						fmt.Fprintln(c.Stdout, long)
					}
				}
				return w.thing(ctx, c)
			})
			for name, status := range w.mustApply(t, many(4, "thing")) {
				assert.Equal(t, report.Changed, status, "%s is %s", name, status)
			}
			told := map[string]int{} // y's by resource, action and stream
			for _, e := range w.events {
				if e.Kind == report.Line {
					told[strings.Join([]string{e.Resource, e.Action, e.Stream}, " ")] += strings.Count(e.Text, "y")
				}
			}
			assert.Equal(t, 2*len(long), told["r0 state stderr"])
			assert.Equal(t, len(long), told["r0 set stdout"])
		})
	}
}

// stack is what a Go program says last: what happened, and where it was.
func stack(to io.Writer) {
	fmt.Fprint(to, "some news\npanic: out of cheese\n\ngoroutine 1 [running]:\n")
	for i := range 40 {
		fmt.Fprintf(to, "main.f%d()\n\t/src/main.go:%d +0x1d\n", i, i)
	}
	fmt.Fprintln(to, "exit status 2")
}

func TestACrashIsToldByWhatHappened(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
		for q := range p.questions {
			if q.Action == "state" {
				stack(p.Stderr)
				return 2
			}
			p.answer(ctx, q)
		}
		return 0
	})
	_, err := w.apply(t, "resources: {bad: {type: thing, config: {value: 1}}}")
	assert.ErrorContains(t, err, "panic: out of cheese\n…\n")
	assert.ErrorContains(t, err, "exit status 2")
	w = newWorld(t)
	w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
		if slices.Contains(c.Args, "set") {
			stack(c.Stderr)
			return 2
		}
		return w.thing(ctx, c)
	})
	_, err = w.apply(t, "resources: {bad: {type: thing, config: {value: 1}}}")
	assert.Error(t, err)
	assert.True(t, strings.HasSuffix(err.Error(), `action "set" exited with 2: panic: out of cheese`))
	for _, e := range w.logged {
		if e.Kind == report.ActionFailed && (e.Output[0] != "panic: out of cheese" || e.Output[len(e.Output)-1] != "exit status 2" || len(e.Output) > 20) {
			t.Errorf("recorded was %q", e.Output)
		}
	}
}

// Several actions of one name are no attempts at one, and yet are told apart.
func TestActionsOfOneName(t *testing.T) {
	for _, serves := range []bool{false, true} {
		w := newWorld(t)
		var asked []string
		thing := func(ctx context.Context, c enginetest.Call) int {
			if len(c.Args) == 0 || c.Args[0] == "serve" {
				return w.thing(ctx, c)
			}
			if c.Args[0] == "state" && w.things["a"] == nil {
				fmt.Fprint(c.Stdout, `{"status":"STALE","actions":[{"name":"set","args":["set","1"]},{"name":"set","args":["set","2"]},{"name":"set#2","args":["set","3"]}]}`)
				return 0
			}
			return w.thing(ctx, c)
		}
		w.engine.Images["thing"] = image(thing)
		if serves {
			w.engine.Images["thing"] = w.servingBut(func(p *served, q question) bool {
				first := q.Action == "state" && w.things["a"] == nil
				if first {
					p.say(`{"id":%d,"exit":0,"output":{"status":"STALE","actions":[{"name":"set","args":["set"]},{"name":"set","args":["set"]},{"name":"set#2","args":["set"]}]}}`+"\n", q.ID)
				} else {
					asked = append(asked, q.Action)
				}
				return first
			})
		}
		w.mustApply(t, "resources: {a: {type: thing, config: {value: 1}}}")
		var started []string
		for _, e := range w.logged {
			if e.Kind == report.ActionStarted {
				started = append(started, fmt.Sprintf("%s %s %d", e.Action, e.Plan.Name, e.Attempt))
			}
		}
		assert.Equal(t, []string{"set set 1", "set#3 set 1", "set#2 set#2 1"}, started)
		assert.True(t, !serves || slices.Equal(asked, []string{"set", "set", "set#2", "state"}), "the process was asked for %q", asked)
	}
}

func (w *world) everything(t *testing.T, err error) string {
	all := w.kept(t) + fmt.Sprint(err)
	for _, e := range append(w.events, w.logged...) {
		text := must.Get(json.Marshal(e))(t)
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
		text := must.Get(json.Marshal(v))(t)
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

// The name of an action is all over: in the log, on containers, in the names of files. Only its type is told it as it is.
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
			assert.True(t, !serve || slices.Contains(asked, "set hush-hush"), "the process was asked for %q", asked)
		}
	}
}

// A secret of a variable is hidden whatever its type makes of it, and so is the former one that stands where it will.
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
	text := must.Get(json.Marshal(plan))(t)
	_, err := w.apply(t, manifest, withSecrets)
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
	slices.Sort(got)
	assert.True(t, slices.Equal(got, want), "the uses are %q, want %q", got, want)
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
		shown := must.Get(json.Marshal(p))(t)
		return string(shown)
	}
	all := plan()
	w.mustApply(t, text)
	assert.Equal(t, "key = hush-4712", w.things["web.file"])
	assert.Equal(t, "shown", w.things["reader"])
	all += w.everything(t, nil) + plan()
	assert.NotContains(t, all, "hush-4712", "the secret is told")
	out := w.ended(t).Outputs.Outputs["key"]
	assert.True(t, out.Secret && out.Value == nil, "the output is %+v", out)
}
