package environment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/refusal"
)

func TestDeletingTwiceIsDeletingOnce(t *testing.T) {
	w := deployed(t, 2, nil)
	w.propose(Delete{TerminateTasks: true})
	w.nothing(Delete{TerminateTasks: true}) // while it is under way
	w.done("terminate 1 h1")
	w.nothing(Delete{}) // which joins it
	w.done("terminate 1 h2")
	w.nothing(Delete{TerminateTasks: true})
	w.nothing(Delete{})
	w = newWorld(t)
	w.refuses(Delete{}, UnknownEnvironment)
	w.propose(Create{Definition: defined(nil)})
	w.propose(Delete{})
	w.nothing(Delete{TerminateTasks: true}) // there are none
	w.refuses(Pause{}, UnknownEnvironment)
}

// Who wants the tasks terminated must not be told that all is well while they run.
func TestTheTasksOfADeletedEnvironmentCannotBeTerminated(t *testing.T) {
	w := deployed(t, 2, nil)
	w.propose(Delete{})
	assert.Equal(t, report.DeploymentFinished, w.state.Deployments()[0].Status)
	w.nothing(Delete{})
	w.refuses(Delete{TerminateTasks: true}, TasksUnmanaged)
	w = deployed(t, 2, nil)
	w.propose(Delete{TerminateTasks: true})
	w.done("terminate 1 h1")
	f, _ := w.state.ActiveDeployment() // older versions ended it with a task
	w.append(deploylog.Event{Deployment: f.ID, Target: w.state.target, Revision: "1", Name: record.EnvironmentDeleted, Attempt: 1, Data: record.Payload{}.Data()})
	w.refuses(Delete{TerminateTasks: true}, TasksUnmanaged)
	w.propose(Create{Definition: defined(nil)})
	w.propose(Deploy{Revision: 2, Hosts: hostNames(1)})
	w.propose(Delete{})
	assert.Equal(t, "the environment was deleted", w.state.Deployments()[2].Cause, "what had not finished")
	w = deployed(t, 2, nil)
	w.propose(Delete{TerminateTasks: true})
	w.done("terminate 1 h1")
	w.propose(SetHosts{Known: func(string) bool { return false }}) // which deleting goes on without
	w.steps()
	w.nothing(Delete{TerminateTasks: true})
}

func TestAStuckDeletionEndsWithoutItsTasks(t *testing.T) {
	w := deployed(t, 2, nil)
	w.propose(Delete{TerminateTasks: true})
	w.done("terminate 1 h1")
	w.fails("terminate 1 h2", "permission denied")
	w.after(time.Hour)
	w.steps()
	w.explains(0, "", reason.IsStuck, "deployster env delete SomeEnvironment/Prod --leave-tasks")
	w.propose(Delete{LeaveTasks: true, By: "alice@host"})
	assert.False(t, w.state.Exists())
	d := w.state.Deployments()[1]
	assert.Equal(t, report.DeploymentSuperseded, d.Status)
	assert.Contains(t, d.Cause, "left running")
	w.refuses(Delete{TerminateTasks: true}, TasksUnmanaged)
}

// orphaned wants these tasks to be left, by target without what all have.
func (w *world) orphaned(want ...string) {
	var got []string
	for _, o := range w.state.Orphans() {
		got = append(got, strings.TrimPrefix(o.Target, "task/SomeEnvironment/Prod/"))
	}
	assert.Equal(w, want, got)
}

func TestWhatADeletedEnvironmentLeftIsCleaned(t *testing.T) {
	w := deployed(t, 3, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 50 })
	w.refuses(Clean{}, NothingToClean)
	w.update(image("log-daemon:2"), hostNames(3))
	w.replaced(1, 2, "h1")
	w.propose(Delete{})
	w.orphaned("2/h1", "1/h2", "1/h3")
	r := w.state.Report()
	assert.True(t, r.Deleted)
	assert.Len(t, r.Orphans, 3)
	w.propose(Clean{By: "alice@host"})
	w.orphaned()
	d := w.active(2, false)
	assert.True(t, d.Clean)
	assert.Equal(t, record.ByDelete, d.Kind)
	w.nothing(Clean{})
	w.refuses(Deploy{Revision: 2}, BeingDeleted)
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 2
	         SomeEnvironment/Prod:2 Undeploying 0 1`)
	w.can("terminate 2 h1", "terminate 1 h2", "terminate 1 h3") // seen or not
	w.done("terminate 2 h1", "terminate 1 h2", "terminate 1 h3")
	w.orphaned()
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Inactive 0 0`)
	w.refuses(Clean{}, NothingToClean)
	w.nothing(Delete{TerminateTasks: true})
}

func TestWhatCannotBeCleanedStaysListed(t *testing.T) {
	w := deployed(t, 3, nil)
	w.propose(Delete{})
	w.propose(Clean{})
	w.done("terminate 1 h1")
	w.propose(SetHosts{Known: func(host string) bool { return host != "h3" }})
	w.fails("terminate 1 h2", "no answer")
	w.after(10 * time.Minute)
	for _, s := range slices.Collect(w.state.Decide(w.now, Can{Disrupt: true})) {
		w.append(s.Events...)
	}
	require.False(t, w.state.Exists(), "it is still being deleted")
	w.orphaned("1/h2", "1/h3")
	assert.True(t, w.state.Orphans()[1].Lost)
	d := w.state.Deployments()[1]
	assert.Equal(t, report.DeploymentSuperseded, d.Status)
	assert.Contains(t, d.Cause, "not terminated within 10m: h2: no answer")

	// What ends later is not left any more.
	w.append(deploylog.Event{Deployment: d.ID, Target: record.TaskTarget(w.state.name, 1, "h2"), Revision: "1", Name: record.TaskTerminated, Attempt: 1, Data: record.Payload{}.Data()})
	w.orphaned("1/h3")

	// Nor is what somebody else has taken; and who exists again cleans up after that.
	w.propose(Clean{Taken: []string{"task/SomeEnvironment/Prod/1/h3"}})
	w.steps()
	w.orphaned()
	w = deployed(t, 1, nil)
	w.propose(Delete{})
	w.propose(Create{Definition: defined(nil)})
	w.refuses(Clean{}, EnvironmentExists)
	w.propose(Deploy{Revision: 2, Hosts: hostNames(1)})
	w.done("start 2 h1")
	w.propose(Delete{})
	w.orphaned("1/h1", "2/h1")
	w.propose(Clean{})
	w.done("terminate 1 h1", "terminate 2 h1")
	w.orphaned()
	newWorld(t).refuses(Clean{}, UnknownEnvironment)
}

func TestWhatWasDeletedExistsAgainWithItsTasks(t *testing.T) {
	w := deployed(t, 4, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 50 })
	w.refuses(Adopt{Revision: 1, Hosts: hostNames(4)}, EnvironmentExists)
	w.update(image("log-daemon:2"), hostNames(4))
	w.replaced(1, 2, hostNames(3)...)
	w.propose(Delete{})
	w.orphaned("2/h1", "2/h2", "2/h3", "1/h4")
	w.refuses(Adopt{Revision: 3, Hosts: hostNames(4)}, UnknownRevision)
	w.refuses(Adopt{Revision: 2, Hosts: hostNames(1)}, OthersWouldLeave) // of a mistaken inventory
	w.state.inventory = "mine"
	w.refuses(Adopt{Revision: 2, Hosts: hostNames(4), Inventory: "other"}, OtherInventory)
	require.Equal(t, 2, must.Get(w.state.LastDeployed())(t).Number)
	w.propose(Adopt{Revision: 2, Hosts: hostNames(4), By: "alice@host"})
	w.orphaned()
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 1
	         SomeEnvironment/Prod:2 Deploying 4 0`)
	w.can() // nothing is known of them
	w.sees(2, "h1", tasks.Healthy, "")
	w.sees(2, "h2", tasks.Unhealthy, "it ended")
	w.sees(2, "h3", tasks.Healthy, "")
	w.sees(1, "h4", tasks.Healthy, "")
	w.after(time.Second)
	w.done("start 2 h2")
	w.replaced(1, 2, "h4")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 4 4`)
	w.propose(Delete{TerminateTasks: true})
	w.done("terminate 2 h1", "terminate 2 h2", "terminate 2 h3", "terminate 2 h4")
	w.refuses(Adopt{Revision: 2}, NothingToAdopt)
	newWorld(t).refuses(Adopt{Revision: 1}, UnknownEnvironment)
}

// What another environment left is looked at before anything is done: what is well is left
// alone, what has drifted is repaired within the minimum, and what died is started.
func TestWhatAnotherEnvironmentLeftIsTakenOver(t *testing.T) {
	w := newWorld(t)
	w.refuses(AdoptFrom{From: "Old", Revision: 1}, UnknownEnvironment)
	w.propose(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.MaxUnavailable = most(1) })})
	w.refuses(AdoptFrom{From: "Old", Revision: 2, Hosts: hostNames(3)}, UnknownRevision)
	w.propose(AdoptFrom{From: "Old", Revision: 1, Hosts: hostNames(3), Same: []string{"h2", "h1"}, By: "alice@host"})
	w.refuses(AdoptFrom{From: "Old", Revision: 1, Hosts: hostNames(3)}, AlreadyDeployed)
	w.can("start 1 h3") // where nothing was left
	left := w.state.Report().Hosts[0].Tasks[0]
	assert.Equal(t, report.TaskLost, left.Status)
	assert.Equal(t, "environment Old left it running when it was deleted", left.Cause)
	w.propose(Delete{TerminateTasks: true})
	w.refuses(AdoptFrom{From: "Old", Revision: 1}, BeingDeleted)
	w.done("terminate 1 h1", "terminate 1 h2")
	w.refuses(AdoptFrom{From: "Old", Revision: 1}, UnknownEnvironment)
}

func TestWhatIsTakenOverIsNotLeftAnyMore(t *testing.T) {
	to := AdoptFrom{From: "SomeEnvironment/Prod", Inventory: "mine"}
	wantRefused := func(s *State, code refusal.Code) {
		var refused *refusal.Error
		require.ErrorAs(t, s.CheckLeft(to), &refused)
		assert.Equal(t, code, refused.Code)
		assert.ErrorContains(t, refused, s.name)
	}
	w := newWorld(t)
	wantRefused(w.state, UnknownEnvironment)
	w = deployed(t, 3, nil)
	wantRefused(w.state, EnvironmentExists)
	w.propose(Delete{})
	w.state.inventory = "other"
	wantRefused(w.state, OtherInventory)
	w.state.inventory = "mine"
	require.NoError(t, w.state.CheckLeft(to))
	start := deploylog.Event{Deployment: "New:1@1", Target: record.Target("New")}
	w.append(w.state.Leave([]string{"task/SomeEnvironment/Prod/1/h3", "task/SomeEnvironment/Prod/1/h1"}, start, to)...)
	assert.Equal(t, "New", w.last(record.TasksTaken).Other)
	w.orphaned("1/h2")
	w.propose(Clean{})
	wantRefused(w.state, BeingDeleted)
	w.can("terminate 1 h2")
	w.done("terminate 1 h2")
	wantRefused(w.state, NothingToAdopt)
}

// Events that contradict what is known are history all the same.
func TestTasksThatNobodyCanHaveTakenChangeNothing(t *testing.T) {
	w := deployed(t, 1, nil)
	names := []string{"h1", "h2"}
	w.append(deploylog.Event{Deployment: "other:1", Target: w.state.target, Revision: "1", Name: record.TasksTaken, Attempt: 1, Data: record.Payload{Hosts: &names}.Data()})
	w.append(deploylog.Event{Deployment: w.state.active.ID, Target: w.state.target, Revision: "1", Name: record.TasksTaken, Attempt: 1, Data: []byte(`{"taken": 1}`)})
	w.table(`SomeEnvironment/Prod:1 Active 1 1`)
}

// An adoption is refused as a deployment is that could never proceed: what was left may be
// healthy, though nobody has looked.
func TestAnAdoptionThatCannotProceedIsRefused(t *testing.T) {
	w := deployed(t, 2, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 100 })
	w.revise(func(d *definition.Definition) { d.Task.Digest = "other" })
	w.propose(Delete{})
	w.refuses(Adopt{Revision: 2, Hosts: hostNames(2)}, NoDisruptionAllowed, "--min-healthy-percent 50 or less")
	_, err := w.state.Propose(Adopt{Revision: 1, Hosts: hostNames(2)}, w.now)
	assert.NoError(t, err, "what is as it should be needs not be replaced")
	half := 50
	w.propose(Adopt{Revision: 2, Hosts: hostNames(2), Change: record.Change{MinHealthyPercent: &half}})
	w.sees(1, "h1", tasks.Healthy, "")
	w.sees(1, "h2", tasks.Healthy, "")
	w.can("terminate 1 h1")
}

// outcome is how all tasks are, and what may be done now and later.
func (w *world) outcome() (all []string) {
	for _, h := range w.state.hosts {
		for _, t := range h.Tasks {
			all = append(all, fmt.Sprintf("%s: %d is %s, attempt %d for %s, failed %d times: %s", h.Name, t.Revision, t.Status, t.Attempt, t.Deployment, t.Failures, t.Cause))
		}
	}
	for range 3 {
		for _, s := range w.steps() {
			all = append(all, fmt.Sprintf("%s: %s %d, attempt %d for %s", s.Host, s.Kind, s.Revision, s.Attempt, s.Deployment))
		}
		w.after(time.Minute)
	}
	return all
}

// A controller may judge how a step ended before it has read a command that is already
// in the log. That leads where it leads when the step has ended right before the command.
func TestAResultThatIsJudgedBeforeACommandIsReadIsRightAllTheSame(t *testing.T) {
	begins := map[string]func(*world) tasks.Step{
		"terminating": func(w *world) tasks.Step { return w.begin("terminate 1 h1") },
		"starting":    func(w *world) tasks.Step { w.done("terminate 1 h1"); return w.begin("start 2 h1") },
		"confirming": func(w *world) tasks.Step {
			w.replaced(1, 2, "h1")
			w.after(10 * time.Minute)
			return w.begin("confirm 2 h1")
		},
	}
	back := Rollback{Revision: 1, Hosts: hostNames(5)}
	commands := map[string][]Command{
		"pause":    {Pause{By: "ann"}},
		"rollback": {back},
		"next":     {Update{Base: 2, Definition: defined(image("3"))}, Deploy{Revision: 3, Hosts: hostNames(5)}},
		"again":    {back, Deploy{Revision: 2, Hosts: hostNames(5)}},
		"delete":   {Delete{TerminateTasks: true}},
		"leave":    {Delete{}},
	}
	run := func(t *testing.T, begin func(*world) tasks.Step, given []Command, cause error, healthy time.Duration, late bool) []string {
		w := deployed(t, 5, nil)
		w.update(func(d *definition.Definition) {
			image("2")(d)
			d.Deployment.MinHealthyTime = definition.Duration(healthy)
		}, hostNames(5))
		s := begin(w)
		other := &world{T: t, state: New(w.state.Name()), events: slices.Clone(w.events), now: w.now, unique: maps.Clone(w.unique)}
		other.anew()
		for _, c := range given {
			other.propose(c) // which it reads at once
		}
		commanded := other.events[len(w.events):]
		ended := w.state.Completed(s, tasks.ProbeResult{Health: tasks.Healthy}, cause)
		if late {
			w.append(slices.Concat(commanded, ended)...)
		} else {
			w.append(slices.Concat(ended, commanded)...)
		}
		return w.outcome()
	}
	for step, begin := range begins {
		for command, given := range commands {
			for _, cause := range []error{nil, errors.New("no route")} {
				for _, healthy := range []time.Duration{0, time.Minute} {
					if step == "confirming" && healthy == 0 {
						continue
					}
					t.Run(fmt.Sprintf("%s, %s, %v, %s", step, command, cause, healthy), func(t *testing.T) {
						assert.Equal(t, run(t, begin, given, cause, healthy, false), run(t, begin, given, cause, healthy, true))
					})
				}
			}
		}
	}
}
