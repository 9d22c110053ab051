package environment

import (
	"slices"
	"testing"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// While the network is away nobody knows how tasks are. When it is back nothing is
// stopped that may be well.
func TestATaskThatCanNotBeSeenIsNeitherStoppedNorStarted(t *testing.T) {
	w := deployed(t, 10, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 90 })
	w.update(image("log-daemon:2"), hostNames(10))
	for _, h := range hostNames(10) {
		w.sees(1, h, tasks.Unknown, "the host does not answer")
	}
	w.can()
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 10
	         SomeEnvironment/Prod:2 Deploying 10 0`)
	if all := w.state.Explain(record.TaskTarget("SomeEnvironment/Prod", 1, "h3"), w.now); len(all) != 1 || all[0].Code != reason.AwaitsProbe {
		t.Errorf("it is explained as %+v", all)
	}
	for _, h := range hostNames(10)[:9] {
		w.sees(1, h, tasks.Healthy, "")
	}
	w.can() // 9 of 10 are seen to be healthy, and must stay so
	w.sees(1, "h10", tasks.Unhealthy, "it ended")
	w.can("terminate 1 h10")
}

func TestHostsThatVanishFromTheInventoryForAMomentKeepTheirTasks(t *testing.T) {
	w := deployed(t, 10, nil)
	w.update(image("log-daemon:2"), hostNames(10))
	w.propose(SetHosts{Selected: hostNames(1), Known: func(host string) bool { return host == "h1" }})
	w.propose(SetHosts{Selected: hostNames(10)})
	w.can("terminate 1 h1", "terminate 1 h10") // none of them was taken for lost
}

// What still runs on hosts that leave is no reason to stop what is on the others.
func TestHostsThatLeaveDoNotMakeUpForThoseThatStay(t *testing.T) {
	w := deployed(t, 10, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 75 })
	w.update(func(d *definition.Definition) {
		image("log-daemon:2")(d)
		d.InstanceGroup = definition.InstanceGroup{Query: "fewer", MaxLeaving: most(6)}
	}, hostNames(4))
	stops := 0
	for _, s := range w.steps() {
		if slices.Contains(hostNames(4), s.Host) {
			stops++
		}
	}
	if stops != 1 {
		t.Errorf("%d of 4 hosts are taken down, of which 3 must be healthy", stops)
	}
}

func TestAHaltedDeploymentTakesNothingMoreAway(t *testing.T) {
	w := deployed(t, 10, nil)
	w.update(func(d *definition.Definition) { image("log-daemon:2")(d); d.Deployment.MaxFailed = most(0) }, hostNames(10))
	w.done("terminate 1 h1")
	w.fails("start 2 h1", "bad image")
	w.sees(1, "h2", tasks.Unhealthy, "it ended")
	w.can()
}

// With Surge, what is of no use makes way: it needs no room for a second task.
func TestSurgeLetsADeadTaskMakeWay(t *testing.T) {
	w := deployed(t, 3, func(d *definition.Definition) {
		d.Deployment.Method, d.Deployment.MinHealthyPercent = definition.Surge, 100
	})
	w.update(image("log-daemon:2"), hostNames(3))
	w.begin("start 2 h1")
	w.sees(1, "h2", tasks.Unhealthy, "it ended")
	w.can("start 2 h1", "terminate 1 h2")
	w.done("terminate 1 h2")
	w.can("start 2 h1", "start 2 h2")
}

func TestDriftThatComesBackIsRepairedWithPauses(t *testing.T) {
	w := deployed(t, 5, nil)
	w.sees(1, "h1", tasks.Drifted, "~ content")
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		w.done("start 1 h1")
		w.sees(1, "h1", tasks.Drifted, "~ content")
		w.can()
		w.after(pause)
	}
	w.done("start 1 h1")
	w.after(tasks.HealthyReset)
	w.sees(1, "h1", tasks.Drifted, "~ content")
	w.can("start 1 h1")
}

func TestNothingIsRolledBackThatWasNotTried(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(func(d *definition.Definition) { image("log-daemon:2")(d); d.Deployment.AutoRollback = true }, hostNames(5))
	w.after(11 * time.Minute) // without a controller
	w.steps()
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 5
	         SomeEnvironment/Prod:2 Stuck 5 0`)
	w.done("terminate 1 h1")
	w.fails("start 2 h1", "bad image") // from now on it is tried
	w.after(10*time.Minute - time.Millisecond)
	w.steps()
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 4
	         SomeEnvironment/Prod:2 Deploying 5 0`)
	w.after(time.Millisecond)
	w.steps()
	w.table(`SomeEnvironment/Prod:1 Deploying 5 4
	         SomeEnvironment/Prod:2 Reverting 0 1`)
}

// An automatic rollback goes as the deployment did that it undoes: with the
// configuration of the old revision it might never get on.
func TestAnAutomaticRollbackHasTheConfigurationOfWhatItUndoes(t *testing.T) {
	w := deployed(t, 2, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 100 })
	w.update(func(d *definition.Definition) {
		image("log-daemon:2")(d)
		d.Deployment.AutoRollback, d.Deployment.MinHealthyPercent = true, 50
	}, hostNames(2))
	w.done("terminate 1 h1", "start 2 h1", "terminate 1 h2")
	w.fails("start 2 h2", "bad image")
	w.after(10 * time.Minute)
	w.steps()
	w.done("terminate 2 h2", "start 1 h2", "terminate 2 h1", "start 1 h1")
	w.table(`SomeEnvironment/Prod:1 Active 2 2
	         SomeEnvironment/Prod:2 Reverted 0 0`)
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

func TestRevisionsFromBeforeADeleteAreNotDeployedAgain(t *testing.T) {
	w := deployed(t, 1, nil)
	w.propose(Delete{})
	if was := w.state.Deployments()[0]; was.Status != report.DeploymentFinished {
		t.Errorf("what had finished is %s", was.Status)
	}
	w.propose(Create{Definition: defined(image("log-daemon:2"))})
	w.refuses(Deploy{Revision: 1, Hosts: hostNames(1)}, RevisionDeleted)
	w.propose(Deploy{Revision: 2, Hosts: hostNames(1)})
	w.propose(Delete{})
	if was := w.state.Deployments()[1]; was.Status != report.DeploymentSuperseded || was.Cause != "the environment was deleted" {
		t.Errorf("what had not finished is %+v", was)
	}
}

// What is known to be healthy may not be: nothing finishes before it was looked at.
func TestNothingFinishesUnseen(t *testing.T) {
	w := deployed(t, 2, nil)
	w.propose(Deploy{Revision: 1, Hosts: hostNames(2)})
	if all := slices.Collect(w.state.Decide(w.now, Can{})); len(all) != 0 {
		t.Errorf("it decides on %v", all)
	}
	w.can()
	w.table(`SomeEnvironment/Prod:1 Active 2 2`)
}
