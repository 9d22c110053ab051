package environment

import (
	"strings"
	"testing"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

func TestARestartStartsAllTasksAnewWithinTheMinimum(t *testing.T) {
	w := deployed(t, 3, func(d *definition.Definition) { d.Deployment.MaxUnavailable = most(1) })
	w.sees(1, "h2", tasks.Unhealthy, "it crashed")
	w.propose(Restart{Hosts: hostNames(3), By: "ada", Reason: "it leaks"})
	w.can("terminate 1 h2") // which is down anyway
	w.done("terminate 1 h2", "start 1 h2", "terminate 1 h1", "start 1 h1")
	w.can("terminate 1 h3")
	w.table(`SomeEnvironment/Prod:1 Deploying 3 3`)
	w.propose(Restart{Hosts: hostNames(3), By: "ada"}) // once more
	for _, h := range hostNames(3) {
		w.done("terminate 1 "+h, "start 1 "+h)
	}
	w.can()
	w.table(`SomeEnvironment/Prod:1 Active 3 3`)
	last := w.state.Deployments()[len(w.state.Deployments())-1]
	if last.Kind != record.ByRestart || last.Status != report.DeploymentFinished || last.Revision != 1 {
		t.Errorf("the last deployment is %+v", last)
	}
	if good, err := w.state.LastGood(); err == nil {
		t.Errorf("the last good revision is %d", good.Number)
	}
}

func TestARestartOfSomeHostsLeavesTheOthers(t *testing.T) {
	w := deployed(t, 3, nil)
	w.propose(Restart{Hosts: hostNames(3), Only: []string{"h3", "h1", "h3"}, Change: record.Change{MaxUnavailable: most(2)}})
	w.can("terminate 1 h1", "terminate 1 h3")
	w.done("terminate 1 h1", "start 1 h1", "terminate 1 h3", "start 1 h3")
	w.can()
	w.table(`SomeEnvironment/Prod:1 Active 3 3`)
	w.refuses(Restart{Hosts: hostNames(3), Only: []string{"h4"}}, UnknownHost)
	w.propose(CordonHosts{Hosts: []string{"h1"}})
	w.refuses(Restart{Hosts: hostNames(3), Only: []string{"h1"}}, HostCordoned)
	w.propose(Restart{Hosts: hostNames(3), Change: record.Change{MaxUnavailable: most(3)}})
	w.can("terminate 1 h2", "terminate 1 h3") // all but the cordoned one
	w.done("terminate 1 h2", "start 1 h2", "terminate 1 h3", "start 1 h3")
	w.propose(UncordonHosts{Hosts: []string{"h1"}})
	w.can() // it was passed over
}

// Who names hosts has chosen them: steps, which choose others, and what waits after them, are not
// of such a restart. That of all hosts takes them.
func TestARestartOfSomeHostsTakesNoSteps(t *testing.T) {
	w := deployed(t, 8, nil)
	w.update(inSteps(0, 0), hostNames(8))
	for _, h := range hostNames(8) {
		w.taken("2", h)
	}
	w.propose(Restart{Hosts: hostNames(8), Only: []string{"h7"}})
	w.can("terminate 2 h7")
	if step := w.state.Report().Step; step != nil {
		t.Errorf("it is at the step %+v", step)
	}
	w.refuses(Promote{}, NothingToPromote)
	w.done("terminate 2 h7", "start 2 h7")
	w.can()
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 8 8`)
	w.propose(Restart{Hosts: hostNames(8)})
	w.can("terminate 2 h1")
	if step := w.state.Report().Step; step == nil || step.Of != 3 {
		t.Errorf("a restart of all is at the step %+v", step)
	}
}

// Two tasks of one revision cannot be on a host, so also Surge stops one before it starts it.
func TestARestartWithSurgeReplaces(t *testing.T) {
	w := deployed(t, 2, func(d *definition.Definition) {
		d.Deployment.Method, d.Deployment.MinHealthyPercent = definition.Surge, 100
	})
	err := w.refuses(Restart{Hosts: hostNames(2)}, NoDisruptionAllowed)
	if want := "revision 1 cannot be restarted like that: Replace stops a task before it starts another, and with a min_healthy_percent of 100 none of 2 hosts may be without one; --min-healthy-percent 50 or less would let it proceed"; err.Error() != want {
		t.Errorf("it is refused with %q", err)
	}
	for range 2 { // also while the first has not finished
		w.propose(Restart{Hosts: hostNames(2), Change: record.Change{MaxUnavailable: most(1)}})
		w.can("terminate 1 h1")
		w.done("terminate 1 h1", "start 1 h1")
		w.can("terminate 1 h2")
	}
	w.done("terminate 1 h2", "start 1 h2")
	w.table(`SomeEnvironment/Prod:1 Active 2 2`)
	w.update(image("log-daemon:2"), hostNames(2))
	w.can("start 2 h1") // by Surge again
	if err := w.refuses(Restart{Hosts: hostNames(2)}, NotFinished); !strings.Contains(err.Error(), "has not finished (event") {
		t.Errorf("it is refused with %q", err)
	}
	w.refuses(Restart{Hosts: hostNames(2), Change: record.Change{Method: new(definition.Method)}}, NotFinished)
}

// What was begun before the restart is done again after it: its task is not of the restart.
func TestWorkThatARestartFindsIsRepeated(t *testing.T) {
	w := deployed(t, 1, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })
	w.sees(1, "h1", tasks.Unhealthy, "it crashed")
	w.after(tasks.HealthyReset)
	late := w.begin("start 1 h1")
	w.propose(Restart{Hosts: hostNames(1)})
	w.append(w.state.Completed(late, tasks.ProbeResult{Health: tasks.Healthy}, nil)...)
	w.table(`SomeEnvironment/Prod:1 Deploying 1 1`)
	w.done("terminate 1 h1", "start 1 h1")
	w.table(`SomeEnvironment/Prod:1 Active 1 1`)
	w.propose(Delete{TerminateTasks: true})
	w.refuses(Restart{Hosts: hostNames(1)}, BeingDeleted)
	w.done("terminate 1 h1")
	w.refuses(Restart{Hosts: hostNames(1)}, UnknownEnvironment)
	w.propose(Create{Definition: defined(nil)})
	w.refuses(Restart{Hosts: hostNames(1)}, NothingDeployed)
}
