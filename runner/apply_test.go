package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/encoding"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

const chain = `
resources:
  db: {type: thing, config: {value: {port: 5432, hosts: [a, b]}}}
  api:
    type: thing
    dependencies: {store: db}
    config: {value: "{{ store.state.value }}"}
  other: {type: thing, config: {value: "on {{ stage }}"}}
`

func TestApplyBringsResourcesToTheirConfiguration(t *testing.T) {
	w := newWorld(t)
	got := w.mustApply(t, chain)
	wantStatuses(t, got, map[string]report.Status{"db": report.Changed, "api": report.Changed, "other": report.Changed})
	assert.Equal(t, map[string]any{"port": 5432.0, "hosts": []any{"a", "b"}}, w.things["api"], "a single expression keeps its native type")
	assert.Equal(t, "on test", w.things["other"])
	assert.True(t, before(w.trace, "set db", "state api"), "api was looked at before db was applied")
	w.forget()
	got = w.mustApply(t, chain)
	wantStatuses(t, got, map[string]report.Status{"db": report.Unchanged, "api": report.Unchanged, "other": report.Unchanged})
	assert.Equal(t, 0, w.runs("set"))
}

func TestEveryStepIsRecorded(t *testing.T) {
	w := newWorld(t)
	w.mustApply(t, "resources: {db: {type: thing, config: {value: 1}}}")
	assert.Equal(t, []string{
		"run-started", "resource-initialized db", "resource-started db", "resource-resolved db",
		"action-started db set", "action-finished-successfully db set", "resource-verified db",
		"resource-finished-successfully db", "run-finished-successfully",
	}, w.names())
}

func TestWhatContainersRead(t *testing.T) {
	w := newWorld(t)
	w.things["db"] = "old"
	w.mustApply(t, "resources: {db: {type: thing, config: {value: new}}}")
	common := fmt.Sprintf(`"name":"db","type":"thing","version":"1.2.3","verbose":false,"workspace":%q`, w.workspace)
	for i, want := range []string{
		`{` + common + `}`,
		`{` + common + `,"config":{"value":"new"},"id":"LOG/db"}`,
		`{` + common + `,"config":{"value":"new"},"id":"LOG/db","staleState":{"value":"old"}}`,
	} {
		var document map[string]any
		require.NoError(t, json.Unmarshal([]byte(want), &document))
		assert.Equal(t, document, w.inputs[i], "container")
	}
	kept := w.kept(t)
	for _, file := range []string{"db/01-init.stdin.json", "db/02-state.stdout", "db/03-set.stdout", "db/04-state.stdout"} {
		assert.Contains(t, kept, file)
	}
	for _, run := range w.engine.Runs() {
		for label, want := range map[string]string{invoke.LabelRun: "RUN", invoke.LabelLog: "LOG", invoke.LabelResource: "db", invoke.LabelAttempt: "1"} {
			assert.Equal(t, want, run.Spec.Labels[label])
		}
		shown := engine.Mount{Source: w.workspace, Target: w.workspace, ReadOnly: true}
		assert.Contains(t, run.Spec.Mounts, must.Get(engine.Finder{}.Pin([]engine.Mount{shown}))(t)[0])
		assert.Equal(t, w.workspace, run.Spec.WorkDir)
	}
}

func TestActionsOfAResourceThatDoesNotExistReadAnEmptyStaleState(t *testing.T) {
	w := newWorld(t)
	w.mustApply(t, "resources: {db: {type: thing, config: {value: 1}}}")
	got, ok := w.inputs[2]["staleState"].(map[string]any)
	assert.True(t, ok && len(got) == 0, "got %v", w.inputs[2]["staleState"])
}

const forest = `
resources:
  a: {type: thing, config: {value: 1}}
  a1: {type: thing, dependencies: {a: a}, config: {value: 1}}
  a2: {type: thing, dependencies: {b: a1}, config: {value: 1}}
  z: {type: thing, config: {value: 1}}
  z1: {type: thing, dependencies: {z: z}, config: {value: 1}}
`

func TestAFailureStopsTheRun(t *testing.T) {
	w := newWorld(t)
	w.fail["a"] = true
	got, err := w.apply(t, forest, func(o *options) { o.Parallelism = 1 })
	var failed *failure.Error
	require.ErrorAs(t, err, &failed)
	assert.ErrorContains(t, err, `a: action "set" exited with 7`)
	wantStatuses(t, got, map[string]report.Status{
		"a": report.Failed, "a1": report.Skipped, "a2": report.Skipped, "z": report.Skipped, "z1": report.Skipped,
	})
	i := slices.IndexFunc(w.logged, func(e report.Event) bool { return e.Kind == report.ActionFailed })
	e := w.logged[i]
	assert.True(t, *e.Exit == 7 && slices.Contains(e.Output, "it would not budge"), "the event does not tell what was said: %+v", e)
}

func TestReadOnlyResourcesAreNeverChanged(t *testing.T) {
	w := newWorld(t)
	w.things["db"] = 1
	const text = "resources: {db: {type: thing, readonly: true, config: {value: %d}}}"
	wantStatuses(t, w.mustApply(t, fmt.Sprintf(text, 1)), map[string]report.Status{"db": report.Unchanged})
	_, err := w.apply(t, fmt.Sprintf(text, 2))
	assert.ErrorContains(t, err, "read-only")
	assert.ErrorContains(t, err, "~ value: 1 → 2")
	assert.Equal(t, 0, w.runs("set"), "an action ran")
}

func TestConfirmModes(t *testing.T) {
	const two = "resources: {a: {type: two-step, config: {}}, b: {type: two-step, config: {}}}"
	for _, tc := range []struct {
		mode  runner.ConfirmMode
		asked int
	}{
		{runner.ConfirmNo, 0},
		{runner.ConfirmResource, 2},
		{runner.ConfirmAction, 4},
	} {
		t.Run(string(tc.mode), func(t *testing.T) {
			w := newWorld(t)
			w.engine.Images["two-step"] = image(w.twoStep)
			w.yes = func(runner.Question) bool { return true }
			w.mustApply(t, two, func(o *options) { o.Confirm = tc.mode })
			assert.Len(t, w.asked, tc.asked)
		})
	}
	t.Run("declined", func(t *testing.T) {
		w := newWorld(t)
		w.engine.Images["two-step"] = image(w.twoStep)
		w.yes = func(q runner.Question) bool { return q.Actions[0].Name != "second" }
		got, err := w.apply(t, "resources: {a: {type: two-step, config: {}}}", func(o *options) { o.Confirm = runner.ConfirmAction })
		assert.ErrorContains(t, err, "declined")
		assert.Equal(t, report.Failed, got["a"])
		assert.Equal(t, 1, w.runs("first"))
		assert.Equal(t, 0, w.runs("second"))
	})
}

// Who quits has declined all that was still to begin, also where a failure would not stop the rest.
func TestQuitting(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["two-step"] = image(w.twoStep)
	w.yes = func(q runner.Question) bool { return q.Actions[0].Name != "second" }
	w.declines = failure.ErrQuit
	got, err := w.apply(t, "resources: {a: {type: two-step, config: {}}, b: {type: two-step, config: {}}, c: {type: two-step, config: {}}}", func(o *options) {
		o.Confirm, o.KeepGoing, o.Parallelism = runner.ConfirmAction, true, 1
	})
	assert.ErrorIs(t, err, failure.ErrQuit)
	assert.NotErrorIs(t, err, runner.ErrInterrupted)
	want := map[string]report.Status{"a": report.Failed, "b": report.Skipped, "c": report.Skipped}
	assert.True(t, maps.Equal(got, want) && w.runs("first") == 1 && w.runs("second") == 0 &&
		len(w.asked) == 2, "got %v after %d questions, ran %v", got, len(w.asked), w.trace)
	last := w.ended(t)
	assert.Equal(t, report.RunFailed, last.Kind)
	assert.Contains(t, last.Error, "declined")
}

// twoStep is a type whose resources exist once both of its actions ran.
func (w *world) twoStep(_ context.Context, c enginetest.Call) int {
	var in struct{ Name string }
	_ = json.NewDecoder(c.Stdin).Decode(&in)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(c.Args) == 0 {
		fmt.Fprint(c.Stdout, `{"state_action":{"args":["state"]}}`)
		return 0
	}
	w.trace = append(w.trace, c.Args[0]+" "+in.Name)
	switch c.Args[0] {
	case "state":
		if w.things[in.Name] == 2 {
			fmt.Fprint(c.Stdout, `{"status":"VALID","state":{}}`)
			return 0
		}
		fmt.Fprint(c.Stdout, `{"status":"STALE","actions":[{"name":"first","args":["first"]},{"name":"second","args":["second"]}]}`)
	case "first":
		w.things[in.Name] = 1
	case "second":
		if w.things[in.Name] != 1 {
			return 1
		}
		w.things[in.Name] = 2
	}
	return 0
}

func TestActionsUseTheirOwnImageEntrypointAndArguments(t *testing.T) {
	w := newWorld(t)
	done := false
	var ran engine.Spec
	w.engine.Images["notifier"] = image(func(_ context.Context, c enginetest.Call) int {
		done, ran = true, c.Spec
		return 0
	})
	w.engine.Images["main"] = image(func(_ context.Context, c enginetest.Call) int {
		switch {
		case c.Path == "/state" && done:
			fmt.Fprint(c.Stdout, `{"status":"VALID","state":{}}`)
		case c.Path == "/state":
			fmt.Fprint(c.Stdout, `{"status":"STALE","actions":[{"name":"tell","image":"notifier","entrypoint":"/bin/slack","args":["--room=x"]}]}`)
		default:
			fmt.Fprint(c.Stdout, `{"state_action":{"entrypoint":"/state"}}`)
		}
		return 0
	})
	w.mustApply(t, "resources: {vm: {type: main, config: {}}}")
	assert.Equal(t, "/bin/slack", ran.Entrypoint)
	assert.Equal(t, []string{"--room=x"}, ran.Args)
}

// answering is a type that says what it is told to.
func TestInvalidConfigurationsAreRefusedBeforeAnythingIsTouched(t *testing.T) {
	w := newWorld(t)
	_, err := w.apply(t, `
resources:
  good: {type: thing, config: {value: 1}}
  bad:
    type: thing
    config:
      value: 1
      count: many
  worse: {type: thing, config: {valeu: 1}}
`)
	var invalid *manifest.Error
	require.ErrorAs(t, err, &invalid)
	for _, want := range []string{"m.yaml:8:", "resources.bad.config.count", "integer", "resources.worse.config", "value"} {
		assert.Contains(t, err.Error(), want, "%q does not say %q", err, want)
	}
	assert.Equal(t, 0, w.runs("state")+w.runs("set"), "something ran: %v", w.trace)
}

func TestPlugs(t *testing.T) {
	ask := func(request string) string {
		return `{"plugs":{"sock":` + request + `},"state_action":{"args":["state"]}}`
	}
	for name, tc := range map[string]struct {
		request, plugs string
		mount          string // "ro", "rw" or none
		refuse         string
	}{
		"read-only unless asked":    {`{"container_path":"/s","writable":false}`, `{sock: {path: .}}`, "ro", ""},
		"writable by default":       {`{"container_path":"/s"}`, `{sock: {path: .}}`, "rw", ""},
		"missing":                   {`{"container_path":"/s"}`, `{}`, "", "defines no such plug"},
		"writing to a read-only":    {`{"container_path":"/s"}`, `{sock: {path: ., read_only: true}}`, "", "read_only"},
		"not for this resource":     {`{"container_path":"/s"}`, `{sock: {path: ., resource_names: [^web]}}`, "", "does not allow"},
		"for this type":             {`{"container_path":"/s"}`, `{sock: {path: ., resource_names: [web], resource_types: [plu]}}`, "rw", ""},
		"of Deployster's own":       {`{"container_path":"/s"}`, `{sock: {path: .deployster/work}}`, "", "which no type may see"},
		"optional and missing":      {`{"container_path":"/s","optional":true}`, `{}`, "", ""},
		"optional and not writable": {`{"container_path":"/s","optional":true}`, `{sock: {path: ., read_only: true}}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			require.NoError(t, os.MkdirAll(filepath.Join(w.workspace, ".deployster", "work"), 0o700))
			w.engine.Images["plugged"] = answering(ask(tc.request), `{"status":"VALID","state":{}}`, 0)
			_, err := w.apply(t, "plugs: "+tc.plugs+"\nresources: {db: {type: plugged, config: {}}, other: {type: thing, config: {value: 1}}}")
			if tc.refuse != "" {
				assert.ErrorContains(t, err, tc.refuse)
				assert.Equal(t, 0, w.runs("set"))
				return
			}
			require.NoError(t, err)
			got := ""
			for _, run := range w.engine.Runs() {
				for _, m := range run.Spec.Mounts {
					if m.Target == "/s" {
						got = map[bool]string{true: "ro", false: "rw"}[m.ReadOnly]
					}
				}
			}
			assert.Equal(t, tc.mount, got, "mounted")
			if tc.mount == "" && !slices.ContainsFunc(w.events, func(e report.Event) bool { return e.Kind == report.Warning }) {
				t.Error("nobody was warned")
			}
		})
	}
}

func TestNoTypeSeesWhatDeploysterKeeps(t *testing.T) {
	w := newWorld(t)
	seen := map[string]bool{} // on this machine
	w.engine.Images["plugged"] = image(func(_ context.Context, c enginetest.Call) int {
		for _, name := range []string{w.workspace + "/.deployster/work/RUN", "/s/.deployster/work/RUN", "/s/../s/.deployster"} {
			if host, _, err := c.Host(name); err == nil {
				seen[host] = true
			}
		}
		if _, _, err := c.Host("/var/lib/deployster/work"); err != nil {
			return 1
		}
		fmt.Fprint(c.Stdout, map[bool]string{
			true:  `{"plugs":{"s":{"container_path":"/s"}},"state_action":{"args":["state"]}}`,
			false: `{"status":"VALID","state":{}}`,
		}[len(c.Args) == 0])
		return 0
	})
	w.mustApply(t, "plugs: {s: {path: .}}\nresources: {db: {type: plugged, config: {}}}")
	assert.Empty(t, seen)
}

func TestSecretsAreInNoEventAndNoFile(t *testing.T) {
	w := newWorld(t)
	w.fail["db"] = true
	const secret = `s3cr3t "quoted"`
	_, err := w.apply(t, "resources: {db: {type: thing, config: {value: {inner: 's3cr3t \"quoted\"'}, token: 's3cr3t \"quoted\"'}}}")
	require.Error(t, err, "it did not fail")
	everything := w.kept(t) + err.Error()
	for _, e := range append(w.events, w.logged...) {
		text, _ := json.Marshal(e)
		everything += string(text)
	}
	for _, form := range []string{secret, `s3cr3t \"quoted`, `s3cr3t \\\"quoted`, "s3cr3t"} {
		assert.NotContains(t, everything, form)
	}
	assert.Contains(t, everything, "setting db with (secret)", "the line with the secret is not there at all")
}

// Whatever the graph and whatever fails: nothing is looked at before what it depends on is verified, exactly what does
// not depend on a failure is applied, and every resource has one outcome.
func TestWorkDirectoryIsWritableAndTold(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["writer"] = image(func(_ context.Context, c enginetest.Call) int {
		if len(c.Args) == 0 {
			fmt.Fprint(c.Stdout, `{"state_action":{"args":["state"]}}`)
			return 0
		}
		for _, env := range c.Env {
			if dir, ok := strings.CutPrefix(env, "DEPLOYSTER_WORK="); ok {
				host, readOnly, err := c.Host(filepath.Join(dir, "note"))
				if err != nil || readOnly || os.WriteFile(host, nil, 0o600) != nil {
					return 1
				}
				fmt.Fprint(c.Stdout, `{"status":"VALID","state":{}}`)
				return 0
			}
		}
		return 1
	})
	_, err := w.apply(t, "resources: {db: {type: writer, config: {}}}")
	assert.NoError(t, err)
}

// crashing is a type whose resource never stays up, and that prints a secret.
var crashing = image(func(_ context.Context, c enginetest.Call) int {
	switch {
	case len(c.Args) == 0:
		fmt.Fprint(c.Stdout, `{"state_action":{"args":["state"]},"config_schema":{"properties":{"token":{"writeOnly":true}}}}`)
	case c.Args[0] == "state":
		fmt.Fprintln(c.Stderr, "last output: no such table, said hush-hush")
		fmt.Fprint(c.Stdout, `{"status":"STALE","staleState":{"token":"hush-hush"},"actions":[{"name":"start","description":"start it, as it exited with 3 (hush-hush)"}]}`)
	}
	return 0
})

// When a resource is not as configured after all its actions, what its type
// says about it is told: what it would do next and why, and what it said.
func TestWhatAResourceIsAfterItsActionsIsTold(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["crashing"] = crashing
	_, err := w.runner(t, `resources: {app: {type: crashing, config: {token: hush-hush}}}`).Apply(t.Context())
	require.Error(t, err, "it is applied")
	for _, want := range []string{`yet state answers STALE and asks for "start" (start it, as it exited with 3 ((secret)))`, "\n  │ last output: no such table, said (secret)"} {
		assert.Contains(t, err.Error(), want)
	}
	assert.NotContains(t, err.Error(), "no field in common")
	assert.NotContains(t, err.Error(), "hush-hush")
}

const telling = `
resources:
  web-site: {type: thing, for_each: [a, b], config: {value: '{{ each.key }}!'}}
  db: {type: thing, config: {value: 5432, token: hunter2}}
`

func (w *world) ended(t *testing.T) report.Event {
	e := w.logged[len(w.logged)-1]
	require.True(t, e.Kind == report.RunFinished || e.Kind == report.RunFailed, "the last event is %s", e.Kind)
	return e
}

func TestAnApplyTellsItsOutputs(t *testing.T) {
	w := newWorld(t)
	must.Get(w.apply(t, telling+`
outputs:
  port: {value: '{{ db.state.value }}', description: where it listens}
  all: '{{ web_site.values() | map(attribute="state.value") | sort | join(" ") }}'
  stage: '{{ stage }}'
  fixed: [1, '{{ db.name }}']
`))(t)
	got, _ := json.Marshal(w.ended(t).Outputs)
	const want = `{"outputs":{"all":{"value":"a! b!"},"fixed":{"value":[1,"db"]},"port":{"value":5432,"description":"where it listens"},"stage":{"value":"test"}}}`
	assert.Equal(t, want, string(got))
	line, _ := json.Marshal(encoding.LineOf(w.ended(t)))
	var read encoding.Line
	err := json.Unmarshal(line, &read)
	assert.True(t, err == nil && len(read.Event().Outputs.Outputs) == 4, "%s is read as %+v (%v)", line, read.Event(), err)
}

func TestASecretOutputIsNotTold(t *testing.T) {
	for name, output := range map[string]string{
		"the manifest says so":   "{value: '{{ db.state.value }}', writeOnly: true}",
		"it holds a secret":      "the token is hunter2",
		"it is within something": "[{a: hunter2}]",
		"its description is":     "{value: 5432, writeOnly: true, description: hunter2}",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustApply(t, telling+"\noutputs: {o: "+output+"}")
			all, _ := json.Marshal([]any{w.logged, w.events})
			o := w.ended(t).Outputs.Outputs["o"]
			assert.True(t, o.Secret && o.Value == nil && !strings.Contains(string(all)+w.kept(t), "hunter2"), "it is told as %+v", o)
			assert.NotNil(t, w.ended(t).Outputs.Secrets()["o"], "its value is not recorded")
			for _, e := range w.events {
				assert.Nil(t, e.Outputs.Secrets())
			}
		})
	}
}

func TestWhatIsNotAppliedTellsNothing(t *testing.T) {
	w := newWorld(t)
	w.fail["db"] = true
	if _, err := w.apply(t, telling+"\noutputs: {o: 1}"); err == nil || len(w.ended(t).Outputs.Outputs) != 0 {
		t.Errorf("a run that failed (%v) tells %+v", err, w.ended(t).Outputs)
	}
	w = newWorld(t)
	_, err := w.apply(t, telling+"\noutputs: {o: 1, p: '{{ db.state.nothing }}', q: '{{ db.state.value.hunter2 }}'}")
	if err == nil || !strings.Contains(err.Error(), "m.yaml:6:32: outputs.p: ") || strings.Contains(err.Error(), "hunter2") || w.ended(t).Kind != report.RunFailed || len(w.ended(t).Outputs.Outputs) != 0 {
		t.Errorf("outputs that cannot be evaluated: %v", err)
	}
	w = newWorld(t)
	some := func(o *options) { m := must.Get(o.Manifest.Select([]string{"db"}))(t); o.Manifest = m }
	w.mustApply(t, telling+"\noutputs: {o: '{{ db.name }}', p: '{{ web_site | length }}'}", some)
	got, _ := json.Marshal(w.ended(t).Outputs)
	assert.Equal(t, `{"outputs":{"o":{"value":"db"}},"outputs_unknown":["p"]}`, string(got), "an apply of some resources")
	w = newWorld(t)
	_, err = w.apply(t, telling+"\noutputs: {o: '{{ \"x\" * 600000 }}', p: '{{ \"x\" * 600000 }}'}")
	assert.ErrorContains(t, err, "more than 1 MiB", "outputs that are too large")
}

// Of what was there, and not as configured, the log says how it differed.
func TestWhatDiffersIsRecorded(t *testing.T) {
	w := newWorld(t)
	for _, step := range []struct {
		config string
		want   []string
	}{
		{"{value: 1, token: first}", nil}, // it did not exist
		{"{value: 2, token: second}", []string{"~ value: 1 → 2"}},
		{"{value: 2, token: second}", nil},
	} {
		w.forget()
		w.mustApply(t, "resources: {db: {type: thing, config: "+step.config+"}}")
		for _, e := range w.logged {
			if e.Kind != report.ResourceResolved {
				continue
			}
			text := strings.Join(e.Differs, "\n")
			for _, line := range step.want {
				assert.Contains(t, text, line, "%s: %q is not in %q", step.config, line, text)
			}
			assert.True(t, (len(step.want) != 0 || text == "") && !strings.Contains(text, "first") &&
				!strings.Contains(text, "second"), "%s: %q", step.config, text)
		}
	}
}
