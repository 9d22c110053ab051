package environment

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/must"
)

// The rules of rollouts are those of the simulation (simulation_test.go). Here is what it does not
// look at: refusals, reasons, what events say, and what no simulated controller does.

func TestTheSeedsFirstDeployment(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 100 })})
	w.table(`SomeEnvironment/Prod:1    Created    0         0`)
	w.can()
	w.propose(Deploy{Revision: 1, Hosts: hostNames(5)})
	w.table(`SomeEnvironment/Prod:1    Deploying       5         0`)
	assert.Equal(t, "SomeEnvironment/Prod:1@2017090611472301", w.active(1, false).ID)
	w.can("start 1 h1", "start 1 h2", "start 1 h3", "start 1 h4", "start 1 h5") // the minimum is not kept, and need not be
	w.done("start 1 h1", "start 1 h2", "start 1 h3", "start 1 h4")
	w.after(10*time.Minute - time.Second)
	w.fails("start 1 h5", "no disk")
	w.after(time.Second)
	w.steps()
	w.table(`SomeEnvironment/Prod:1    Stuck           5         4`)
	assert.Equal(t, "no progress for 10m: h5: no disk", w.last(record.EnvironmentStuck).Error)
	w.done("start 1 h5")
	w.table(`SomeEnvironment/Prod:1    Active          5         5`)
	w.can()
}

func TestOfTwoUpdatesAtOnceOneWinsAndTheOtherIsTold(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(nil)})
	first := must.Get(w.state.Propose(Update{Base: 1, Definition: defined(image("log-daemon:2")), By: "bob@host"}, w.now))(t)
	second := must.Get(w.state.Propose(Update{Base: 1, Definition: defined(image("log-daemon:3")), By: "carol@host"}, w.now))(t)
	second[0].Data = first[0].Data
	assert.Equal(t, first, second, "the log would take both")
	w.append(first...)
	assert.ErrorIs(t, must.Fail(w.state.Propose(Update{Base: 1, Definition: defined(image("log-daemon:3"))}, w.now)), ErrStale)
	w.refuses(Update{Base: 7, Definition: defined(nil)}, UnknownRevision)
}

func TestADeploymentThatCouldNeverGoOnIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		percent, hosts int
		words          []string
	}{
		"all of several": {100, 5, []string{"none of 5 hosts", "--min-healthy-percent 80 or less"}},
		"too few":        {80, 4, []string{"none of 4 hosts", "--min-healthy-percent 75 or less"}},
		"one":            {50, 1, []string{"none of 1 host may be without one; --min-healthy-percent 0, or --method Surge, would let it proceed"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := deployed(t, test.hosts, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = test.percent })
			w.propose(Deploy{Revision: 1, Hosts: hostNames(test.hosts)}) // nothing is to be replaced
			w.revise(image("log-daemon:2"))
			w.refuses(Deploy{Revision: 2, Hosts: hostNames(test.hosts)}, NoDisruptionAllowed, test.words...)
			surge := definition.Surge
			w.propose(Deploy{Revision: 2, Hosts: hostNames(test.hosts), Change: record.Change{Method: &surge}})
			w.can("start 2 h1")
		})
	}
}

func TestTheMinimumIsNeverBrokenByRounding(t *testing.T) {
	for _, test := range []struct{ hosts, percent, minimum int }{
		{5, 80, 4}, {5, 81, 5}, {5, 79, 4}, {3, 50, 2}, {1, 0, 0}, {1, 1, 1}, {0, 100, 0}, {10_000, 99, 9900},
	} {
		got := definition.Configuration{MinHealthyPercent: test.percent}.Minimum(test.hosts)
		assert.Equal(t, test.minimum, got, "%d %% of %d", test.percent, test.hosts)
	}
}

// What is unavailable is rounded down, and what is over up; but never so that nothing could be replaced any more.
func TestHostsAreCountedAsKubernetesDoes(t *testing.T) {
	for _, test := range []struct {
		most                          *budget.Budget
		hosts, replace, surge, double int
	}{
		{most(1), 5, 4, 4, 1}, {most(7), 5, 0, 0, 7}, {percent(25), 10, 8, 8, 3}, {percent(10), 4, 3, 4, 1}, {percent(1), 1, 0, 1, 1}, {percent(10), 0, 0, 0, 1},
		{percent(100), 3, 0, 0, 3}, {percent(33.3), 1000, 667, 667, 333}, {most(0), 3, 3, 3, 1},
	} {
		c := definition.Configuration{MinHealthyPercent: 100, MaxOver: 50, MaxUnavailable: test.most, MaxSurge: test.most}
		for method, want := range map[definition.Method]int{definition.Replace: test.replace, definition.Surge: test.surge} {
			c.Method = method
			assert.Equal(t, want, c.Minimum(test.hosts), "%s, max_unavailable %s of %d", method, test.most, test.hosts)
		}
		assert.Equal(t, test.double, c.MostDoubled(test.hosts), "max_surge %s of %d", test.most, test.hosts)
	}
}

// A deployment that may be quicker than its revision takes the place of either setting.
func TestADeploymentSaysHowManyHostsMayBeDown(t *testing.T) {
	w := deployed(t, 10, nil)
	w.update(func(d *definition.Definition) { image("log-daemon:2")(d); d.Deployment.MaxUnavailable = percent(15) }, hostNames(10))
	w.can("terminate 1 h1")
	w.propose(Deploy{Revision: 2, Hosts: hostNames(10), Change: record.Change{MaxUnavailable: most(3)}})
	w.can("terminate 1 h1", "terminate 1 h10", "terminate 1 h2")
	all := 95
	w.refuses(Deploy{Revision: 2, Hosts: hostNames(10), Change: record.Change{MinHealthyPercent: &all}}, NoDisruptionAllowed)
	surge := definition.Surge
	w.propose(Deploy{Revision: 2, Hosts: hostNames(10), Change: record.Change{Method: &surge, MaxSurge: percent(11)}})
	w.begin("start 2 h1")
	w.begin("start 2 h10")
	w.explains(2, "h3", reason.MaxOver)
}

// What a rollback is allowed in an emergency must not be allowed for as long as its revision is active.
func TestAConfigurationOfADeploymentEndsWithIt(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(image("log-daemon:2"), hostNames(5))
	w.replaced(1, 2, hostNames(5)...)
	zero, surge := 0, definition.Surge
	w.propose(Rollback{Revision: 1, Hosts: hostNames(5), Change: record.Change{MinHealthyPercent: &zero, Method: &surge}})
	assert.Zero(t, w.state.Report().Minimum)
	for _, h := range hostNames(5) {
		w.done("start 1 "+h, "terminate 2 "+h)
	}
	assert.Equal(t, 4, w.state.Report().Minimum)
	assert.Zero(t, w.state.Report().Deployment.Configuration.MinHealthyPercent, "it is said what it had")
	w.sees(1, "h1", tasks.Drifted, "image")
	w.sees(1, "h2", tasks.Drifted, "image")
	w.begin("start 1 h1")
	w.can("start 1 h1")
	w.explains(1, "h2", reason.MinHealthy, "a revision with a lower min_healthy_percent")
}

func TestAFailureBudgetThatIsSpentHaltsTheRollout(t *testing.T) {
	w := deployed(t, 10, nil)
	w.update(func(d *definition.Definition) { image("log-daemon:2")(d); d.Deployment.MaxFailed = most(1) }, hostNames(10))
	w.done("terminate 1 h1", "terminate 1 h10")
	w.fails("start 2 h1", "bad image")
	w.fails("start 2 h10", "bad image")
	stuck := w.last(record.EnvironmentStuck)
	assert.Equal(t, string(reason.TooManyFailed), stuck.Code)
	assert.Contains(t, stuck.Error, ": h1: bad image\nh10: bad image")
	w.after(time.Second)
	w.can("start 2 h1", "start 2 h10") // those that have begun are tried again
}

func TestAHostThatFailsIsAnException(t *testing.T) {
	w := deployed(t, 6, none)
	w.update(func(d *definition.Definition) { image("log-daemon:2")(d); d.Deployment.MaxFailed = percent(20) }, hostNames(6))
	w.done("terminate 1 h3")
	for range 3 {
		w.fails("start 2 h3", "bad disk")
		w.after(time.Minute)
	}
	w.replaced(1, 2, "h1", "h2", "h4", "h5", "h6")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 6 5`)
	assert.Equal(t, []string{"h3"}, w.state.Report().Exceptions)
	assert.Equal(t, "with 1 exception: h3", w.last(record.EnvironmentFinished).Reason)
	w.done("start 2 h3") // it is tried again and again
	assert.Empty(t, w.state.Report().Exceptions)
	assert.Equal(t, 1, w.state.Report().Deployment.Exceptions, "it ended with that")
}

// What was begun late has no time left at the deadline.
func TestWhatWasTriedIsAnExceptionAtTheDeadline(t *testing.T) {
	w := deployed(t, 6, none)
	w.update(func(d *definition.Definition) { image("log-daemon:2")(d); d.Deployment.MaxFailed = percent(20) }, hostNames(6))
	w.replaced(1, 2, "h1", "h2", "h4", "h5", "h6")
	w.done("terminate 1 h3")
	w.after(9 * time.Minute)
	w.begin("start 2 h3")
	w.can("start 2 h3")
	w.after(time.Minute)
	w.steps()
	assert.Equal(t, report.DeploymentFinished, w.active(2, false).Status)
}

func TestNoHostsAreDesiredZero(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(nil)})
	w.propose(Deploy{Revision: 1})
	w.after(time.Hour)
	w.can() // and no deadline passes
	w.table(`SomeEnvironment/Prod:1 Deploying 0 0`)
	w.explains(0, "", reason.NoHosts)
	assert.True(t, w.state.Idle())
	assert.True(t, w.state.AwaitsHosts())
	w.propose(SetHosts{Selected: hostNames(1)})
	assert.Equal(t, 10*time.Minute, w.state.Report().Deadline.Sub(w.now), "left for the first host")
	w.done("start 1 h1")
	w.table(`SomeEnvironment/Prod:1 Active 1 1`)
}

func TestAClockThatWasSetBackKeepsNothingWaiting(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(nil)})
	w.propose(Deploy{Revision: 1, Hosts: hostNames(1)})
	w.fails("start 1 h1", "no disk")
	w.after(-24 * time.Hour)
	w.can("start 1 h1")
	w.fails("start 1 h1", "no disk")
	w.can()
	w.after(10 * time.Minute)
	w.steps()
	w.table(`SomeEnvironment/Prod:1 Stuck 1 0`)
}

func TestAnUpdateOfTheConfigurationRestartsNothing(t *testing.T) {
	w := deployed(t, 3, func(d *definition.Definition) { d.Deployment.Drift = definition.ReportDrift })
	w.sees(1, "h2", tasks.Drifted, "~ content")
	w.update(func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 50 }, hostNames(3))
	w.can()
	assert.Equal(t, 3, w.times(record.TaskAdopted))
	assert.Equal(t, 1, w.last(record.TaskAdopted).From)
	assert.Equal(t, 1, w.state.Revisions()[1].TaskOf)
	row := w.state.Report().Hosts[0].Tasks[0]
	row = report.TaskRow{Revision: row.Revision, TaskOf: row.TaskOf, Target: row.Target, Status: row.Status}
	assert.Equal(t, report.TaskRow{Revision: 2, TaskOf: 1, Target: "task/SomeEnvironment/Prod/1/h1", Status: report.TaskHealthy}, row)

	// What is said about drift takes effect, too.
	w.update(func(d *definition.Definition) { d.Deployment.Drift = definition.RepairDrift }, hostNames(3))
	w.can("start 1 h2")
	w.done("start 1 h2")

	// With a percentage of 100, Replace could stop nothing; but nothing is to be stopped.
	w.update(func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 100 }, hostNames(3))
	w.can()
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Inactive 0 0
	         SomeEnvironment/Prod:3 Inactive 0 0
	         SomeEnvironment/Prod:4 Active 3 3`)
}

// The task may be that of any revision since the environment was created, not only of the
// one before; what makes it another is anything that it carries.
func TestWhichRevisionsHaveOneTask(t *testing.T) {
	w := deployed(t, 1, func(d *definition.Definition) { none(d); d.Task.Digest, d.Task.Includes = "d", nil })
	first := w.state.Revisions()[0].Definition.Task
	for i, test := range []struct {
		task   int
		change func(*definition.TaskSpec)
	}{
		{1, func(t *definition.TaskSpec) { t.Includes = map[string]string{} }}, // as of former versions
		{3, func(t *definition.TaskSpec) { t.Includes = map[string]string{"a": "b"} }},
		{4, func(t *definition.TaskSpec) { t.Includes = map[string]string{"a": "c"} }},
		{5, func(t *definition.TaskSpec) { t.Digest = "e" }},
		{6, func(t *definition.TaskSpec) { t.Vars = map[string]any{"image": "log-daemon:1", "n": int64(1)} }},
		{6, func(t *definition.TaskSpec) { t.Vars = map[string]any{"n": float64(1), "image": "log-daemon:1"} }},
		{1, func(t *definition.TaskSpec) { *t = first }},
	} {
		w.update(func(d *definition.Definition) { d.Deployment.MaxOver++; test.change(&d.Task) }, hostNames(1))
		assert.Equal(t, test.task, w.state.taskOf(i+2), "revision %d", i+2)
	}
	w.propose(Delete{})
	w.propose(Create{Definition: w.state.Revisions()[0].Definition})
	assert.Equal(t, 9, w.state.taskOf(9), "those tasks are unmanaged")
}

// Logs of former versions say of no revision that it has the task of another: what they
// have restarted was made under the later number.
func TestWhatFormerVersionsRestartedKeepsItsNumber(t *testing.T) {
	w := deployed(t, 1, none)
	d := *w.state.Revisions()[0].Definition
	d.InstanceGroup.MaxLeaving = most(7)
	events := must.Get(w.state.Propose(Update{Base: 1, Definition: &d}, w.now))(t)
	old := record.Read(events[0].Data)
	require.Equal(t, 1, old.Task)
	old.Task = 0
	events[0].Data = old.Data()
	w.append(events...)
	w.propose(Deploy{Revision: 2, Hosts: hostNames(1)})
	w.replaced(1, 2, "h1")
	w.update(func(d *definition.Definition) { d.Deployment.MaxOver++ }, hostNames(1))
	w.can()
	assert.Equal(t, 2, w.state.taskOf(3))
	for _, wrong := range []int{-1, 4, 5} { // as no version writes it
		s, number := New("SomeEnvironment/Prod"), 0
		for _, e := range w.events {
			if p := record.Read(e.Data); p.Definition != nil {
				p.Task = wrong
				e.Data = p.Data()
				number++
			}
			s.Apply(e)
		}
		assert.Equal(t, number, s.taskOf(number), "with %d", wrong)
	}
}

func TestManyAreAdoptedInParts(t *testing.T) {
	w := deployed(t, 1, nil)
	w.propose(SetHosts{Selected: hostNames(2*maxAdopted + 1)})
	for _, s := range w.steps() {
		w.append(s.Events...)
		w.append(w.state.Completed(s, tasks.ProbeResult{Health: tasks.Healthy}, nil)...)
	}
	w.update(none, hostNames(2*maxAdopted+1))
	steps := slices.Collect(w.state.Decide(w.now, Can{Disrupt: true}))
	require.Len(t, steps, 1)
	assert.Len(t, steps[0].Events, maxAdopted)
	w.can()
	assert.Equal(t, 2*maxAdopted+1, w.times(record.TaskAdopted))
}

func TestManyHostsAreToldInParts(t *testing.T) {
	names := make([]string, 10_000)
	zones := map[string]string{}
	for i := range names {
		names[i] = fmt.Sprintf("a-host-with-a-long-name-that-somebody-chose-for-it-in-a-data-center-%06d", i)
		zones[names[i]] = fmt.Sprint("z", i%3)
	}
	w := newWorld(t)
	w.propose(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.OrderBy = "zone" })})
	w.propose(Deploy{Revision: 1, Hosts: names[:1]})
	w.inZones(zones)
	assert.Greater(t, w.times(record.HostsChanged), 1)
	assert.Greater(t, w.times(record.HostsZoned), 1)
	assert.Equal(t, len(names), w.state.Report().Rows[0].Desired)
	assert.Equal(t, "zone", w.state.zones.by)
	assert.Equal(t, "z0", w.state.byName[names[9999]].Zone)
}

// Whatever hosts a deployment is started on, it has them at once, also where their names do not
// fit into one event: they may be fewer than its query selects, for others are on the rest.
func TestADeploymentBeginsOnAllItsHostsHoweverManyTheyAre(t *testing.T) {
	many := func(from, to int) (names []string) {
		for i := from; i < to; i++ {
			names = append(names, fmt.Sprintf("a-host-with-quite-a-long-name-in-a-data-center-%06d", i))
		}
		return names
	}
	w := newWorld(t)
	wants := func(names []string) {
		var desired []string
		for _, h := range w.state.Report().Hosts {
			if h.Desired {
				desired = append(desired, h.Host)
			}
		}
		require.True(t, slices.Equal(names, desired), "%d hosts are desired, want %d", len(desired), len(names))
		require.True(t, w.state.hostsKnown)
		require.Equal(t, report.DeploymentRunning, w.state.active.Status)
	}
	w.propose(Create{Definition: defined(func(d *definition.Definition) { d.InstanceGroup.MaxLeaving = most(6000) })})
	w.propose(Deploy{Revision: 1, Hosts: many(0, 12_000)})
	wants(many(0, 12_000))
	for _, query := range []string{"attribute:stack == prod", "attribute:stack == beta"} {
		w.update(func(d *definition.Definition) { d.Task.Digest, d.InstanceGroup.Query = query, query }, many(3000, 13_000))
		wants(many(3000, 13_000))
		w.propose(Rollback{Revision: 1, Hosts: many(0, 12_000)})
		wants(many(0, 12_000))
	}
	assert.Greater(t, w.state.attempts[record.HostsChanged], 1)
}

func (w *world) checking(hosts ...string) (all []tasks.Step) {
	can := Can{Disrupt: true, Checked: func(host string) bool { return slices.Contains(hosts, host) }}
	for range 10 {
		all = slices.Collect(w.state.Decide(w.now, can))
		if len(all) == 0 || all[0].Kind != tasks.Record {
			break
		}
		w.append(all[0].Events...)
	}
	return all
}

func TestATaskIsCheckedBeforeAnotherIsStopped(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(func(d *definition.Definition) { image("log-daemon:2")(d); d.Deployment.MaxFailed = most(0) }, hostNames(5))
	does := func(kind tasks.Kind, checked ...string) tasks.Step {
		t.Helper()
		steps := w.checking(checked...)
		require.Len(t, steps, 1)
		require.Equal(t, string(kind)+" h1", string(steps[0].Kind)+" "+steps[0].Host)
		return steps[0]
	}
	check := does(tasks.Check)
	assert.Equal(t, 2, check.Revision)
	assert.Empty(t, check.Events)
	assert.Empty(t, w.state.Completed(check, tasks.ProbeResult{}, nil))
	does(tasks.Terminate, "h1")
	w.append(w.state.Completed(check, tasks.ProbeResult{}, errors.New("there is no attribute rack"))...)
	assert.Empty(t, w.checking("h1", "h2"), "too many have failed")
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 5
	         SomeEnvironment/Prod:2 Stuck 5 0`)
	w.explains(2, "h1", reason.AwaitsRetry, "failed once, next try at 11:47:24 UTC: there is no attribute rack")
	w.after(time.Second)
	check = does(tasks.Check)
	assert.Equal(t, 2, check.Attempt)
	w.append(w.state.Completed(check, tasks.ProbeResult{}, nil)...)
	assert.Equal(t, 1, w.times(record.TaskChecked), "that it can be started after all")
	does(tasks.Terminate, "h1")
}

// A result that comes when another deployment is active says nothing of that.
func TestACheckOfAnotherDeploymentIsNotRecorded(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(image("log-daemon:2"), hostNames(5))
	steps := w.checking()
	w.update(image("log-daemon:3"), hostNames(5))
	assert.Empty(t, w.state.Completed(steps[0], tasks.ProbeResult{}, errors.New("no")))
}
