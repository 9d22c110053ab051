package environment

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// orphaned wants these tasks to be left, by target without what all have.
func (w *world) orphaned(want ...string) {
	w.Helper()
	got := []string{}
	for _, o := range w.state.Orphans() {
		got = append(got, strings.TrimPrefix(o.Target, "task/SomeEnvironment/Prod/"))
	}
	if !slices.Equal(got, want) && len(got)+len(want) > 0 {
		w.Errorf("left are %q, want %q", got, want)
	}
}

func TestWhatADeletedEnvironmentLeftIsCleaned(t *testing.T) {
	w := deployed(t, 3, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 50 })
	w.refuses(Clean{}, NothingToClean)
	w.update(image("log-daemon:2"), hostNames(3))
	w.done("terminate 1 h1", "start 2 h1")
	w.propose(Delete{})
	w.orphaned("2/h1", "1/h2", "1/h3")
	if r := w.state.Report(); !r.Deleted || len(r.Orphans) != 3 {
		t.Errorf("reported is %+v", r)
	}
	w.refuses(Delete{TerminateTasks: true}, TasksUnmanaged)
	w.propose(Clean{By: "alice@host"})
	w.orphaned()
	if d, _ := w.state.ActiveDeployment(); d.Kind != record.ByDelete || !d.Clean || d.By != "alice@host" {
		t.Errorf("under way is %+v", d)
	}
	if events, err := w.state.Propose(Clean{}, w.now); err != nil || len(events) > 0 {
		t.Errorf("cleaning it again: %v, %v", events, err)
	}
	w.refuses(Deploy{Revision: 2}, BeingDeleted)
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 2
	         SomeEnvironment/Prod:2 Undeploying 0 1`)
	w.can("terminate 2 h1", "terminate 1 h2", "terminate 1 h3") // seen or not
	w.done("terminate 2 h1", "terminate 1 h2", "terminate 1 h3")
	w.orphaned()
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Inactive 0 0`)
	w.refuses(Clean{}, NothingToClean)
	w.again(Delete{TerminateTasks: true})
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
	if w.state.Exists() {
		t.Fatal("it is still being deleted")
	}
	w.orphaned("1/h2", "1/h3")
	all := w.state.Deployments()
	if d := all[len(all)-1]; d.Status != report.DeploymentSuperseded || !strings.Contains(d.Cause, "not terminated within 10m: h2: no answer") {
		t.Errorf("the deployment has ended as %+v", d)
	}
	if o := w.state.Orphans()[1]; !o.Lost {
		t.Errorf("left is %+v", o)
	}

	// What ends later is not left any more.
	w.append(deploylog.Event{Deployment: all[len(all)-1].ID, Target: record.TaskTarget(w.state.name, 1, "h2"), Revision: "1", Name: record.TaskTerminated, Attempt: 1, Data: record.Payload{}.Data()})
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
	w = newWorld(t)
	w.refuses(Clean{}, UnknownEnvironment)
}

func TestWhatWasDeletedExistsAgainWithItsTasks(t *testing.T) {
	w := deployed(t, 4, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 50 })
	w.refuses(Adopt{Revision: 1, Hosts: hostNames(4)}, EnvironmentExists)
	w.update(image("log-daemon:2"), hostNames(4))
	w.done("terminate 1 h1", "start 2 h1", "terminate 1 h2", "start 2 h2", "terminate 1 h3", "start 2 h3")
	w.propose(Delete{})
	w.orphaned("2/h1", "2/h2", "2/h3", "1/h4")
	w.refuses(Adopt{Revision: 3, Hosts: hostNames(4)}, UnknownRevision)
	w.refuses(Adopt{Revision: 2, Hosts: hostNames(1)}, OthersWouldLeave) // of a mistaken inventory
	w.state.inventory = "mine"
	w.refuses(Adopt{Revision: 2, Hosts: hostNames(4), Inventory: "other"}, OtherInventory)
	r, err := w.state.LastDeployed()
	if err != nil || r.Number != 2 {
		t.Fatalf("last deployed was %d: %v", r.Number, err)
	}
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
	w.done("start 2 h2", "terminate 1 h4", "start 2 h4")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 4 4`)
	w.propose(Delete{TerminateTasks: true})
	w.done("terminate 2 h1", "terminate 2 h2", "terminate 2 h3", "terminate 2 h4")
	w.refuses(Adopt{Revision: 2}, NothingToAdopt)
	w = newWorld(t)
	w.refuses(Adopt{Revision: 1}, UnknownEnvironment)
}
