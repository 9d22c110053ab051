package environment

import (
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

func (w *world) explains(revision string, host string, code reason.Code, words ...string) {
	w.Helper()
	target := "task/SomeEnvironment/Prod/" + revision + "/" + host
	all := w.state.Explain(deploylog.Target(target), w.now)
	if len(all) != 1 || all[0].Code != code {
		w.Fatalf("of %s it explains %+v, not %s", target, all, code)
	}
	for _, word := range words {
		if !strings.Contains(all[0].Message+" → "+all[0].Change, word) {
			w.Errorf("of %s it explains %+v, without %q", target, all[0], word)
		}
	}
}

func TestADeploymentPassesOverCordonedHosts(t *testing.T) {
	w := deployed(t, 3, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 30 })
	w.propose(CordonHosts{Hosts: []string{"h2", "h2"}, By: "ada", Reason: "a new disk"})
	w.update(image("log-daemon:2"), hostNames(3))
	w.can("terminate 1 h1", "terminate 1 h3")
	w.explains("2", "h2", reason.Cordoned, "its host is cordoned by ada (event", "): a new disk", "deployster env uncordon SomeEnvironment/Prod h2")
	w.done("terminate 1 h1", "start 2 h1", "terminate 1 h3", "start 2 h3")
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 1
	         SomeEnvironment/Prod:2 Active 3 2`)
	w.sees(1, "h2", tasks.Unhealthy, "it crashed")
	w.after(time.Hour)
	w.can() // what dies there is left as it is, too
	r := w.state.Report()
	if len(r.Cordoned) != 1 || r.Cordoned[0].Host != "h2" || !r.Hosts[1].Passed || r.Hosts[1].Failed {
		t.Errorf("it reports %+v and %+v", r.Cordoned, r.Hosts[1])
	}
	if !w.state.Idle() {
		t.Error("it is not idle")
	}
	if events, err := w.state.Propose(CordonHosts{Hosts: []string{"h2"}}, w.now); err != nil || len(events) > 0 {
		t.Errorf("to cordon it again records %v, %v", events, err)
	}
	w.propose(UncordonHosts{Hosts: []string{"h2", "h3"}, By: "ada"})
	w.done("terminate 1 h2", "start 2 h2")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 3 3`)
}

// A revision that has run nowhere has shown nothing: its deployment does not end, so no stage
// goes on, nothing goes back to it, and its steps bound it when the hosts are there again.
func TestADeploymentDoesNotEndWhereAllHostsAreCordoned(t *testing.T) {
	w := deployed(t, 2, nil)
	w.propose(CordonHosts{Hosts: hostNames(2), By: "ada"})
	w.update(func(d *definition.Definition) { inSteps()(d); d.Deployment.AutoRollback = true }, hostNames(2))
	w.can()
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 2
	         SomeEnvironment/Prod:2 Deploying 2 0`)
	w.explains("2", "h1", reason.Cordoned)
	w.after(10 * time.Minute)
	w.can()
	if d, _ := w.state.ActiveDeployment(); d.Status != report.DeploymentStuck || d.Revision != 2 || !w.state.Idle() {
		t.Errorf("it is %+v, idle: %t", d, w.state.Idle())
	}
	w.propose(UncordonHosts{Hosts: hostNames(2), By: "ada"})
	w.can("terminate 1 h1")
	w.taken("2", "h1")
	w.can() // the first step has one host
}

func TestHostsAreCordonedBeforeAnythingIsDeployedAndWhileTheyAreAway(t *testing.T) {
	w := newWorld(t)
	w.refuses(CordonHosts{Hosts: hostNames(1)}, UnknownEnvironment)
	w.propose(Create{Definition: defined(nil)})
	w.refuses(CordonHosts{}, NoHostNamed)
	w.propose(CordonHosts{Hosts: []string{"h1"}})
	w.propose(UncordonHosts{Hosts: []string{"h1"}})
	w.propose(CordonHosts{Hosts: []string{"h1"}})
	w.propose(Deploy{Revision: 1, Hosts: hostNames(3)})
	w.can("start 1 h2", "start 1 h3")
	w.done("start 1 h2", "start 1 h3")
	w.table(`SomeEnvironment/Prod:1 Degraded 3 2`)
	none := func(string) bool { return false }
	w.propose(SetHosts{Selected: []string{"h2", "h3"}, Known: none})
	w.propose(SetHosts{Selected: hostNames(3), Known: none})
	w.can()
	w.propose(UncordonHosts{Hosts: []string{"h1"}})
	w.can("start 1 h1")
	w.propose(Delete{})
	w.propose(Create{Definition: defined(nil)})
	w.propose(CordonHosts{Hosts: []string{"h1"}})
	w.propose(Delete{})
	w.propose(Create{Definition: defined(nil)})
	w.propose(Deploy{Revision: 3, Hosts: hostNames(1)})
	w.can("start 3 h1") // another environment of the name
}

func TestADrainKeepsTheMinimumAndTheHostEmpty(t *testing.T) {
	w := deployed(t, 3, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 60 })
	w.propose(CordonHosts{Hosts: []string{"h1", "h3"}, Drain: true, By: "ada"})
	w.begin("terminate 1 h1")
	w.explains("1", "h3", reason.MinHealthy, "only 2 of 3 hosts are healthy, and 2 must stay healthy")
	if w.state.Idle() {
		t.Error("it is idle, and drains a host")
	}
	w.append(w.state.Completed(w.begin("terminate 1 h1"), tasks.ProbeResult{}, nil)...)
	w.can()
	w.table(`SomeEnvironment/Prod:1 Active 3 2`)
	w.explains("1", "h1", reason.Cordoned)
	w.propose(UncordonHosts{Hosts: []string{"h1"}})
	w.done("start 1 h1", "terminate 1 h3")
	w.can()
}

// Who deletes an environment with its tasks means all of them.
func TestCordonedHostsAreCleanedWithTheirEnvironment(t *testing.T) {
	w := deployed(t, 2, nil)
	w.propose(CordonHosts{Hosts: []string{"h1"}})
	w.propose(Delete{TerminateTasks: true})
	w.refuses(UncordonHosts{Hosts: []string{"h1"}}, BeingDeleted)
	w.done("terminate 1 h1", "terminate 1 h2")
	if w.state.Exists() || len(w.state.Cordons()) > 0 {
		t.Errorf("it exists: %t, with %v", w.state.Exists(), w.state.Cordons())
	}
}

// What cordoned hosts are without cannot be given to a deployment.
func TestADeploymentIsRefusedForWhichCordonedHostsLeaveNothing(t *testing.T) {
	w := deployed(t, 4, func(d *definition.Definition) { d.Deployment.MaxUnavailable = most(1) })
	w.propose(CordonHosts{Hosts: []string{"h4"}, Drain: true})
	w.done("terminate 1 h4")
	d := *w.state.Revisions()[0].Definition
	d.Task.Vars = map[string]any{"image": "log-daemon:2"}
	w.propose(Update{Base: 1, Definition: &d})
	err := w.refuses(Deploy{Revision: 2, Hosts: hostNames(4)}, NoDisruptionAllowed)
	for _, want := range []string{"none of 4 hosts may be without one but for those that are cordoned and have no healthy task (h4)", "--max-unavailable 2, deployster env uncordon SomeEnvironment/Prod HOST, or --method Surge"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it is refused with %q, without %q", err, want)
		}
	}
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
	if n := w.times(record.TaskDeadlinePassed); n != 1 {
		t.Errorf("%d tasks are late, not the one that was not cordoned", n)
	}
}

func TestHostsStayCordonedWhereADeletedEnvironmentIsAdopted(t *testing.T) {
	w := deployed(t, 3, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 30 })
	w.propose(CordonHosts{Hosts: []string{"h2"}, By: "ada", Reason: "a new disk"})
	w.propose(Delete{})
	if r := w.state.Report(); len(r.Cordoned) > 0 {
		t.Errorf("of a deleted environment it reports %+v", r.Cordoned)
	}
	w.propose(Adopt{Revision: 1, Hosts: hostNames(3)})
	w.sees(1, "h1", tasks.Healthy, "")
	w.sees(1, "h2", tasks.Unhealthy, "it crashed")
	w.sees(1, "h3", tasks.Healthy, "")
	w.after(time.Hour)
	w.can()
	if r := w.state.Report(); len(r.Cordoned) != 1 || r.Cordoned[0].Reason != "a new disk" {
		t.Errorf("it reports %+v", r.Cordoned)
	}
	w.propose(UncordonHosts{Hosts: []string{"h2"}})
	w.can("start 1 h2")
}
