package environment

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/refusal"
)

// What another environment left is looked at before anything is done: what is well is left
// alone, what has drifted is repaired within the minimum, and what died is started.
func TestWhatAnotherEnvironmentLeftIsTakenOver(t *testing.T) {
	w := newWorld(t)
	w.refuses(AdoptFrom{From: "Old", Revision: 1}, UnknownEnvironment)
	w.propose(Create{Definition: defined(func(d *definition.Definition) {
		d.Deployment.MaxUnavailable, d.Deployment.Drift = &budget.Budget{Count: 1}, definition.RepairDrift
	})})
	w.refuses(AdoptFrom{From: "Old", Revision: 2, Hosts: hostNames(5)}, UnknownRevision)
	w.propose(AdoptFrom{From: "Old", Revision: 1, Hosts: hostNames(5), Same: []string{"h4", "h2", "h1", "h3"}, By: "alice@host"})
	w.refuses(AdoptFrom{From: "Old", Revision: 1, Hosts: hostNames(5)}, AlreadyDeployed)
	w.can("start 1 h5") // where nothing was left
	if r := w.state.Report(); r.Hosts[0].Tasks[0].Cause != "environment Old left it running when it was deleted" || r.Hosts[0].Tasks[0].Status != report.TaskLost {
		t.Errorf("known of h1 is %+v", r.Hosts[0].Tasks)
	}
	w.sees(1, "h1", tasks.Healthy, "")
	w.sees(1, "h2", tasks.Drifted, "env ENVIRONMENT")
	w.sees(1, "h3", tasks.Drifted, "env ENVIRONMENT")
	w.sees(1, "h4", tasks.Unhealthy, "it ended")
	w.after(time.Second)
	w.done("start 1 h4", "start 1 h5")
	w.can("start 1 h2") // one at a time
	w.done("start 1 h2", "start 1 h3")
	w.table(`SomeEnvironment/Prod:1 Active 5 5`)
	w.propose(Delete{TerminateTasks: true})
	w.refuses(AdoptFrom{From: "Old", Revision: 1}, BeingDeleted)
	w.done("terminate 1 h1", "terminate 1 h2", "terminate 1 h3", "terminate 1 h4", "terminate 1 h5")
	w.refuses(AdoptFrom{From: "Old", Revision: 1}, UnknownEnvironment)
}

func TestWhatIsTakenOverIsNotLeftAnyMore(t *testing.T) {
	to := AdoptFrom{From: "SomeEnvironment/Prod", Inventory: "mine"}
	wantRefused := func(s *State, code refusal.Code) {
		t.Helper()
		var refused *refusal.Error
		if err := s.CheckLeft(to); !errors.As(err, &refused) || !strings.Contains(err.Error(), s.name) || refused.Code != code {
			t.Errorf("refused is as %v, not %s", err, code)
		}
	}
	w := newWorld(t)
	wantRefused(w.state, UnknownEnvironment)
	w = deployed(t, 3, nil)
	wantRefused(w.state, EnvironmentExists)
	w.propose(Delete{})
	w.state.inventory = "other"
	wantRefused(w.state, OtherInventory)
	w.state.inventory = "mine"
	if err := w.state.CheckLeft(to); err != nil {
		t.Fatal(err)
	}
	start := deploylog.Event{Deployment: "New:1@1", Target: record.Target("New")}
	w.append(w.state.Leave([]string{"task/SomeEnvironment/Prod/1/h3", "task/SomeEnvironment/Prod/1/h1"}, start, to)...)
	if p := record.Read(w.last(record.TasksTaken).Data); p.Other != "New" {
		t.Errorf("recorded is %+v", p)
	}
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
	w.propose(Update{Base: 1, Definition: defined(func(d *definition.Definition) {
		d.Task, d.Deployment.MinHealthyPercent = definition.TaskSpec{Manifest: d.Task.Manifest, Digest: "other"}, 100
	})})
	w.propose(Delete{})
	err := w.refuses(Adopt{Revision: 2, Hosts: hostNames(2)}, NoDisruptionAllowed)
	if !strings.Contains(err.Error(), "--min-healthy-percent 50 or less") {
		t.Errorf("it is refused with %v", err)
	}
	if _, err := w.state.Propose(Adopt{Revision: 1, Hosts: hostNames(2)}, w.now); err != nil {
		t.Errorf("what is as it should be needs not be replaced: %v", err)
	}
	half := 50
	w.propose(Adopt{Revision: 2, Hosts: hostNames(2), Change: record.Change{MinHealthyPercent: &half}})
	w.sees(1, "h1", tasks.Healthy, "")
	w.sees(1, "h2", tasks.Healthy, "")
	w.can("terminate 1 h1")
}
