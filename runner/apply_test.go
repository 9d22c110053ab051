package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
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
	got, err := w.apply(t, chain)
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, got, map[string]report.Status{"db": report.Changed, "api": report.Changed, "other": report.Changed})
	if want := map[string]any{"port": 5432.0, "hosts": []any{"a", "b"}}; !reflect.DeepEqual(w.things["api"], want) {
		t.Errorf("a single expression keeps its native type: got %#v", w.things["api"])
	}
	if w.things["other"] != "on test" {
		t.Errorf("got %v", w.things["other"])
	}
	if !before(w.trace, "set db", "state api") {
		t.Errorf("api was looked at before db was applied: %v", w.trace)
	}

	w.forget()
	got, err = w.apply(t, chain)
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, got, map[string]report.Status{"db": report.Unchanged, "api": report.Unchanged, "other": report.Unchanged})
	if n := w.runs("set"); n != 0 {
		t.Errorf("a second apply ran %d actions", n)
	}
}

func TestEveryStepIsRecorded(t *testing.T) {
	w := newWorld(t)
	if _, err := w.apply(t, "resources: {db: {type: thing, config: {value: 1}}}"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"run-started", "resource-initialized db", "resource-started db", "resource-resolved db",
		"action-started db set", "action-finished-successfully db set", "resource-verified db",
		"resource-finished-successfully db", "run-finished-successfully",
	}
	if got := w.names(); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestWhatContainersRead(t *testing.T) {
	w := newWorld(t)
	w.things["db"] = "old"
	if _, err := w.apply(t, "resources: {db: {type: thing, config: {value: new}}}"); err != nil {
		t.Fatal(err)
	}
	common := fmt.Sprintf(`"name":"db","type":"thing","version":"1.2.3","verbose":false,"workspace":%q`, w.workspace)
	for i, want := range []string{
		`{` + common + `}`,
		`{` + common + `,"config":{"value":"new"},"id":"LOG/db"}`,
		`{` + common + `,"config":{"value":"new"},"id":"LOG/db","staleState":{"value":"old"}}`,
	} {
		var document map[string]any
		if err := json.Unmarshal([]byte(want), &document); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(w.inputs[i], document) {
			t.Errorf("container %d read\n%v, want\n%v", i, w.inputs[i], document)
		}
	}
	kept := w.kept(t)
	for _, file := range []string{"db/01-init.stdin.json", "db/02-state.stdout", "db/03-set.stdout", "db/04-state.stdout"} {
		if !strings.Contains(kept, file) {
			t.Errorf("%s was not kept", file)
		}
	}
	for _, run := range w.engine.Runs() {
		for label, want := range map[string]string{invoke.LabelRun: "RUN", invoke.LabelLog: "LOG", invoke.LabelResource: "db", invoke.LabelAttempt: "1"} {
			if run.Spec.Labels[label] != want {
				t.Errorf("label %s is %q", label, run.Spec.Labels[label])
			}
		}
		if !slices.Contains(run.Spec.Mounts, engine.Mount{Source: w.workspace, Target: w.workspace, ReadOnly: true}) || run.Spec.WorkDir != w.workspace {
			t.Errorf("the workspace is not there: %+v", run.Spec)
		}
	}
}

func TestActionsOfAResourceThatDoesNotExistReadAnEmptyStaleState(t *testing.T) {
	w := newWorld(t)
	if _, err := w.apply(t, "resources: {db: {type: thing, config: {value: 1}}}"); err != nil {
		t.Fatal(err)
	}
	if got, ok := w.inputs[2]["staleState"].(map[string]any); !ok || len(got) != 0 {
		t.Errorf("got %v", w.inputs[2]["staleState"])
	}
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
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), `a: action "set" exited with 7`) {
		t.Errorf("got %v", err)
	}
	wantStatuses(t, got, map[string]report.Status{
		"a": report.Failed, "a1": report.Skipped, "a2": report.Skipped, "z": report.Skipped, "z1": report.Skipped,
	})
	i := slices.IndexFunc(w.logged, func(e report.Event) bool { return e.Kind == report.ActionFailed })
	if e := w.logged[i]; *e.Exit != 7 || !slices.Contains(e.Output, "it would not budge") {
		t.Errorf("the event does not tell what was said: %+v", e)
	}
}

func TestKeepGoingSkipsOnlyWhatDependsOnTheFailure(t *testing.T) {
	w := newWorld(t)
	w.fail["a"] = true
	got, err := w.apply(t, forest, func(o *options) { o.KeepGoing, o.Parallelism = true, 1 })
	if err == nil {
		t.Error("a run with a failure succeeded")
	}
	wantStatuses(t, got, map[string]report.Status{
		"a": report.Failed, "a1": report.Skipped, "a2": report.Skipped, "z": report.Changed, "z1": report.Changed,
	})
}

func TestReadOnlyResourcesAreNeverChanged(t *testing.T) {
	w := newWorld(t)
	w.things["db"] = 1
	const text = "resources: {db: {type: thing, readonly: true, config: {value: %d}}}"
	if got, err := w.apply(t, fmt.Sprintf(text, 1)); err != nil || got["db"] != report.Unchanged {
		t.Errorf("as configured: %v, %v", got, err)
	}
	_, err := w.apply(t, fmt.Sprintf(text, 2))
	if err == nil || !strings.Contains(err.Error(), "read-only") || !strings.Contains(err.Error(), "~ value: 1 → 2") {
		t.Errorf("the error does not show the difference: %v", err)
	}
	if w.runs("set") != 0 {
		t.Error("an action ran")
	}
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
			if _, err := w.apply(t, two, func(o *options) { o.Confirm = tc.mode }); err != nil {
				t.Fatal(err)
			}
			if len(w.asked) != tc.asked {
				t.Errorf("asked %d times, want %d", len(w.asked), tc.asked)
			}
		})
	}
	t.Run("declined", func(t *testing.T) {
		w := newWorld(t)
		w.engine.Images["two-step"] = image(w.twoStep)
		w.yes = func(q runner.Question) bool { return q.Actions[0].Name != "second" }
		got, err := w.apply(t, "resources: {a: {type: two-step, config: {}}}", func(o *options) { o.Confirm = runner.ConfirmAction })
		if err == nil || !strings.Contains(err.Error(), "declined") || got["a"] != report.Failed {
			t.Errorf("got %v, %v", got, err)
		}
		if w.runs("first") != 1 || w.runs("second") != 0 {
			t.Errorf("ran %v", w.trace)
		}
	})
}

// Who quits has declined all that was still to begin, also where a failure would
// not stop the rest.
func TestQuitting(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["two-step"] = image(w.twoStep)
	w.yes = func(q runner.Question) bool { return q.Actions[0].Name != "second" }
	w.declines = failure.ErrQuit
	got, err := w.apply(t, "resources: {a: {type: two-step, config: {}}, b: {type: two-step, config: {}}, c: {type: two-step, config: {}}}", func(o *options) {
		o.Confirm, o.KeepGoing, o.Parallelism = runner.ConfirmAction, true, 1
	})
	if !errors.Is(err, failure.ErrQuit) || errors.Is(err, runner.ErrInterrupted) {
		t.Errorf("it ended with %v", err)
	}
	want := map[string]report.Status{"a": report.Failed, "b": report.Skipped, "c": report.Skipped}
	if !maps.Equal(got, want) || w.runs("first") != 1 || w.runs("second") != 0 || len(w.asked) != 2 {
		t.Errorf("got %v after %d questions, ran %v", got, len(w.asked), w.trace)
	}
	last := w.logged[len(w.logged)-1]
	if last.Kind != report.RunFailed || !strings.Contains(last.Error, "declined") {
		t.Errorf("the log ends with %+v", last)
	}
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
	if _, err := w.apply(t, "resources: {vm: {type: main, config: {}}}"); err != nil {
		t.Fatal(err)
	}
	if ran.Entrypoint != "/bin/slack" || !slices.Equal(ran.Args, []string{"--room=x"}) {
		t.Errorf("ran %+v", ran)
	}
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
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"m.yaml:8:", "resources.bad.config.count", "integer", "resources.worse.config", "value"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if w.runs("state")+w.runs("set") != 0 {
		t.Errorf("something ran: %v", w.trace)
	}
}

func TestPlugs(t *testing.T) {
	ask := func(request string) string {
		return `{"plugs":{"sock":` + request + `},"state_action":{"args":["state"]}}`
	}
	for name, tc := range map[string]struct {
		request string
		plugs   string
		mount   string // "ro", "rw" or none
		refuse  string
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
			if err := os.MkdirAll(filepath.Join(w.workspace, ".deployster", "work"), 0o700); err != nil {
				t.Fatal(err)
			}
			w.engine.Images["plugged"] = answering(ask(tc.request), `{"status":"VALID","state":{}}`, 0)
			_, err := w.apply(t, "plugs: "+tc.plugs+"\nresources: {db: {type: plugged, config: {}}, other: {type: thing, config: {value: 1}}}")
			if tc.refuse != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refuse) || w.runs("set") != 0 {
					t.Errorf("got %v, ran %v", err, w.trace)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, run := range w.engine.Runs() {
				for _, m := range run.Spec.Mounts {
					if m.Target == "/s" {
						got = map[bool]string{true: "ro", false: "rw"}[m.ReadOnly]
					}
				}
			}
			if got != tc.mount {
				t.Errorf("mounted %q, want %q", got, tc.mount)
			}
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
	if _, err := w.apply(t, "plugs: {s: {path: .}}\nresources: {db: {type: plugged, config: {}}}"); err != nil {
		t.Fatal(err)
	}
	if len(seen) > 0 {
		t.Errorf("types see %v", seen)
	}
}

func TestSecretsAreInNoEventAndNoFile(t *testing.T) {
	w := newWorld(t)
	w.fail["db"] = true
	const secret = `s3cr3t "quoted"`
	_, err := w.apply(t, "resources: {db: {type: thing, config: {value: {inner: 's3cr3t \"quoted\"'}, token: 's3cr3t \"quoted\"'}}}")
	if err == nil {
		t.Fatal("it did not fail")
	}
	everything := w.kept(t) + err.Error()
	for _, e := range append(w.events, w.logged...) {
		text, _ := json.Marshal(e)
		everything += string(text)
	}
	for _, form := range []string{secret, `s3cr3t \"quoted`, `s3cr3t \\\"quoted`, "s3cr3t"} {
		if strings.Contains(everything, form) {
			t.Errorf("%q is told", form)
		}
	}
	if !strings.Contains(everything, "setting db with (secret)") {
		t.Error("the line with the secret is not there at all")
	}
}

// Whatever the graph and whatever fails: nothing is looked at before what it
// depends on is verified, exactly what does not depend on a failure is applied,
// and every resource has one outcome.
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
	if _, err := w.apply(t, "resources: {db: {type: writer, config: {}}}"); err != nil {
		t.Error(err)
	}
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
	if err == nil {
		t.Fatal("it is applied")
	}
	for _, want := range []string{`yet state answers STALE and asks for "start" (start it, as it exited with 3 ((secret)))`, "\n  │ last output: no such table, said (secret)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %s\nwant %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "no field in common") || strings.Contains(err.Error(), "hush-hush") {
		t.Errorf("it says %s", err)
	}
}
