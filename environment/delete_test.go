package environment

import (
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
)

func TestDeletingTerminatesAllTasksOrLeavesThem(t *testing.T) {
	w := deployed(t, 3, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 100 })
	w.propose(Delete{TerminateTasks: true, By: "alice@host"})
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 3`)
	w.refuses(Deploy{Revision: 1, Hosts: hostNames(3)}, BeingDeleted)
	w.can("terminate 1 h1", "terminate 1 h2", "terminate 1 h3") // no minimum
	w.done("terminate 1 h1", "terminate 1 h2")
	w.propose(SetHosts{Known: func(string) bool { return false }}) // the last is lost
	w.steps()
	if w.state.Exists() {
		t.Error("it is still there")
	}
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0`)
	w.propose(Create{Definition: defined(nil)}) // numbers go on, for the log knows the old ones
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Created 0 0`)

	w = deployed(t, 3, nil)
	w.propose(Delete{})
	w.can()
	if w.state.Exists() {
		t.Error("it is still there")
	}
	w.refuses(Pause{}, UnknownEnvironment)
}

// again wants a second deletion to do nothing, and to be fine.
func (w *world) again(c Delete) {
	w.Helper()
	if events, err := w.state.Propose(c, w.now); err != nil || len(events) > 0 {
		w.Errorf("deleting it again: %v, %v", events, err)
	}
}

func TestDeletingTwiceIsDeletingOnce(t *testing.T) {
	w := deployed(t, 2, nil)
	w.propose(Delete{TerminateTasks: true})
	w.again(Delete{TerminateTasks: true}) // while it is under way
	w.done("terminate 1 h1")
	w.again(Delete{}) // which joins it
	w.can("terminate 1 h2")
	w.done("terminate 1 h2")
	w.again(Delete{TerminateTasks: true})
	w.again(Delete{})

	w = newWorld(t)
	w.refuses(Delete{}, UnknownEnvironment)
	w.propose(Create{Definition: defined(nil)})
	w.propose(Delete{})
	w.again(Delete{TerminateTasks: true}) // there are none
	w.refuses(Pause{}, UnknownEnvironment)
}

// Who wants the tasks terminated must not be told that all is well while they run.
func TestTheTasksOfADeletedEnvironmentCannotBeTerminated(t *testing.T) {
	w := deployed(t, 2, nil)
	w.propose(Delete{})
	w.again(Delete{})
	w.refuses(Delete{TerminateTasks: true}, TasksUnmanaged)

	w = deployed(t, 2, nil)
	w.propose(Delete{TerminateTasks: true})
	w.done("terminate 1 h1")
	f, _ := w.state.ActiveDeployment() // older versions ended it with a task
	w.append(deploylog.Event{Deployment: f.ID, Target: w.state.target, Revision: "1", Name: record.EnvironmentDeleted, Attempt: 1, Data: record.Payload{}.Data()})
	w.refuses(Delete{TerminateTasks: true}, TasksUnmanaged)
	w.propose(Create{Definition: defined(nil)})
	w.propose(Delete{TerminateTasks: true})
	w.again(Delete{TerminateTasks: true})

	w = deployed(t, 2, nil)
	w.propose(Delete{TerminateTasks: true})
	w.done("terminate 1 h1")
	w.propose(SetHosts{Known: func(string) bool { return false }}) // which deleting goes on without
	w.steps()
	w.again(Delete{TerminateTasks: true})
}
