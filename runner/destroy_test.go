package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// removable makes "thing" a type that can remove, by the action "unset". That
// it was asked whether it is gone is traced as "absent NAME".
func removable(w *world) *world {
	w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
		text, _ := io.ReadAll(c.Stdin)
		var in protocol.ActionInput
		if json.Unmarshal(text, &in) != nil {
			return 3
		}
		action := append(slices.Clone(c.Args), "init")[0]
		switch {
		case action == "init":
			fmt.Fprint(c.Stdout, strings.Replace(thingInit, "{", `{"removable": true,`, 1))
			return 0
		case in.Ensure == protocol.Absent && action == "state":
			action = "absent"
		case action != "unset":
			c.Stdin = bytes.NewReader(text)
			return w.thing(ctx, c)
		}
		if w.before != nil {
			w.before(action, in.Name)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.trace = append(w.trace, action+" "+in.Name)
		have, exists := w.things[in.Name]
		switch {
		case action == "unset" && (w.fail[in.Name] || in.Ensure != protocol.Absent):
			fmt.Fprintln(c.Stderr, "it would not go")
			return 7
		case action == "unset":
			delete(w.things, in.Name)
		case exists:
			answer, _ := protocol.AnswerStale(map[string]any{"value": have}, protocol.Do("unset", "remove it"))
			_ = json.NewEncoder(c.Stdout).Encode(answer)
		default:
			fmt.Fprint(c.Stdout, `{"status":"VALID","state":{}}`)
		}
		return 0
	})
	return w
}

// destroy destroys what a manifest made and returns the outcome of each
// resource.
func (w *world) destroy(t testing.TB, text string, change ...func(*options)) (map[string]report.Status, error) {
	t.Helper()
	result, err := w.runner(t, text, change...).Destroy(t.Context())
	statuses := map[string]report.Status{}
	for _, r := range result.Resources {
		statuses[r.Name] = r.Status
	}
	return statuses, err
}

// applied is a world in which a manifest was applied.
func applied(t testing.TB, text string) *world {
	t.Helper()
	w := removable(newWorld(t.(*testing.T)))
	if _, err := w.apply(t, text); err != nil {
		t.Fatal(err)
	}
	w.forget()
	return w
}

func remove(names ...string) func(*options) {
	return func(o *options) { o.Remove = names }
}

func keepGoing(o *options) { o.KeepGoing = true }

// known answers for a log that knows these to be gone.
func known(names ...string) func(*options) {
	return func(o *options) {
		o.Absence = func(_ context.Context, name string) (runner.Absence, error) {
			if slices.Contains(names, name) {
				return runner.Verified, nil
			}
			return runner.Unproven, nil
		}
	}
}

func TestDestroyRemovesWhatAnApplyMade(t *testing.T) {
	w := applied(t, chain)
	got, err := w.destroy(t, chain)
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, got, map[string]report.Status{"db": report.Destroyed, "api": report.Destroyed, "other": report.Destroyed})
	if len(w.things) > 0 {
		t.Errorf("left are %v", w.things)
	}
	if !before(w.trace, "unset api", "absent db") {
		t.Errorf("db was asked about before api was gone: %v", w.trace)
	}
	if n := w.runs("state"); n != 1 {
		t.Errorf("only db's state is needed, and %d were asked for: %v", n, w.trace)
	}

	w.forget()
	got, err = w.destroy(t, chain, known("api"))
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, got, map[string]report.Status{"db": report.Absent, "api": report.Absent, "other": report.Absent})
	if w.runs("unset") != 0 {
		t.Errorf("what was gone was removed again: %v", w.trace)
	}
}

func TestEveryStepOfADestroyIsRecorded(t *testing.T) {
	const text = "resources: {db: {type: thing, config: {value: 1}}}"
	w := applied(t, text)
	if _, err := w.destroy(t, text); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"run-started", "resource-initialized db", "resource-started db", "resource-resolved db",
		"action-started db unset", "action-finished-successfully db unset", "resource-destroyed db",
		"resource-finished-successfully db", "run-finished-successfully",
	}
	if got := w.names(); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for i, status := range map[int]report.Status{3: report.Present, 6: report.Absent, 7: report.Destroyed} {
		if w.logged[i].Status != status {
			t.Errorf("%s tells %s, want %s", w.logged[i].Kind, w.logged[i].Status, status)
		}
	}
	if last := w.logged[len(w.logged)-1]; last.Counts != (report.Counts{Changed: 1}) {
		t.Errorf("counted %+v", last.Counts)
	}
}

func TestWhatIsOnlyObservedIsLeftAlone(t *testing.T) {
	const text = `
resources:
  base: {type: thing, config: {value: 1}}
  theirs: {type: bolted, readonly: true, dependencies: {b: base}, config: {value: "{{ b.state.value }}"}}
  ours: {type: thing, dependencies: {t: theirs}, config: {value: "{{ t.state.value }}"}}
`
	w := removable(newWorld(t))
	w.engine.Images["bolted"] = image(w.thing)
	for _, name := range []string{"base", "theirs", "ours"} {
		w.things[name] = 1
	}
	got, err := w.destroy(t, text)
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, got, map[string]report.Status{"base": report.Destroyed, "theirs": report.Skipped, "ours": report.Destroyed})
	if len(w.things) != 1 || !before(w.trace, "unset ours", "absent base") {
		t.Errorf("left are %v, after %v", w.things, w.trace)
	}
	i := slices.IndexFunc(w.logged, func(e report.Event) bool { return e.Kind == report.ResourceSkipped })
	if i < 0 || w.logged[i].Error != "only observed: left alone" {
		t.Errorf("the log does not tell why theirs is left: %v", w.names())
	}
}

// What is left alone, and needed by nothing that goes, is none of a destroy's
// business: not even its type need be there.
func TestATypeThatIsNotNeededIsNotInitialized(t *testing.T) {
	const text = `
resources:
  ours: {type: thing, config: {value: 1}}
  theirs: {type: "gone:1", readonly: true, dependencies: {o: ours}, config: {value: 1}}
`
	w := removable(newWorld(t))
	w.things["ours"] = 1
	r := w.runner(t, text)
	plan, err := r.PlanDestroy(t.Context())
	if err != nil || len(plan.Resources) != 2 || plan.Resources[0].Status != report.Skipped {
		t.Fatalf("%+v, %v", plan, err)
	}
	got, err := r.Destroy(t.Context())
	if err != nil || len(got.Resources) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if headers := w.logged[0].Resources; len(headers) != 2 {
		t.Errorf("it began with %v", headers)
	}
	if w.runs("init") > 0 && slices.Contains(w.trace, "init theirs") || len(w.things) > 0 {
		t.Errorf("it did %v, left are %v", w.trace, w.things)
	}
}

func TestAStateThatIsStaleServesToResolve(t *testing.T) {
	w := applied(t, chain)
	w.things["db"] = "drifted"
	w.things["api"] = "drifted"
	if got, err := w.destroy(t, chain); err != nil || len(w.things) > 0 {
		t.Errorf("%v, %v, left are %v", got, err, w.things)
	}
}

func TestATargetIsRemovedWithoutWhatItDependsOn(t *testing.T) {
	w := applied(t, chain)
	got, err := w.destroy(t, chain, remove("api"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got["api"] != report.Destroyed || len(w.things) != 2 {
		t.Errorf("%v, left are %v", got, w.things)
	}
	for _, name := range w.names() {
		if strings.Contains(name, "other") || strings.HasSuffix(name, "db") && name != "resource-initialized db" {
			t.Errorf("recorded %q", name)
		}
	}
	if w.runs("absent") != 2 {
		t.Errorf("it asked for %v", w.trace)
	}
}

func TestAFailureKeepsWhatTheResourceDependsOn(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*options)
		want   map[string]report.Status
	}{
		{"and ends the run", func(o *options) { o.Parallelism = 1 }, map[string]report.Status{
			"a2": report.Failed, "a1": report.Skipped, "a": report.Skipped, "z": report.Skipped, "z1": report.Destroyed,
		}},
		{"and goes on elsewhere", keepGoing, map[string]report.Status{
			"a2": report.Failed, "a1": report.Skipped, "a": report.Skipped, "z": report.Destroyed, "z1": report.Destroyed,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := applied(t, forest)
			w.fail["a2"] = true
			got, err := w.destroy(t, forest, tc.change)
			if err == nil || !strings.Contains(err.Error(), `a2: action "unset" exited with 7`) {
				t.Errorf("got %v", err)
			}
			wantStatuses(t, got, tc.want)
		})
	}
}

func TestWhatIsStillThereAfterItsActionsFails(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["sticky"] = answering(`{"removable":true,"state_action":{"args":["state"]}}`, `{"status":"STALE","staleState":{},"actions":[{"name":"pull"}]}`, 0)
	_, err := w.destroy(t, "resources: {db: {type: sticky, config: {}}}")
	if err == nil || !strings.Contains(err.Error(), `it is still there: state asks for "pull"`) {
		t.Errorf("got %v", err)
	}
}

func TestDestroyAsksAsOftenAsIsWanted(t *testing.T) {
	for mode, asked := range map[runner.ConfirmMode]int{runner.ConfirmNo: 0, runner.ConfirmResource: 3, runner.ConfirmAction: 3} {
		w := applied(t, chain)
		w.yes = func(runner.Question) bool { return true }
		if _, err := w.destroy(t, chain, func(o *options) { o.Confirm = mode }); err != nil || len(w.asked) != asked {
			t.Errorf("%s: asked %d times, want %d; %v", mode, len(w.asked), asked, err)
		}
		for _, q := range w.asked {
			if len(q.Diff) > 0 || len(q.Actions) != 1 || q.Actions[0].Name != "unset" {
				t.Errorf("asked %+v", q)
			}
		}
	}
	w := applied(t, chain)
	w.yes = func(runner.Question) bool { return false }
	_, err := w.destroy(t, chain, func(o *options) { o.Confirm = runner.ConfirmAction })
	if err == nil || !strings.Contains(err.Error(), "declined") || len(w.things) != 3 {
		t.Errorf("declined: %v, left are %v", err, w.things)
	}
}

func TestStoppingADestroyLetsTheRunningActionFinish(t *testing.T) {
	w := applied(t, chain)
	stop := make(chan struct{})
	w.before = func(action, _ string) {
		if action == "unset" {
			close(stop)
		}
	}
	_, err := w.destroy(t, chain, func(o *options) { o.Stop, o.Parallelism = stop, 1 })
	if !errors.Is(err, runner.ErrInterrupted) || len(w.things) != 2 {
		t.Errorf("got %v, left are %v", err, w.things)
	}
	if last := w.logged[len(w.logged)-1]; last.Kind != report.RunFailed || last.Data["interrupted"] != "true" {
		t.Errorf("the log ends with %+v", last)
	}
}

func TestPlanDestroySaysWhatWouldBeRemovedAndDoesNothing(t *testing.T) {
	w := applied(t, chain)
	delete(w.things, "other")
	r := w.runner(t, chain)
	plan, err := r.PlanDestroy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, p := range plan.Resources {
		said = append(said, fmt.Sprintf("%s %s %d", p.Name, p.Status, len(p.Actions)))
	}
	if want := []string{"api PRESENT 1", "other ABSENT 0", "db PRESENT 1"}; !slices.Equal(said, want) && !slices.Equal(said, []string{"other ABSENT 0", "api PRESENT 1", "db PRESENT 1"}) {
		t.Errorf("got %v", said)
	}
	if !plan.Destroy || !plan.Changes() || len(w.logged) > 0 || w.runs("unset") > 0 {
		t.Errorf("a plan did %v and recorded %v", w.trace, w.names())
	}
	if _, err := r.Destroy(t.Context()); err != nil || len(w.things) > 0 {
		t.Errorf("after its plan: %v, left are %v", err, w.things)
	}
	plan, err = w.runner(t, chain, known("api")).PlanDestroy(t.Context())
	if err != nil || plan.Changes() {
		t.Errorf("there is nothing left to remove: %+v, %v", plan, err)
	}
}
