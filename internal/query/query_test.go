package query

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// logOf makes a log of events that are each "DEPLOYMENT[/ATTEMPT] TARGET NAME DATA".
func logOf(t *testing.T, lines ...string) deploylog.Log {
	log := logtest.NewMemory().Open()
	for _, line := range lines {
		f := strings.SplitN(line, " ", 4)
		deployment, attempt, _ := strings.Cut(f[0], "/")
		e := deploylog.Event{Deployment: deployment, Target: deploylog.Target(f[1]), Name: f[2]}
		e.Attempt, _ = strconv.Atoi(attempt)
		if len(f) > 3 {
			e.Data = json.RawMessage(f[3])
		}
		require.NoError(t, must.Fail(log.Append(t.Context(), e)))
	}
	return log
}

// open is what of a history has started and not ended.
func open(t *testing.T, history []string, targets ...deploylog.Target) (all []deploylog.Event) {
	log := logOf(t, history...)
	for _, target := range targets {
		started := must.Get(log.InProgress(t.Context(), target))(t)
		left := must.Get(unended(t.Context(), log, target, started))(t)
		all = append(all, left...)
	}
	return all
}

// TestWhatADeletedEnvironmentHadStartedIsOver reads logs as every version has
// written them: no marker ends what a deletion cut short.
func TestWhatADeletedEnvironmentHadStartedIsOver(t *testing.T) {
	const shop = deploylog.Target("environment/shop/prod")
	const first, second = deploylog.Target("task/shop/prod/1/one"), deploylog.Target("task/shop/prod/2/one")
	for _, c := range []struct {
		name    string
		history []string
		target  deploylog.Target
		open    int
	}{
		{"a deployment under way", []string{"d1 environment/shop/prod environment-started"}, shop, 1},
		{"deleted while under way", []string{"d1 environment/shop/prod environment-started", "d1 environment/shop/prod environment-deleted"}, shop, 0},
		{"a deletion that ends the tasks", []string{
			"d1 environment/shop/prod environment-started", "d1 environment/shop/prod environment-finished-successfully",
			`d2 environment/shop/prod environment-started {"kind":"delete"}`, "d2 environment/shop/prod environment-deleted",
		}, shop, 0},
		{"one that is still ending them", []string{`d2 environment/shop/prod environment-started {"kind":"delete"}`}, shop, 1},
		{"made and deployed again", []string{
			"d1 environment/shop/prod environment-started", "d1 environment/shop/prod environment-deleted",
			"shop/prod:2 environment/shop/prod environment-created", "d3 environment/shop/prod environment-started",
		}, shop, 1},
		{"another environment was deleted", []string{"d1 environment/shop/prod environment-started", "d2 environment/shop environment-deleted"}, shop, 1},
		{"a task being started", []string{"d1 task/shop/prod/1/one task-started"}, first, 1},
		{"its environment was deleted", []string{"d1 task/shop/prod/1/one task-started", "d2 environment/shop/prod environment-deleted"}, first, 0},
		{"another deployment terminated it", []string{"d1 task/shop/prod/1/one task-started", "d2 task/shop/prod/1/one task-terminated"}, first, 0},
		{"another task was terminated", []string{"d1 task/shop/prod/1/one task-started", "d2 task/shop/prod/2/one task-terminated"}, first, 1},
		{"started again by another deployment", []string{"d1 task/shop/prod/2/one task-started", "d2 task/shop/prod/2/one task-started"}, second, 1},
		{"a resource named like one", []string{"d1 resource/shop resource-started", "d2 environment/shop environment-deleted"}, "resource/shop", 1},
	} {
		assert.Len(t, open(t, c.history, c.target), c.open, c.name)
	}
}

// TestWhatAnEndedDeploymentOfAPipelineHadStartedIsOver reads logs as every version
// has written them.
func TestWhatAnEndedDeploymentOfAPipelineHadStartedIsOver(t *testing.T) {
	const released = "d1 pipeline/web pipeline-started"
	begun := []string{released, "d1 stage/web/beta stage-started", "d1 host-group/web/all host-group-started", "d1 host/web/all/one host-started"}
	after := func(more ...string) []string { return append(slices.Clone(begun), more...) }
	const cancelled, deleted = "d1 pipeline/web pipeline-cancelled", "x pipeline/web pipeline-deleted"
	for _, c := range []struct {
		name    string
		history []string
		open    int // of the targets
	}{
		{"under way", begun, 4},
		{"cancelled", after(cancelled), 0},
		{"cancelled, and tried again", after(cancelled, "d1 pipeline/web pipeline-retried"), 4},
		{"cancelled, and what was at work began a moment later", []string{
			released, cancelled, "d1 stage/web/beta stage-started", "d1 host-group/web/all host-group-started", "d1 host/web/all/one host-started",
		}, 0},
		{"cancelled with the pipeline", after(cancelled, deleted), 0},
		{"deleted", after(deleted), 0},
		{"deleted, made and released again", after(deleted, "y pipeline/web pipeline-defined", "d2 pipeline/web pipeline-started", "d2 stage/web/beta stage-started"), 2},
		{"another pipeline was deleted", after("x pipeline/webs pipeline-deleted"), 4},
		{"another deployment was cancelled", after("d2 pipeline/web pipeline-started", "d2 pipeline/web pipeline-cancelled"), 4},
		{"another stage failed", after("d1 stage/web/side stage-failed", "d1 pipeline/web pipeline-failed"), 0},
		{"finished without a stage that the definition lost", after("d1 pipeline/web pipeline-finished-successfully"), 0},
		{"nothing of the scheduler's", []string{"r host/web/all/one host-started", released, cancelled}, 1},
	} {
		assert.Len(t, open(t, c.history, "pipeline/web", "stage/web/beta", "host-group/web/all", "host/web/all/one"), c.open, c.name)
	}
}

// What fails and is retried is not started anew, so no marker tells that it is under way
// again.
func TestTheLatestOfATargetAgreesWithTheListOfPipelines(t *testing.T) {
	history := []string{
		`x pipeline/web pipeline-defined {"definition":{"pipeline":"web","stages":[{"name":"beta","run":{"manifest":"m.yaml"}}]}}`,
		"d1 pipeline/web pipeline-started", "d1 stage/web/beta stage-started",
		`y pipeline/web pipeline-steps-ended {"steps":[{"deployment":"d1","target":"stage/web/beta","event":"stage-manifest-applied","attempt":1,"try":1,"outcome":"failed","error":"no"}]}`,
		"d1 stage/web/beta stage-manifest-applied-failed", "d1 stage/web/beta stage-failed", "d1 pipeline/web pipeline-failed",
	}
	for _, c := range []struct {
		name string
		more []string
		open bool
	}{
		{"failed", nil, false},
		{"retried", []string{"d1/2 pipeline/web pipeline-retried"}, true},
		{"retried and cancelled", []string{"d1/2 pipeline/web pipeline-retried", "d1/2 pipeline/web pipeline-cancelled"}, false},
		{"retried, cancelled and retried", []string{"d1/2 pipeline/web pipeline-retried", "d1/2 pipeline/web pipeline-cancelled", "d1/3 pipeline/web pipeline-retried"}, true},
		{"retried and finished", []string{"d1/2 pipeline/web pipeline-retried", "d1/2 stage/web/beta stage-finished-successfully", "d1/2 pipeline/web pipeline-finished-successfully"}, false},
		{"retried and failed again", []string{"d1/2 pipeline/web pipeline-retried", "d1/2 stage/web/beta stage-failed", "d1/2 pipeline/web pipeline-failed"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := logOf(t, append(slices.Clone(history), c.more...)...)
			p := NewPipelines(log, time.Now)
			require.NoError(t, p.Follow(t.Context(), 0))
			rows, _ := p.List()
			require.Len(t, rows, 1)
			assert.Equal(t, c.open, len(rows[0].InProgress) == 1)
			for _, target := range []deploylog.Target{"pipeline/web", "stage/web/beta"} {
				l, err := LatestOf(t.Context(), log, target)
				assert.True(t, err == nil && len(l.InProgress) == 1 == c.open && l.Failed != nil, "the latest of %s is %+v, %v", target, l, err)
			}
		})
	}
}

// theReason is the one reason for which a stage waits.
func theReason(t *testing.T, p *Pipelines) reason.Reason {
	all := must.Get(p.Explain("stage/web/beta", work.NewHosts(""), true))(t)
	require.Len(t, all, 1)
	return all[0]
}

func TestAStepThatRestsIsExplainedByItsLastErrorAndItsNextTry(t *testing.T) {
	log := logOf(t,
		`x pipeline/web pipeline-defined {"definition":{"pipeline":"web","stages":[{"name":"beta","run":{"manifest":"m.yaml","retries":3}}]}}`,
		"d1 pipeline/web pipeline-started", "d1 stage/web/beta stage-started",
		`y pipeline/web pipeline-steps-begun {"steps":[{"deployment":"d1","target":"stage/web/beta","event":"stage-manifest-applied","attempt":1,"try":1}]}`,
		`z pipeline/web pipeline-steps-ended {"steps":[{"deployment":"d1","target":"stage/web/beta","event":"stage-manifest-applied","attempt":1,"try":1,"outcome":"failed","error":"connection refused"}]}`,
	)
	now := time.Now
	p := NewPipelines(log, func() time.Time { return now() })
	require.NoError(t, p.Follow(t.Context(), 0))
	explain := func() reason.Reason { return theReason(t, p) }
	if r := explain(); r.Code != reason.NoScheduler || !strings.Contains(r.Message(), "try 1 of 4 failed") || !strings.Contains(r.Message(), "connection refused, but no scheduler") {
		t.Errorf("without a scheduler it says %q", r.Message())
	}
	unlock := must.Get(log.TryLock("pipeline/web"))(t)
	defer unlock()
	soon := now()
	now = func() time.Time { return soon.Add(-time.Second / 2) }
	if r := explain(); r.Code != reason.AwaitsRetry || r.Until.IsZero() || r.Cause != "connection refused" || r.Seq != 5 {
		t.Errorf("while it rests it says %+v", r)
	}
	now = func() time.Time { return soon.Add(time.Minute) }
	if r := explain(); r.Code != reason.AwaitsSlot || !r.Since.IsZero() || !strings.Contains(r.Message(), "connection refused: waiting for a free slot") {
		t.Errorf("then it says %q", r.Message())
	}
}

func TestAStepWhoseEngineDoesNotAnswerIsExplainedBySinceWhen(t *testing.T) {
	log := logOf(t,
		`x pipeline/web pipeline-defined {"definition":{"pipeline":"web","stages":[{"name":"beta","run":{"manifest":"m.yaml"}}]}}`,
		"d1 pipeline/web pipeline-started", "d1 stage/web/beta stage-started",
		`y pipeline/web pipeline-steps-begun {"steps":[{"deployment":"d1","target":"stage/web/beta","event":"stage-manifest-applied","attempt":1,"try":1}]}`,
	)
	for _, name := range []string{"pipeline/web", "run/r1"} {
		unlock := must.Get(log.TryLock(name))(t)
		defer unlock()
	}
	later := time.Duration(0)
	explain := func() string {
		p := NewPipelines(log, func() time.Time { return time.Now().Add(later) })
		require.NoError(t, p.Follow(t.Context(), 0))
		return theReason(t, p).Message()
	}
	later = 20 * time.Second
	assert.Regexp(t, "being done since 20.*nothing of it has begun on its engine yet", explain(), "without a run")
	appendTo(t, log, "r1", "run/m.yaml", "run-started", `{"details":{"deployment":"d1","target":"stage/web/beta","event":"stage-manifest-applied"}}`)
	got := explain()
	assert.True(t, strings.Contains(got, "being done by run r1 since 20") && !strings.Contains(got, "answer"), "with a run it says %q", got)
	later = 2 * time.Minute
	assert.Contains(t, explain(), "nothing has come of it since 20", "after two minutes it says")
}

func TestAHostThatAnotherPipelineHoldsIsExplained(t *testing.T) {
	var lines []string
	for _, name := range []string{"api", "web"} {
		lines = append(lines,
			fmt.Sprintf(`x%[1]s pipeline/%[1]s pipeline-defined {"definition":{"pipeline":%[1]q,"stages":[{"name":"all","deploy":{"host_groups":[{"name":"g","hosts":"name exists"}],"steps":[{"event":"host-copied","manifest":"c.yaml"},{"event":"host-deployed","manifest":"d.yaml"}]}}]}}`, name),
			fmt.Sprintf(`m%[1]s host-group/%[1]s/g host-group-members-changed {"hosts":["one"]}`, name),
			fmt.Sprintf("d%[1]s pipeline/%[1]s pipeline-started", name), fmt.Sprintf("d%[1]s stage/%[1]s/all stage-started", name),
			fmt.Sprintf("d%[1]s host-group/%[1]s/g host-group-started", name), fmt.Sprintf("d%[1]s host/%[1]s/g/one host-started", name))
	}
	log := logOf(t, append(lines, "dweb host/web/g/one host-copied")...)
	explain := func() reason.Reason {
		p := NewPipelines(log, time.Now)
		require.NoError(t, p.Follow(t.Context(), 0))
		all := must.Get(p.Explain("host/api/g/one", work.NewHosts(""), true))(t)
		require.NotEmpty(t, all)
		return all[0]
	}
	unlock := must.Get(log.TryLock("pipeline/api"))(t)
	defer unlock()
	assert.Equal(t, reason.AwaitsSlot, explain().Code, "without a scheduler the other pipeline keeps no slot")
	unlockOther := must.Get(log.TryLock("pipeline/web"))(t)
	defer unlockOther()
	if r := explain(); r.Code != reason.AwaitsHost || !strings.Contains(r.Message(), "has begun its steps as host/web/g/one, and host-deployed comes next there") {
		t.Errorf("explained with %+v", r)
	}
	assert.Contains(t, explain().Change(), "or the end of its deployment: deployster pipeline cancel web ")
	appendTo(t, log, "p", "pipeline/web", "pipeline-paused", `{"by":"ann"}`)
	appendTo(t, log, "q", "stage/web/all", "stage-paused", `{"by":"ann"}`)
	assert.NotEqual(t, reason.AwaitsHost, explain().Code, "a pipeline that is paused keeps no slot")
}

func TestWhoDidWhat(t *testing.T) {
	log := logOf(t,
		`r1 run/web.yaml run-started {"details":{"user":"ada","command":"apply"}}`,
		"r1 resource/db resource-started",
		`d1 environment/shop environment-started {"by":"bob","kind":"rollback"}`,
		"d1 task/shop/1/one task-started",
		`p1 pipeline/web pipeline-started {"by":"cem"}`,
		`p1 stage/web/go stage-approved {"by":"dora"}`,
		"p1 stage/web/go stage-started",
		"x host/a host-deployed",
		`y host/a host-deployed {"by":"\u001b[2Jeve"}`,
	)
	want := []string{"apply by ada", "apply by ada", "rollback by bob", "rollback by bob", "by cem", "by dora", "by cem", "", "by  [2Jeve"}
	for _, f := range []deploylog.Filter{{}, {Last: 6}} { // also where the beginning is not selected
		who := NewActors(log)
		for e, err := range log.Read(t.Context(), f) {
			require.NoError(t, err)
			assert.Equal(t, want[e.Seq-1], must.Get(who.Of(t.Context(), e))(t), "event %d", e.Seq)
		}
	}
}

func TestRunsAsTheLogTellsOfThem(t *testing.T) {
	log := logOf(t,
		`r1 run/web.yaml run-started {"details":{"user":"ada","command":"apply","host":"vm"}}`,
		`r2 run/web.yaml run-started {"details":{"user":"bob","command":"destroy"}}`,
		`r1 run/web.yaml run-finished-successfully {"counts":{"changed":2,"unchanged":1},"duration_ms":1500}`,
		`r2 run/web.yaml run-finished-successfully {"counts":{"changed":3},"duration_ms":100}`,
		`r3 run/db.yaml run-started {"details":{"command":"apply"}}`,
		`r3 run/db.yaml run-failed {"counts":{"failed":1,"skipped":2},"error":"db: it broke\nbadly"}`,
		`r4 run/db.yaml run-started`,
		`r4 run/db.yaml run-failed {"abandoned":true,"error":"its process is gone"}`,
		`r5 run/db.yaml run-started`,
		`r5 run/db.yaml run-failed {"details":{"interrupted":"true"},"counts":{"changed":1}}`,
		`r6 run/db.yaml run-started {"details":7}`,
	)
	runs := must.Get(readRuns(t.Context(), log, "run/"))(t)
	var got []string
	for _, r := range runs {
		got = append(got, fmt.Sprintf("%s %s %s %s: %s", r.Run, r.Manifest, r.Verb, r.User, r.Summary()))
	}
	want := []string{
		"r1 web.yaml apply ada: succeeded: 2 changed, 1 unchanged",
		"r2 web.yaml destroy bob: succeeded: 3 removed",
		"r3 db.yaml apply : failed: 1 failed, 2 skipped",
		"r4 db.yaml  : abandoned: its process is gone",
		"r5 db.yaml  : interrupted: 1 changed",
		"r6 db.yaml  : in progress",
	}
	assert.Equal(t, want, got)
}

// TestStepsThatADefinitionNamesAreEvents knows them before any has happened.
func TestStepsThatADefinitionNamesAreEvents(t *testing.T) {
	web := definition.Definition{Name: "web", Stages: []definition.Stage{
		{Name: "build", Build: &definition.Build{Artifacts: []string{"x86"}}},
		{Name: "beta", Deploy: &definition.Deploy{Steps: []definition.HostStep{{Event: "host-smoke-tested"}}}},
	}}
	data := must.Get(json.Marshal(map[string]any{"version": 1, "definition": web}))(t)
	names := must.Get(NamesIn(t.Context(), logOf(t, "web pipeline/web pipeline-defined "+string(data), "d host/a mine-happened")))(t)
	for _, name := range []string{"host-smoke-tested", "build-stage-received-x86-artifact", "mine-happened", "run-failed", "task-lost", "pipeline-cancelled"} {
		assert.True(t, names.events[name], name)
	}
	assert.False(t, names.events["foo"])
}

func TestEveryDocumentedEventIsKnown(t *testing.T) {
	known, found := EventNames(), 0
	for _, page := range []string{"log", "pipelines", "environments"} {
		text := must.Get(os.ReadFile("../../docs/" + page + ".md"))(t)
		events := false
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(line, "|")
			if len(cells) < 3 {
				events = false
				continue
			}
			events = events || strings.TrimSpace(cells[1]) == "event"
			if !events {
				continue
			}
			for _, name := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(cells[1], -1) {
				if found++; !known[name[1]] {
					t.Errorf("%s.md tells of %s, which is not known", page, name[1])
				}
			}
		}
	}
	assert.GreaterOrEqual(t, found, 45, "documented events")
}

// A log that others wrote may have events of a pipeline that nothing defines.
func TestPipelinesWithoutADefinitionAreListedAndExplained(t *testing.T) {
	log := logOf(t, `d2 pipeline/odd pipeline-defined {"definition":7}`, "d3 pipeline/odd pipeline-started")
	p := NewPipelines(log, time.Now)
	require.NoError(t, p.Follow(t.Context(), 0))
	for _, name := range p.Present() {
		require.NoError(t, must.Fail(p.Explain(record.Target(name), nil, true)))
	}
	rows, _ := p.List()
	assert.True(t, len(rows) == 1 && rows[0].Stages == 0 && rows[0].Name == "odd", "listed are %+v", rows)
	require.NoError(t, must.Fail(p.Status(true, false)))
}

// ending is a log in which a run ends right after it was read for the first time.
type ending struct {
	deploylog.Log
	end  []deploylog.Event
	read int
}

func (l *ending) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		for e, err := range l.Log.Read(ctx, f) {
			if !yield(e, err) {
				return
			}
		}
		if l.read++; l.read == 1 && len(l.end) > 0 {
			if _, err := l.Append(ctx, l.end...); err != nil {
				yield(deploylog.Event{}, err)
			}
		}
	}
}

func TestARunThatEndsWhileItIsLookedAtHasNotDied(t *testing.T) {
	for name, c := range map[string]struct {
		end  []deploylog.Event
		want Outcome
	}{
		"it died":      {nil, RunDied},
		"it succeeded": {[]deploylog.Event{{Deployment: "1", Target: "run/m.yaml", Name: "run-finished-successfully", Attempt: 1}}, RunSucceeded},
		"it failed":    {[]deploylog.Event{{Deployment: "1", Target: "run/m.yaml", Name: "run-failed", Attempt: 1}}, RunFailed},
	} {
		t.Run(name, func(t *testing.T) {
			newLog := func() *ending { return &ending{Log: logOf(t, "1/1 run/m.yaml run-started"), end: c.end} }
			one := must.Get(RunOf(t.Context(), newLog(), "1", 0))(t)
			assert.Equal(t, c.want, one.Outcome)
			all := must.Get(Runs(t.Context(), newLog(), RunFilter{Target: "run/"}))(t)
			require.Len(t, all, 1)
			assert.Equal(t, c.want, all[0].Outcome)
		})
	}
}

// What is told is what the last apply has told, and an apply of some resources changes what it
// knows. If no apply has ended well, it is said what became of the last one, and how to go on.
func TestOutputsAreThoseOfTheLastApply(t *testing.T) {
	const a, b, ok = `{"outputs":{"url":{"value":"a"},"port":{"value":1}}}`, `{"outputs":{"url":{"value":"b"}},"outputs_unknown":["port","other"]}`, "finished-successfully"
	type run struct{ target, command, end, data string }
	for name, c := range map[string]struct {
		of   deploylog.Target
		runs []run
		want string // the outputs, or why there are none
	}{
		"an apply":          {"run/", []run{{"m", "apply", ok, a}}, "run/m port=1 url=a"},
		"a later one":       {"run/", []run{{"m", "apply", ok, a}, {"m", "apply", ok, `{"outputs":{"url":{"value":"c"}}}`}}, "run/m url=c"},
		"one of some":       {"run/", []run{{"m", "apply", ok, a}, {"m", "apply", ok, b}}, "run/m port=1 url=b"},
		"only one of some":  {"run/", []run{{"m", "apply", ok, b}}, "run/m url=b"},
		"one that failed":   {"run/", []run{{"m", "apply", ok, a}, {"m", "apply", "failed", `{}`}}, "run/m port=1 url=a"},
		"a destroy":         {"run/", []run{{"m", "apply", ok, a}, {"m", "destroy", ok, `{}`}}, "run/m"},
		"a destroy of some": {"run/", []run{{"m", "apply", ok, a}, {"m", "destroy", ok, `{"outputs_unknown":["url","new"]}`}}, "run/m url=a"},
		"and an apply of some": {
			"run/", []run{{"m", "apply", ok, a}, {"m", "destroy", ok, `{"outputs_unknown":["url"]}`}, {"m", "apply", ok, `{"outputs":{"new":{"value":3}},"outputs_unknown":["port","url"]}`}},
			"run/m new=3 url=a",
		},
		"of another":         {"run/", []run{{"m", "apply", ok, a}, {"n", "apply", ok, `{}`}}, "run/n"},
		"of the one named":   {"run/m", []run{{"m", "apply", ok, a}, {"n", "apply", ok, `{}`}}, "run/m port=1 url=a"},
		"nothing was named":  {"run/m", []run{{"n", "apply", ok, `{}`}}, "nothing of run/m was applied: deployster log runs"},
		"nothing was done":   {"run/", nil, "nothing was applied yet"},
		"nothing ended well": {"run/", []run{{"m", "apply", "failed", `{}`}, {"n", "adopt", ok, `{}`}}, "nothing of run/n was applied"},
		"it failed": {
			"run/", []run{{"m", "apply", "failed", "{}"}},
			"outputs of run/m: its last apply, run 0, failed, and they are evaluated once all is applied; deployster log list --deployment 0 says",
		},
		"it failed once more": {
			"run/m", []run{{"m", "apply", "failed", "{}"}, {"m", "apply", "failed", "{}"}, {"n", "apply", "failed", "{}"}}, "its last apply, run 1, failed",
		},
		"it goes on":               {"run/", []run{{"m", "apply", "failed", "{}"}, {"m", "apply", "", ""}}, "its last apply, run 1, has not ended, or was killed"},
		"something was adopted":    {"run/", []run{{"m", "adopt", ok, "{}"}}, "nothing of run/m was applied"},
		"and then an apply failed": {"run/", []run{{"m", "adopt", ok, "{}"}, {"m", "apply", "failed", "{}"}}, "its last apply, run 1, failed"},
	} {
		t.Run(name, func(t *testing.T) {
			log := logtest.NewMemory().Open()
			for i, r := range c.runs {
				target := deploylog.Target("run/" + r.target)
				appendTo(t, log, fmt.Sprint(i), target, "run-started", fmt.Sprintf(`{"details":{"command":%q}}`, r.command))
				if r.end != "" {
					appendTo(t, log, fmt.Sprint(i), target, "run-"+r.end, r.data)
				}
			}
			out, err := LastOutputs(t.Context(), log, c.of)
			if err != nil {
				assert.ErrorIs(t, err, ErrNotFound)
				assert.ErrorContains(t, err, c.want)
				assert.False(t, strings.HasPrefix(c.want, "run/"), "there are no outputs")
				return
			}
			got := string(out.Target)
			for _, name := range slices.Sorted(maps.Keys(out.Outputs)) {
				got += fmt.Sprintf(" %s=%v", name, out.Outputs[name].Value)
			}
			assert.Equal(t, c.want, got)
			_, err = out.Named("ulr")
			assert.ErrorIs(t, err, ErrNotFound)
			if len(out.Outputs) > 0 {
				assert.ErrorContains(t, err, `did you mean "url"`)
			}
		})
	}
}

func appendTo(t *testing.T, log deploylog.Log, deployment string, target deploylog.Target, event, data string) {
	require.NoError(t, must.Fail(log.Append(t.Context(), deploylog.Event{Deployment: deployment, Target: target, Name: event, Attempt: 1, Data: []byte(data)})))
}
