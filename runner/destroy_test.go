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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/invoke"
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

// destroy destroys what a manifest made and returns the outcome of each resource.
func (w *world) destroy(t testing.TB, text string, change ...func(*options)) (map[string]report.Status, error) {
	result, err := w.runner(t, text, change...).Destroy(t.Context())
	statuses := map[string]report.Status{}
	for _, r := range result.Resources {
		statuses[r.Name] = r.Status
	}
	return statuses, err
}

func (w *world) mustDestroy(t testing.TB, text string, change ...func(*options)) map[string]report.Status {
	return must.Get(w.destroy(t, text, change...))(t)
}

func applied(t testing.TB, text string) *world {
	w := removable(newWorld(t))
	w.mustApply(t, text)
	w.forget()
	return w
}

func remove(names ...string) func(*options) { return func(o *options) { o.Remove = names } }
func keepGoing(o *options)                  { o.KeepGoing = true }

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
	got := w.mustDestroy(t, chain)
	wantStatuses(t, got, map[string]report.Status{"db": report.Destroyed, "api": report.Destroyed, "other": report.Destroyed})
	assert.Empty(t, w.things)
	assert.True(t, before(w.trace, "unset api", "absent db"), "db was asked about before api was gone")
	assert.Equal(t, 1, w.runs("state"), "only the state of db is needed")
	w.forget()
	got = w.mustDestroy(t, chain, known("api"))
	wantStatuses(t, got, map[string]report.Status{"db": report.Absent, "api": report.Absent, "other": report.Absent})
	assert.Equal(t, 0, w.runs("unset"), "what was gone was removed again: %v", w.trace)
}

func TestEveryStepOfADestroyIsRecorded(t *testing.T) {
	const text = "resources: {db: {type: thing, config: {value: 1}}}"
	w := applied(t, text)
	w.mustDestroy(t, text)
	assert.Equal(t, []string{
		"run-started", "resource-initialized db", "resource-started db", "resource-resolved db",
		"action-started db unset", "action-finished-successfully db unset", "resource-destroyed db",
		"resource-finished-successfully db", "run-finished-successfully",
	}, w.names())
	for i, status := range map[int]report.Status{3: report.Present, 6: report.Absent, 7: report.Destroyed} {
		assert.Equal(t, status, w.logged[i].Status)
	}
	assert.Equal(t, (report.Counts{Changed: 1}), w.ended(t).Counts)
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
	got := w.mustDestroy(t, text)
	wantStatuses(t, got, map[string]report.Status{"base": report.Destroyed, "theirs": report.Skipped, "ours": report.Destroyed})
	assert.Len(t, w.things, 1)
	assert.True(t, before(w.trace, "unset ours", "absent base"))
	i := slices.IndexFunc(w.logged, func(e report.Event) bool { return e.Kind == report.ResourceSkipped })
	require.GreaterOrEqual(t, i, 0)
	assert.Equal(t, "only observed: left alone", w.logged[i].Error)
}

// What is left alone, and needed by nothing that goes, is none of a destroy's business: not even its type need be there.
func TestATypeThatIsNotNeededIsNotInitialized(t *testing.T) {
	const text = `
resources:
  ours: {type: thing, config: {value: 1}}
  theirs: {type: "gone:1", readonly: true, dependencies: {o: ours}, config: {value: 1}}
`
	w := removable(newWorld(t))
	w.things["ours"] = 1
	r := w.runner(t, text)
	plan := must.Get(r.PlanDestroy(t.Context()))(t)
	require.True(t, len(plan.Resources) == 2 && plan.Resources[0].Status == report.Skipped, "%+v", plan)
	assert.Len(t, must.Get(r.Destroy(t.Context()))(t).Resources, 2)
	assert.Len(t, w.logged[0].Resources, 2)
	assert.True(t, (w.runs("init") == 0 || !slices.Contains(w.trace, "init theirs")) &&
		len(w.things) == 0, "it did %v, left are %v", w.trace, w.things)
}

func TestAStateThatIsStaleServesToResolve(t *testing.T) {
	w := applied(t, chain)
	w.things["db"] = "drifted"
	w.things["api"] = "drifted"
	w.mustDestroy(t, chain)
	assert.Empty(t, w.things)
}

func TestATargetIsRemovedWithoutWhatItDependsOn(t *testing.T) {
	w := applied(t, chain)
	got := w.mustDestroy(t, chain, remove("api"))
	assert.True(t, len(got) == 1 && got["api"] == report.Destroyed && len(w.things) == 2, "%v, left are %v", got, w.things)
	for _, name := range w.names() {
		assert.True(t, !strings.Contains(name, "other") &&
			(!strings.HasSuffix(name, "db") || name == "resource-initialized db"), "recorded %q", name)
	}
	assert.Equal(t, 2, w.runs("absent"), "it asked for %v", w.trace)
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
			assert.ErrorContains(t, err, `a2: action "unset" exited with 7`)
			wantStatuses(t, got, tc.want)
		})
	}
}

func TestWhatIsStillThereAfterItsActionsFails(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["sticky"] = answering(`{"removable":true,"state_action":{"args":["state"]}}`, `{"status":"STALE","staleState":{},"actions":[{"name":"pull"}]}`, 0)
	_, err := w.destroy(t, "resources: {db: {type: sticky, config: {}}}")
	assert.ErrorContains(t, err, `it is still there: state asks for "pull"`)
}

func TestDestroyAsksAsOftenAsIsWanted(t *testing.T) {
	for mode, asked := range map[runner.ConfirmMode]int{runner.ConfirmNo: 0, runner.ConfirmResource: 3, runner.ConfirmAction: 3} {
		w := applied(t, chain)
		w.yes = func(runner.Question) bool { return true }
		w.mustDestroy(t, chain, func(o *options) { o.Confirm = mode })
		assert.Len(t, w.asked, asked)
		for _, q := range w.asked {
			assert.True(t, len(q.Diff) == 0 && len(q.Actions) == 1 && q.Actions[0].Name == "unset", "asked %+v", q)
		}
	}
	w := applied(t, chain)
	w.yes = func(runner.Question) bool { return false }
	assert.ErrorContains(t, must.Fail(w.destroy(t, chain, func(o *options) { o.Confirm = runner.ConfirmAction })), "declined")
	assert.Len(t, w.things, 3)
}

func TestStoppingADestroyLetsTheRunningActionFinish(t *testing.T) {
	w := applied(t, chain)
	stop := make(chan struct{})
	w.before = func(action, _ string) {
		if action == "unset" {
			close(stop)
		}
	}
	assert.ErrorIs(t, must.Fail(w.destroy(t, chain, func(o *options) { o.Stop, o.Parallelism = stop, 1 })), runner.ErrInterrupted)
	assert.Len(t, w.things, 2)
	last := w.ended(t)
	assert.True(t, last.Kind == report.RunFailed && last.Data["interrupted"] == "true", "the log ends with %+v", last)
}

func TestPlanDestroySaysWhatWouldBeRemovedAndDoesNothing(t *testing.T) {
	w := applied(t, chain)
	delete(w.things, "other")
	r := w.runner(t, chain)
	plan := must.Get(r.PlanDestroy(t.Context()))(t)
	var said []string
	for _, p := range plan.Resources {
		said = append(said, fmt.Sprintf("%s %s %d", p.Name, p.Status, len(p.Actions)))
	}
	if want := []string{"api PRESENT 1", "other ABSENT 0", "db PRESENT 1"}; !slices.Equal(said, want) && !slices.Equal(said, []string{"other ABSENT 0", "api PRESENT 1", "db PRESENT 1"}) {
		t.Errorf("got %v", said)
	}
	assert.True(t, plan.Destroy && plan.Changes() && len(w.logged) == 0 &&
		w.runs("unset") == 0, "a plan did %v and recorded %v", w.trace, w.names())
	_, err := r.Destroy(t.Context())
	assert.True(t, err == nil && len(w.things) == 0, "after its plan: %v, left are %v", err, w.things)
	plan = must.Get(w.runner(t, chain, known("api")).PlanDestroy(t.Context()))(t)
	assert.False(t, plan.Changes())
}

func TestATypeThatCanNotRemoveRefusesBeforeAnythingIsDone(t *testing.T) {
	const text = `resources:
  base: {type: thing, config: {value: 1}}
  fixed: {type: bolted, dependencies: {b: base}, config: {value: 1}}
  top: {type: thing, dependencies: {f: fixed}, config: {value: 1}}
  also: {type: bolted, config: {value: 1}}
  cache: {type: thing, config: {value: 1}}
  warm: {type: thing, dependencies: {c: cache}, config: {value: 1}}
`
	w := removable(newWorld(t))
	w.engine.Images["bolted"] = image(w.thing)
	w.mustApply(t, text)
	w.forget()
	got, err := w.destroy(t, text, keepGoing)
	var invalid *manifest.Error
	require.ErrorAs(t, err, &invalid)
	want := `m.yaml:3:3: resources.fixed: its type bolted cannot remove it: its init does not answer "removable": true; "readonly: true" would leave it alone
m.yaml:5:3: resources.also: its type bolted cannot remove it: its init does not answer "removable": true; "readonly: true" would leave it alone
nothing was removed; the rest can be, with --target top --target cache`
	assert.Equal(t, want, err.Error())
	if len(w.trace) > 2 || w.runs("unset")+w.runs("absent") > 0 { // two inits of bolted
		t.Errorf("it did %v", w.trace)
	}
	wantStatuses(t, got, map[string]report.Status{"fixed": report.Failed, "also": report.Failed, "base": report.Skipped, "top": report.Skipped, "cache": report.Skipped})
	assert.Len(t, w.mustDestroy(t, text, remove("top", "cache", "warm")), 3)
	assert.Len(t, w.things, 3)
}

func TestWhetherAllCanBeRemovedIsKnownBeforeAnythingIsMade(t *testing.T) {
	const text = `resources:
  base: {type: thing, config: {value: 1}}
  left: {type: bolted, readonly: true, config: {value: 1}}
`
	w := removable(newWorld(t))
	w.engine.Images["bolted"] = image(w.thing)
	assert.NoError(t, w.runner(t, text).Removable(t.Context()))
	err := w.runner(t, text+"  fixed: {type: bolted, dependencies: {b: base}, config: {value: 1}}\n").Removable(t.Context())
	var invalid *manifest.Error
	want := `m.yaml:4:3: resources.fixed: its type bolted cannot remove it: its init does not answer "removable": true; "readonly: true" would leave it alone`
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, want, err.Error())
	err = w.runner(t, "resources: {base: {type: thing, config: {}}}").Removable(t.Context())
	assert.ErrorAs(t, err, &invalid, "a configuration that its type refuses")
	assert.Equal(t, len(w.trace), w.runs("init"))
	assert.Empty(t, w.logged)
}

// chainOfUnknown is a chain with a resource at its end, whose configuration is not known when those before it are not.
const chainOfUnknown = chain + `  deep: {type: thing, dependencies: {api: api}, config: {value: "{{ api.state.value }}"}}
`

func TestAConfigurationThatCannotBeKnownRefusesBeforeAnythingIsDone(t *testing.T) {
	w := applied(t, chainOfUnknown)
	delete(w.things, "db")
	got, err := w.destroy(t, chainOfUnknown)
	var failed *failure.Error
	require.ErrorAs(t, err, &failed)
	for _, want := range []string{
		"api: its type cannot be asked whether it is there: its configuration (m.yaml:7:13) needs the state of db, which does not exist; apply first",
		"deep: its type cannot be asked whether it is there: its configuration (m.yaml:9:57) needs the state of api, which is not known either",
		"nothing was removed; the rest can be, with --keep-going, or with --target other",
	} {
		assert.Contains(t, err.Error(), want, "got\n%v\nwhich does not say\n%s", err, want)
	}
	wantStatuses(t, got, map[string]report.Status{"db": report.Skipped, "api": report.Failed, "deep": report.Failed, "other": report.Skipped})
	assert.Equal(t, 0, w.runs("unset")+w.runs("absent"), "it did %v", w.trace)
}

// What it depends on is skipped with it.
func TestAConfigurationThatCannotBeKnownFailsOnlyItselfWhenTheRestGoesOn(t *testing.T) {
	w := applied(t, chainOfUnknown)
	delete(w.things, "db")
	got, err := w.destroy(t, chainOfUnknown, keepGoing)
	assert.Error(t, err, "it succeeded")
	wantStatuses(t, got, map[string]report.Status{"db": report.Skipped, "api": report.Skipped, "deep": report.Failed, "other": report.Destroyed})
	once(t, w)
}

func TestAConfigurationThatCannotBeKnownDoesNotMatterWhenItIsKnownToBeGone(t *testing.T) {
	w := applied(t, chainOfUnknown)
	for _, name := range []string{"db", "api", "deep"} {
		delete(w.things, name)
	}
	got := w.mustDestroy(t, chainOfUnknown, known("api", "deep"))
	assert.Empty(t, w.things)
	wantStatuses(t, got, map[string]report.Status{"db": report.Absent, "api": report.Absent, "deep": report.Absent, "other": report.Destroyed})
	assert.True(t, slices.ContainsFunc(w.logged, func(e report.Event) bool {
		return e.Kind == report.ResourceResolved && e.Resource == "api" && e.Data["by"] == "log"
	}), "nobody is told that api was not asked")
}

func TestAConfigurationThatCannotBeKnownIsSkippedWhenNoRunEverCameToIt(t *testing.T) {
	w := applied(t, chainOfUnknown)
	for _, name := range []string{"db", "api", "deep"} {
		delete(w.things, name)
	}
	unmade := func(o *options) {
		o.Absence = func(context.Context, string) (runner.Absence, error) { return runner.NeverCreated, nil }
	}
	plan := must.Get(w.runner(t, chainOfUnknown, unmade).PlanDestroy(t.Context()))(t)
	for _, r := range plan.Resources {
		if unasked := r.Name == "api" || r.Name == "deep"; unasked != (r.Status == report.Skipped && strings.Contains(r.Error, "never applied, as far as the log knows; not asked")) {
			t.Errorf("the plan says of %s %s %s", r.Name, r.Status, r.Error)
		}
	}
	got := w.mustDestroy(t, chainOfUnknown, unmade)
	assert.Empty(t, w.things)
	wantStatuses(t, got, map[string]report.Status{"db": report.Absent, "api": report.Skipped, "deep": report.Skipped, "other": report.Destroyed})
	for _, e := range w.logged {
		if e.Resource == "api" && e.Kind != report.ResourceInitialized && (e.Kind != report.ResourceSkipped || e.Status != report.Skipped) {
			t.Errorf("recorded %s %s", e.Kind, e.Status)
		}
	}
	assert.Equal(t, (report.Counts{Changed: 1, Unchanged: 1, Skipped: 2}), w.ended(t).Counts)
}

func TestAConfigurationThatCannotBeKnownFailsWithWhatCouldNotBeAsked(t *testing.T) {
	w := applied(t, chainOfUnknown)
	delete(w.things, "db")
	assert.ErrorContains(t, must.Fail(w.destroy(t, chainOfUnknown, func(o *options) {
		o.Absence = func(context.Context, string) (runner.Absence, error) {
			return runner.Unproven, errors.New("disk on fire")
		}
	})), "disk on fire")
}

func TestAConfigurationCannotBeKnownWhenAStateCannotBeRead(t *testing.T) {
	w := applied(t, chain)
	good := w.engine.Images["thing"].Program
	w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
		if slices.Equal(c.Args, []string{"state"}) && c.Spec.Labels[invoke.LabelResource] == "db" {
			return 9
		}
		return good(ctx, c)
	})
	assert.ErrorContains(t, must.Fail(w.destroy(t, chain)), "needs the state of db, which could not be read (state exited with 9")
}

// A destroy says which outputs read nothing of what it removes, and at its start what each output reads.
func TestADestroyTellsWhichOutputsStay(t *testing.T) {
	const declared = telling + `
outputs: {db: '{{ db.state.value }}', site: '{{ web_site | length }}', both: '{{ db.name }} {{ web_site | length }}', fixed: 1}`
	for name, c := range map[string]struct {
		remove []string
		want   string
	}{
		"all":          {nil, `{}`},
		"one":          {[]string{"db"}, `{"outputs_unknown":["fixed","site"]}`},
		"an instance":  {[]string{"web-site[a]"}, `{"outputs_unknown":["db","fixed"]}`},
		"all by names": {[]string{"db", "web-site[a]", "web-site[b]"}, `{"outputs_unknown":["fixed"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := removable(newWorld(t))
			w.mustApply(t, declared)
			w.forget()
			must.Get(w.destroy(t, declared, func(o *options) { o.Remove = c.remove }))(t)
			assert.Equal(t, c.want, string(must.Get(json.Marshal(w.ended(t).Outputs))(t)))
			assert.Equal(t, `{"outputs_read":{"both":["db","web-site[a]","web-site[b]"],"db":["db"],"fixed":null,"site":["web-site[a]","web-site[b]"]}}`,
				string(must.Get(json.Marshal(w.logged[0].Outputs))(t)))
		})
	}
}
