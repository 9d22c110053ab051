package environment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// A revision that has run nowhere has shown nothing: its deployment does not end, so no stage
// goes on, nothing goes back to it, and its steps bound it when the hosts are there again.
func TestADeploymentDoesNotEndWhereAllHostsAreCordoned(t *testing.T) {
	w := deployed(t, 2, nil)
	w.propose(CordonHosts{Hosts: hostNames(2), By: "ada"})
	w.update(func(d *definition.Definition) { inSteps()(d); d.Deployment.AutoRollback = true }, hostNames(2))
	w.can()
	w.explains(2, "h1", reason.Cordoned)
	w.after(10 * time.Minute)
	w.can()
	assert.Equal(t, report.DeploymentStuck, w.active(2, false).Status)
	assert.True(t, w.state.Idle())
	w.propose(UncordonHosts{Hosts: hostNames(2), By: "ada"})
	w.can("terminate 1 h1")
	w.replaced(1, 2, "h1")
	w.can() // the first step has one host
}

func TestHostsAreCordonedBeforeAnythingIsDeployedAndWhileTheyAreAway(t *testing.T) {
	w := newWorld(t)
	w.refuses(CordonHosts{Hosts: hostNames(1)}, UnknownEnvironment)
	w.propose(Create{Definition: defined(nil)})
	w.refuses(CordonHosts{}, NoHostNamed)
	w.propose(CordonHosts{Hosts: []string{"h1"}})
	w.propose(UncordonHosts{Hosts: []string{"h1"}})
	w.propose(CordonHosts{Hosts: []string{"h1", "h1"}, By: "ada", Reason: "a new disk"})
	w.nothing(CordonHosts{Hosts: []string{"h1"}})
	assert.Len(t, w.state.Report().Cordoned, 1)
	w.propose(Deploy{Revision: 1, Hosts: hostNames(3)})
	w.can("start 1 h2", "start 1 h3")
	w.explains(1, "h1", reason.Cordoned, "its host is cordoned by ada (event", "): a new disk", "deployster env uncordon SomeEnvironment/Prod h1")
	assert.True(t, w.state.Report().Hosts[0].Passed)
	w.done("start 1 h2", "start 1 h3")
	w.table(`SomeEnvironment/Prod:1 Degraded 3 2`)
	assert.True(t, w.state.Idle())
	away := func(string) bool { return false }
	w.propose(SetHosts{Selected: []string{"h2", "h3"}, Known: away})
	w.propose(SetHosts{Selected: hostNames(3), Known: away})
	w.can()
	w.propose(UncordonHosts{Hosts: []string{"h1"}})
	w.can("start 1 h1")
	w.propose(CordonHosts{Hosts: []string{"h1"}})
	w.propose(Delete{TerminateTasks: true})
	w.refuses(UncordonHosts{Hosts: []string{"h1"}}, BeingDeleted)
	w.done("terminate 1 h2", "terminate 1 h3") // those of cordoned hosts would be, too
	assert.Empty(t, w.state.Cordons())
	w.propose(Create{Definition: defined(nil)})
	w.propose(Deploy{Revision: 2, Hosts: hostNames(1)})
	w.can("start 2 h1") // another environment of the name
}

func TestADrainKeepsTheMinimumAndTheHostEmpty(t *testing.T) {
	w := deployed(t, 3, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 60 })
	w.propose(CordonHosts{Hosts: []string{"h1", "h3"}, Drain: true, By: "ada"})
	w.begin("terminate 1 h1")
	w.explains(1, "h3", reason.MinHealthy, "only 2 of 3 hosts are healthy, and 2 must stay healthy")
	assert.False(t, w.state.Idle(), "it drains a host")
	w.done("terminate 1 h1")
	w.can()
	w.table(`SomeEnvironment/Prod:1 Active 3 2`)
	w.explains(1, "h1", reason.Cordoned)
	w.propose(UncordonHosts{Hosts: []string{"h1"}})
	w.done("start 1 h1", "terminate 1 h3")
	w.can()
}

// What cordoned hosts are without cannot be given to a deployment.
func TestADeploymentIsRefusedForWhichCordonedHostsLeaveNothing(t *testing.T) {
	w := deployed(t, 4, func(d *definition.Definition) { d.Deployment.MaxUnavailable = most(1) })
	w.propose(CordonHosts{Hosts: []string{"h4"}, Drain: true})
	w.done("terminate 1 h4")
	w.revise(image("log-daemon:2"))
	w.refuses(Deploy{Revision: 2, Hosts: hostNames(4)}, NoDisruptionAllowed,
		"none of 4 hosts may be without one but for those that are cordoned and have no healthy task (h4)",
		"--max-unavailable 2, deployster env uncordon SomeEnvironment/Prod HOST, or --method Surge")
	w.propose(Deploy{Revision: 2, Hosts: hostNames(4), Change: record.Change{MaxUnavailable: most(2)}})
	w.can("terminate 1 h1")
}

// While nobody could do anything about it, a task cannot be late.
func TestTimeDoesNotRunOutOnCordonedHosts(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.MaxFailed = most(0) })})
	w.propose(Deploy{Revision: 1, Hosts: hostNames(2)})
	w.begin("start 1 h1")
	w.begin("start 1 h2")
	w.propose(CordonHosts{Hosts: []string{"h1"}})
	w.after(4 * time.Minute)
	w.propose(UncordonHosts{Hosts: []string{"h1"}})
	w.after(4 * time.Minute)
	w.steps()
	assert.Equal(t, []string{"task/SomeEnvironment/Prod/1/h2"}, w.named(record.TaskDeadlinePassed))
}

func TestHostsStayCordonedWhereADeletedEnvironmentIsAdopted(t *testing.T) {
	w := deployed(t, 3, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 30 })
	w.propose(CordonHosts{Hosts: []string{"h2"}, By: "ada", Reason: "a new disk"})
	w.propose(Delete{})
	assert.Empty(t, w.state.Report().Cordoned)
	w.propose(Adopt{Revision: 1, Hosts: hostNames(3)})
	w.sees(1, "h1", tasks.Healthy, "")
	w.sees(1, "h2", tasks.Unhealthy, "it crashed")
	w.sees(1, "h3", tasks.Healthy, "")
	w.after(time.Hour)
	w.can()
	assert.Equal(t, "a new disk", w.state.Report().Cordoned[0].Reason)
	w.propose(UncordonHosts{Hosts: []string{"h2"}})
	w.can("start 1 h2")
}

func TestARestartOfSomeHostsLeavesTheOthers(t *testing.T) {
	w := deployed(t, 3, nil)
	w.propose(Restart{Hosts: hostNames(3), Only: []string{"h3", "h1", "h3"}, Change: record.Change{MaxUnavailable: most(2)}})
	w.can("terminate 1 h1", "terminate 1 h3")
	w.replaced(1, 1, "h1", "h3")
	w.can()
	w.refuses(Restart{Hosts: hostNames(3), Only: []string{"h4"}}, UnknownHost)
	w.propose(CordonHosts{Hosts: []string{"h1"}})
	w.refuses(Restart{Hosts: hostNames(3), Only: []string{"h1"}}, HostCordoned)
	w.propose(Restart{Hosts: hostNames(3), Change: record.Change{MaxUnavailable: most(3)}})
	w.can("terminate 1 h2", "terminate 1 h3") // all but the cordoned one
	w.replaced(1, 1, "h2", "h3")
	w.propose(UncordonHosts{Hosts: []string{"h1"}})
	w.can() // it was passed over
}

// Who names hosts has chosen them: steps, which choose others, and what waits after them, are not
// of such a restart. That of all hosts takes them.
func TestARestartOfSomeHostsTakesNoSteps(t *testing.T) {
	w := deployed(t, 8, nil)
	w.update(inSteps(), hostNames(8))
	for _, step := range [][]string{{"h1"}, {"h2"}} {
		w.replaced(1, 2, step...)
		w.propose(Promote{})
	}
	w.replaced(1, 2, hostNames(8)[2:]...)
	w.propose(Restart{Hosts: hostNames(8), Only: []string{"h7"}})
	w.can("terminate 2 h7")
	assert.Nil(t, w.state.Report().Step)
	w.refuses(Promote{}, NothingToPromote)
	w.replaced(2, 2, "h7")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 8 8`)
	w.propose(Restart{Hosts: hostNames(8)})
	w.replaced(2, 2, "h1")
	w.can()
	assert.Equal(t, 3, w.state.Report().Step.Of)

	// A restart of a host is all that the start of a task there would be: what dies need not wait.
	w.sees(2, "h5", tasks.Unhealthy, "it crashed")
	w.after(time.Second)
	w.done("start 2 h5")
	assert.Equal(t, 2, w.state.Report().Step.Begun)
}

// Two tasks of one revision cannot be on a host, so also Surge stops one before it starts it.
func TestARestartWithSurgeReplaces(t *testing.T) {
	w := deployed(t, 2, func(d *definition.Definition) {
		d.Deployment.Method, d.Deployment.MinHealthyPercent = definition.Surge, 100
	})
	w.refuses(Restart{Hosts: hostNames(2)}, NoDisruptionAllowed, "revision 1 cannot be restarted like that: Replace stops a task before it starts another, "+
		"and with a min_healthy_percent of 100 none of 2 hosts may be without one; --min-healthy-percent 50 or less would let it proceed")
	for range 2 { // also while the first has not finished
		w.propose(Restart{Hosts: hostNames(2), Change: record.Change{MaxUnavailable: most(1)}})
		w.can("terminate 1 h1")
		w.replaced(1, 1, "h1")
		w.can("terminate 1 h2")
	}
	w.replaced(1, 1, "h2")
	w.table(`SomeEnvironment/Prod:1 Active 2 2`)
	w.refuses(Restart{Hosts: hostNames(2), Change: record.Change{Method: new(definition.Method)}}, InvalidChange)
	w.update(image("log-daemon:2"), hostNames(2))
	w.can("start 2 h1") // by Surge again
	w.refuses(Restart{Hosts: hostNames(2)}, NotFinished, "has not finished (event")
}

// What was begun before the restart is done again after it: its task is not of the restart.
func TestWorkThatARestartFindsIsRepeated(t *testing.T) {
	w := deployed(t, 1, none)
	w.sees(1, "h1", tasks.Unhealthy, "it crashed")
	w.after(tasks.HealthyReset)
	late := w.begin("start 1 h1")
	w.propose(Restart{Hosts: hostNames(1)})
	w.append(w.state.Completed(late, tasks.ProbeResult{Health: tasks.Healthy}, nil)...)
	w.table(`SomeEnvironment/Prod:1 Deploying 1 1`)
	w.replaced(1, 1, "h1")
	w.table(`SomeEnvironment/Prod:1 Active 1 1`)
	w.propose(Delete{TerminateTasks: true})
	w.refuses(Restart{Hosts: hostNames(1)}, BeingDeleted)
	w.done("terminate 1 h1")
	w.refuses(Restart{Hosts: hostNames(1)}, UnknownEnvironment)
	w.propose(Create{Definition: defined(nil)})
	w.refuses(Restart{Hosts: hostNames(1)}, NothingDeployed)
}

// running is a task that runs whenever one looks, and had ended by itself so often before.
func running(restarts int) tasks.ProbeResult {
	return tasks.ProbeResult{Health: tasks.Healthy, Restarts: &restarts, Restarted: "web ended by itself"}
}

// launched is an environment whose task was just started, with what was seen then, as a
// controller knows it that has read the log.
func launched(t *testing.T, seen tasks.ProbeResult, lasting time.Duration) *world {
	w := newWorld(t)
	w.propose(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.MinHealthyTime = definition.Duration(lasting) })})
	w.propose(Deploy{Revision: 1, Hosts: hostNames(1)})
	w.append(w.state.Completed(w.begin("start 1 h1"), seen, nil)...)
	w.anew()
	return w
}

func (w *world) probed(found tasks.ProbeResult) []deploylog.Event {
	return w.state.Probed(w.state.Task(1, "h1"), found)
}

// What keeps a task there starts it again before anybody looks. It has died all the same.
func TestWhatEndedByItselfSinceItWasSeenHasDied(t *testing.T) {
	confirmed := func(w *world, found tasks.ProbeResult) []deploylog.Event {
		w.after(10 * time.Second)
		return w.state.Completed(w.begin("confirm 1 h1"), found, nil)
	}
	drifted := tasks.ProbeResult{Health: tasks.Drifted, Detail: "x", Restarts: running(1).Restarts, Restarted: "web ended by itself"}
	for name, tc := range map[string]struct {
		launched, then tasks.ProbeResult
		dies           int
	}{
		"it never ended":                         {running(0), running(0), 0},
		"it ended once":                          {running(0), running(1), 1},
		"it ended as often before it was begun":  {running(7), running(7), 0},
		"it ended again":                         {running(7), running(9), 1},
		"it was made anew by somebody":           {running(7), running(0), 0},
		"it is not said any more":                {running(0), tasks.ProbeResult{Health: tasks.Healthy}, 0},
		"it was not said by an earlier version":  {tasks.ProbeResult{Health: tasks.Healthy}, running(9), 0},
		"it ended, and is not as configured now": {running(0), drifted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := launched(t, tc.launched, 10*time.Second)
			w.append(confirmed(w, tc.then)...)
			assert.Equal(t, [2]int{tc.dies, 1 - tc.dies}, [2]int{w.times(record.TaskFailed), w.times(record.TaskFinished)}, "when it is confirmed")

			w = launched(t, tc.launched, 10*time.Second)
			w.append(w.probed(tc.then)...)
			assert.Equal(t, tc.dies, w.times(record.TaskFailed), "before it is confirmed")

			w = launched(t, tc.launched, 0)
			w.append(w.probed(tc.then)...)
			assert.Equal(t, tc.dies, w.times(record.TaskDied), "later")
			if tc.dies > 0 {
				assert.Contains(t, w.last(record.TaskDied).Error, "web ended by itself")
				w.append(w.probed(tasks.ProbeResult{Health: tasks.Healthy, Restarts: tc.then.Restarts})...)
				assert.Equal(t, 1, w.times(record.TaskRecovered), "it has not ended since")
			}
		})
	}
}

// From the first number that is said, or one that somebody began anew, it is counted on: what
// was counted before hides nothing, and nobody is blamed for it.
func TestRestartsAreCountedFromWhereTheyBegin(t *testing.T) {
	for name, seen := range map[string]tasks.ProbeResult{
		"an earlier version did not count": {Health: tasks.Healthy},
		"it had restarted more often":      running(7),
	} {
		t.Run(name, func(t *testing.T) {
			w := launched(t, seen, 0)
			since := w.state.Report().Hosts
			for range 3 {
				w.after(time.Minute)
				w.append(w.probed(running(2))...)
			}
			assert.Equal(t, [2]int{1, 0}, [2]int{w.times(record.TaskCounted), w.times(record.TaskDied)})
			assert.Equal(t, since, w.state.Report().Hosts)
			w.append(w.probed(running(3))...)
			assert.Equal(t, 1, w.times(record.TaskDied), "it has restarted once more")
		})
	}
}
