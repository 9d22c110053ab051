package environment

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/refusal"
)

// inSteps is how the seed's environment is deployed to a host, then to a quarter, then to all.
func inSteps(pauses ...time.Duration) func(*definition.Definition) {
	return func(d *definition.Definition) {
		all := []definition.Wave{{Hosts: budget.Budget{Count: 1}}, {Hosts: budget.Budget{Percent: 25}}, {Hosts: budget.Budget{Percent: 100}}}
		for i, pause := range pauses {
			p := definition.Duration(pause)
			all[i].Pause = &p
		}
		d.Deployment.Steps, d.Deployment.MaxUnavailable = all, most(8)
		d.Task.Vars = map[string]any{"image": "log-daemon:2"}
	}
}

func TestADeploymentGoesInSteps(t *testing.T) {
	w := deployed(t, 8, nil)
	w.update(inSteps(10*time.Minute), hostNames(8))
	w.can("terminate 1 h1")
	w.begin("terminate 1 h1")
	w.explains(1, "h2", reason.AwaitsStep, "waiting to be terminated: step 1 of 3: 1 of 1 host begun", "the hosts of the step being healthy")
	w.done("terminate 1 h1")
	w.refuses(Promote{}, StepNotDone)
	w.done("start 2 h1")
	w.can()
	step, until := w.state.Report().Step, w.now.Add(10*time.Minute)
	assert.Equal(t, [2]int{1, 1}, [2]int{step.Number, step.Begun})
	assert.False(t, step.Promote)
	assert.Equal(t, until, step.Until)
	assert.Equal(t, until, w.state.Wake())
	w.after(10*time.Minute - time.Second)
	w.can()
	assert.False(t, w.state.Idle(), "it goes on in a second")
	w.after(time.Second)
	w.can("terminate 1 h2") // two of eight
	w.replaced(1, 2, "h2")
	w.after(100 * time.Hour) // until somebody promotes it, and no deadline passes
	w.can()
	w.explains(0, "", reason.AwaitsPromotion, "→ deployster env promote SomeEnvironment/Prod")
	assert.True(t, w.state.Idle(), "it waits for a person")
	w.propose(Promote{By: "ada", Reason: "it looks good"})
	p := w.last(record.EnvironmentPromoted)
	assert.Equal(t, record.Payload{Version: p.Version, By: "ada", Reason: "it looks good", StepNumber: 2}, p)
	w.replaced(1, 2, hostNames(8)[2:]...)
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 8 8`)
	w.refuses(Promote{}, NothingToPromote)
	w.sees(2, "h3", tasks.Unhealthy, "it crashed")
	w.after(time.Second)
	w.can("start 2 h3") // what is active takes no steps
}

// That a task is healthy again and again is no progress when it dies each time.
func TestAStepWhoseTaskKeepsDyingEndsStuck(t *testing.T) {
	w := deployed(t, 8, nil)
	w.update(inSteps(10*time.Minute), hostNames(8))
	w.replaced(1, 2, "h1")
	for range 8 {
		w.after(30 * time.Second)
		w.sees(2, "h1", tasks.Unhealthy, "it crashed")
		w.after(time.Minute)
		w.done("start 2 h1")
	}
	w.sees(2, "h1", tasks.Unhealthy, "it crashed")
	d := w.active(2, false)
	assert.Equal(t, report.DeploymentStuck, d.Status)
	assert.Equal(t, reason.NoProgress, d.Code)
}

func TestStepsAreCountedOverTheHosts(t *testing.T) {
	of := func(all ...*budget.Budget) (steps []definition.Wave) {
		for _, hosts := range all {
			steps = append(steps, definition.Wave{Hosts: *hosts})
		}
		return steps
	}
	for _, test := range []struct {
		steps   []definition.Wave
		n, want int
	}{
		{nil, 5, 0}, {of(percent(25)), 5, 2}, {of(percent(1)), 5, 1}, {of(most(3), percent(25)), 5, 3}, {of(percent(25)), 0, 0},
	} {
		assert.Equal(t, test.want, definition.MostHosts(test.steps, test.n), "of %d hosts %v", test.n, test.steps)
	}
}

func TestATaskThatDiesWhileItsHostWaitsForItsStepIsStartedAgain(t *testing.T) {
	w := deployed(t, 4, nil)
	w.update(inSteps(), hostNames(4))
	w.replaced(1, 2, "h1")
	w.can()
	assert.True(t, w.state.Idle(), "it waits for a person")
	w.sees(1, "h3", tasks.Unhealthy, "it crashed")
	w.explains(1, "h3", reason.AwaitsRetry, "failed once, next try at 11:47:24 UTC: it crashed", "the next try")
	assert.Equal(t, w.now.Add(time.Second), w.state.Wake())
	assert.False(t, w.state.Idle())
	w.can()
	w.after(time.Second)
	w.explains(1, "h3", reason.Ready, "waiting to be restarted: ready for the next free slot of the controller: it crashed", record.TaskStarted)
	step := w.begin("start 1 h3")
	assert.False(t, w.state.Idle(), "a task is being started")
	w.explains(1, "h3", reason.InProgress, "being restarted since event 20 (attempt 1)", "its result")
	w.can("start 1 h3") // where whoever began it has died
	w.append(w.state.Completed(step, tasks.ProbeResult{}, errors.New("no disk"))...)
	w.can()
	w.after(2 * time.Second)
	w.done("start 1 h3")
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 3
	         SomeEnvironment/Prod:2 Deploying 4 1`)
	info := w.state.Report().Step
	assert.Equal(t, 1, info.Begun)
	assert.True(t, info.Promote)
	assert.True(t, w.state.Idle())
	w.propose(Pause{})
	w.sees(1, "h3", tasks.Unhealthy, "it crashed")
	w.after(time.Minute)
	w.can()
	w.propose(Resume{})
	w.propose(Promote{})
	w.can("start 1 h3") // a quarter of them has begun already, too
	w.propose(Promote{})
	w.can("terminate 1 h3", "terminate 1 h2", "terminate 1 h4") // what is down first
}

// A host that is kept and not in the inventory was begun all the same: no other may begin in its place.
func TestAKeptHostThatWasBegunCountsForItsStep(t *testing.T) {
	w := deployed(t, 8, nil)
	w.update(inSteps(10*time.Minute), hostNames(8))
	w.done("terminate 1 h1")
	w.fails("start 2 h1", "no disk")
	w.propose(SetHosts{Selected: []string{"h6", "h7", "h8"}, Known: func(host string) bool { return host > "h5" }})
	w.after(time.Minute)
	w.can()
}

// A task that keeps dying leaves no room for others to be stopped: it is not up for long enough.
func TestARepairedTaskIsConfirmedBeforeItCounts(t *testing.T) {
	w := deployed(t, 4, nil)
	w.update(func(d *definition.Definition) {
		inSteps()(d)
		d.Deployment.MinHealthyTime, d.Deployment.MaxUnavailable = definition.Duration(10*time.Second), most(1)
	}, hostNames(4))
	w.sees(1, "h3", tasks.Unhealthy, "it crashed")
	w.replaced(1, 2, "h3") // which is down
	w.after(10 * time.Second)
	w.done("confirm 2 h3")
	w.propose(CordonHosts{Hosts: []string{"h2"}, Drain: true})
	w.sees(1, "h4", tasks.Unhealthy, "it crashed")
	w.after(time.Second)
	w.done("start 1 h4")
	w.can() // h4 is not up for long enough
	w.explains(1, "h4", reason.AwaitsHealth, "healthy for 10s")
	assert.False(t, w.state.Idle(), "it waits for the task to be confirmed")
	w.sees(1, "h4", tasks.Unhealthy, "it crashed")
	w.after(2 * time.Second)
	w.done("start 1 h4")
	w.can()
	w.after(10 * time.Second)
	w.propose(Pause{})
	w.can("confirm 1 h4")
	w.done("confirm 1 h4")
	w.propose(Resume{})
	w.can("terminate 1 h2")
}

// What people read of a reason is said here once; other tests want codes.
func TestTheSentencesOfReasons(t *testing.T) {
	d := reason.Details{
		Environment: "shop/prod", Seq: 7, Cause: "port is taken", By: "ann", Reason: "a mistake", Host: "web7", Step: &reason.StepInfo{Number: 1, Of: 3, Hosts: 2, Begun: 2, Seq: 8, Until: time.Date(2017, 9, 6, 11, 57, 23, 0, time.UTC)}, Zone: "eu-1", Zoned: true, Query: "attribute:stack == prod", Revision: 3,
		Awaited: "started", Attempt: 2, Failures: 2, RetryAt: time.Date(2017, 9, 6, 11, 47, 23, 0, time.UTC),
		Back: "deployster env rollback shop/prod", Failed: 1, Healthy: 4, Desired: 5, Double: 1, Minimum: 4,
		Config: definition.Configuration{
			MinHealthyPercent: 80, MaxOver: 1, OrderBy: "zone", MinHealthyTime: definition.Duration(10 * time.Second), HealthyDeadline: definition.Duration(5 * time.Minute),
			ProgressDeadline: definition.Duration(10 * time.Minute), MaxFailed: most(0),
		},
	}
	for code, want := range map[reason.Code][2]string{
		reason.EnvironmentDeleted: {"the environment was deleted", "a new revision: deployster env create"},
		reason.NotDeployed:        {"no revision was deployed", "deployster env deploy shop/prod --revision 3"},
		reason.Paused:             {"paused by ann (event 7): a mistake", "deployster env resume shop/prod, or another deployment"},
		reason.HostsUnknown:       {"its hosts are not known yet", "environment-hosts-changed, recorded by the controller"},
		reason.NoHosts:            {"the query attribute:stack == prod selects no hosts", "a host that the query selects"},
		reason.NoController:       {"no controller is running, so nothing begins", "deployster env run shop/prod"},
		reason.SilentController:   {"nothing begins: port is taken", "that controller going on, or its end: another one takes over then"},
		reason.IsStuck:            {"stuck (event 7): port is taken", "a task becoming healthy, deployster env rollback shop/prod, or a new revision"},
		reason.Ready:              {"waiting to be started: ready for the next free slot of the controller", "task-started"},
		reason.InProgress:         {"being started since event 7 (attempt 2)", "its result"},
		reason.TaskPaused:         {"waiting to be started: the environment is paused", "deployster env resume shop/prod"},
		reason.AwaitsRetry:        {"failed twice, next try at 11:47:23 UTC: port is taken", "the next try"},
		reason.AwaitsHealth:       {"launched, and not yet healthy for 10s", "task-finished-successfully"},
		reason.AwaitsProbe:        {"its state is unknown, so nothing is done with it: port is taken", "a successful probe: its host must respond"},
		reason.HostLost:           {"its host is no longer in the inventory, so it cannot be terminated", "the host in the inventory"},
		reason.TooManyFailed:      {"waiting to be started: 1 host failed, and max_failed is 0", "a failed task becoming healthy, or another deployment"},
		reason.MinHealthy:         {"waiting to be started: only 4 of 5 hosts are healthy, and 4 must stay healthy (min_healthy_percent 80)", "another task becoming healthy, or a deployment with a lower --min-healthy-percent"},
		reason.MaxOver:            {"waiting to be started: the number of hosts with two tasks is 1, and max_over is 1", "an old task being terminated"},
		reason.AwaitsZone:         {"waiting to be started: hosts are replaced by their zone, one after the other, and those of eu-1 are not done", "the hosts of eu-1 becoming healthy"},
		reason.AwaitsStep:         {"waiting to be started: step 1 of 3: 2 of 2 hosts begun, and it goes on at 11:57:23 UTC (event 8)", "that time, or deployster env promote shop/prod"},
		reason.AwaitsPromotion:    {"step 1 of 3: 2 of 2 hosts begun, and it goes on at 11:57:23 UTC (event 8)", "that time, or deployster env promote shop/prod"},
		reason.Cordoned:           {"its host is cordoned by ann (event 7): a mistake", "deployster env uncordon shop/prod web7"},
		reason.NoProgress:         {"no progress for 10m", "a task becoming healthy"},
		reason.DeadlinePassed:     {"not healthy within 5m", "the task becoming healthy"},
	} {
		if message, change := d.Text(code); message != want[0] || change != want[1] {
			t.Errorf("%s says\n  %s\n  → %s\nwant\n  %s\n  → %s", code, message, change, want[0], want[1])
		}
	}
}

// What people read of a refusal is said here once; other tests want only codes.
func TestTheSentencesOfRefusals(t *testing.T) {
	none, method := 101, definition.Method("Swap")
	over, fast := 0, record.Change{MinHealthyPercent: new(int)}
	one := func(t *testing.T) *world {
		w := newWorld(t)
		w.propose(Create{Definition: defined(nil), By: "ann@host"})
		return w
	}
	two := func(t *testing.T) *world {
		w := deployed(t, 1, nil)
		w.propose(Update{Base: 1, Definition: defined(image("log-daemon:2")), By: "bob@host"})
		return w
	}
	then := func(first func(*testing.T) *world, all ...Command) func(*testing.T) *world {
		return func(t *testing.T) *world {
			w := first(t)
			for _, c := range all {
				w.propose(c)
			}
			return w
		}
	}
	for _, c := range []struct {
		world   func(*testing.T) *world
		command Command
		code    refusal.Code
		want    string
	}{
		{newWorld, Pause{}, UnknownEnvironment, `no such environment "SomeEnvironment/Prod"`},
		{one, Create{Definition: defined(nil)}, EnvironmentExists, "environment SomeEnvironment/Prod already exists (revision 1, event 1): change it with deployster env update --base 1"},
		{one, Deploy{Revision: 2}, UnknownRevision, "no such revision 2 of environment SomeEnvironment/Prod: it has only revision 1"},
		{two, Deploy{Revision: 3}, UnknownRevision, "no such revision 3 of environment SomeEnvironment/Prod: it has revisions 1 to 2"},
		{two, Update{Base: 1, Definition: defined(nil)}, StaleBase, "stale base: revision 1 of environment SomeEnvironment/Prod is not the newest. Since then:\n" +
			"  revision 2, by bob@host at 2017-09-06 11:47:23 UTC: task.vars.image: log-daemon:1 → log-daemon:2\n" +
			"Review the changes (deployster env diff SomeEnvironment/Prod 1 2), and update from --base 2"},
		{two, Update{Base: 2, Definition: defined(image("log-daemon:2"))}, NothingChanged, "revision 2 of environment SomeEnvironment/Prod already has this definition, with the same files and variables: nothing was changed; deploy that one: deployster env deploy SomeEnvironment/Prod --revision 2"},
		{one, Rollback{Revision: 1}, NothingDeployed, "nothing of environment SomeEnvironment/Prod is deployed: there is nothing to roll back"},
		{one, Pause{}, NothingDeployed, "nothing of environment SomeEnvironment/Prod is deployed: there is nothing to pause"},
		{one, Resume{}, NotPaused, "environment SomeEnvironment/Prod is not paused"},
		{then(two, Pause{By: "ann@host"}), Pause{}, AlreadyPaused, "environment SomeEnvironment/Prod is already paused, by ann@host (event "},
		{two, Rollback{Revision: 2}, NewerRevision, "revision 2 is newer than revision 1, which is deployed: deployster env deploy SomeEnvironment/Prod --revision 2"},
		{two, Rollback{Revision: 1}, AlreadyDeployed, "revision 1 is already deployed: roll back to an earlier one"},
		{then(two, Delete{}, Create{Definition: defined(nil)}), Deploy{Revision: 1}, RevisionDeleted, "no such revision 1 of environment SomeEnvironment/Prod any more: it was made (event 1) before the environment was deleted; the first since then is 3"},
		{then(two, Deploy{Revision: 2, Change: fast, Hosts: hostNames(1)}), Deploy{Revision: 1, Hosts: hostNames(1)}, OlderRevision, "revision 1 is older than revision 2, which is being deployed: to go back, deployster env rollback SomeEnvironment/Prod --revision 1"},
		{then(two, Update{Base: 2, Definition: defined(image("log-daemon:3"))}, Deploy{Revision: 3, Change: fast, Hosts: hostNames(1)}), Rollback{Revision: 2, Hosts: hostNames(1)}, NeverDeployed, "revision 2 was never deployed, so it cannot be rolled back to: base a new revision on it"},
		{then(two, Delete{TerminateTasks: true}), Update{Base: 2, Definition: defined(nil)}, BeingDeleted, "environment SomeEnvironment/Prod is being deleted since event "},
		{two, Deploy{Revision: 2, Change: record.Change{MinHealthyPercent: &none}, Hosts: hostNames(1)}, InvalidChange, "invalid min_healthy_percent 101: it is from 0 to 100"},
		{two, Deploy{Revision: 2, Change: record.Change{Method: &method}, Hosts: hostNames(1)}, InvalidChange, `unknown method "Swap": it is Replace or Surge`},
		{two, Deploy{Revision: 2, Change: record.Change{MaxOver: new(int), MaxSurge: most(2)}, Hosts: hostNames(1)}, InvalidChange, "max_over and max_surge are two ways to say the same: give one of them"},
		{two, Deploy{Revision: 2, Change: record.Change{MinHealthyPercent: new(int), MaxUnavailable: most(2)}, Hosts: hostNames(1)}, InvalidChange, "min_healthy_percent and max_unavailable are two ways to say the same: give one of them"},
		{two, Deploy{Revision: 2, Change: record.Change{MaxSurge: most(0)}, Hosts: hostNames(1)}, InvalidChange, "invalid max_surge 0: it is at least 1"},
		{two, Deploy{Revision: 2, Change: record.Change{MaxUnavailable: most(0)}, Hosts: hostNames(1)}, NoDisruptionAllowed, "revision 2 cannot be deployed like that: Replace stops a task before it starts another, and with a max_unavailable of 0 none of 1 host may be without one; --max-unavailable 1, or --method Surge, would let it proceed"},
		{two, Deploy{Revision: 2, Change: record.Change{MaxOver: &over}, Hosts: hostNames(1)}, InvalidChange, "invalid max_over 0: it is at least 1"},
	} {
		t.Run(strings.ReplaceAll(c.want, " ", "-"), func(t *testing.T) {
			w := c.world(t)
			w.refuses(c.command, c.code)
			_, err := w.state.Propose(c.command, w.now)
			assert.True(t, strings.HasPrefix(err.Error(), c.want), "it says %s", err)
		})
	}
}

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
