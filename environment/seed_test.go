package environment

import (
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

func TestTheSeedsFirstDeployment(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 100 })})
	w.table(`SomeEnvironment/Prod:1    Created    0         0`)
	w.can()
	w.propose(Deploy{Revision: 1, Hosts: hostNames(5)})
	w.table(`SomeEnvironment/Prod:1    Deploying       5         0`)
	if d, _ := w.state.ActiveDeployment(); d.ID != "SomeEnvironment/Prod:1@2017090611472301" {
		t.Errorf("the deployment is called %s", d.ID)
	}
	w.can("start 1 h1", "start 1 h2", "start 1 h3", "start 1 h4", "start 1 h5") // the minimum is not kept, and need not be
	w.done("start 1 h1", "start 1 h2", "start 1 h3")
	w.table(`SomeEnvironment/Prod:1    Deploying       5         3`)
	w.done("start 1 h4")
	w.after(10 * time.Minute)
	w.fails("start 1 h5", "no disk")
	w.table(`SomeEnvironment/Prod:1    Stuck           5         4`)
	w.after(time.Second)
	w.done("start 1 h5")
	w.table(`SomeEnvironment/Prod:1    Active          5         5`)
	w.can()
}

func TestTheSeedsUpdateOfTheTask(t *testing.T) {
	w := deployed(t, 5, nil)
	d := defined(image("log-daemon:2"))
	w.propose(Update{Base: 1, Definition: d})
	w.table(`SomeEnvironment/Prod:1    Active     5         5
	         SomeEnvironment/Prod:2    Created    0         0`)
	w.propose(Deploy{Revision: 2, Hosts: hostNames(5)})
	w.table(`SomeEnvironment/Prod:1    Undeploying  0         5
	         SomeEnvironment/Prod:2    Deploying    5         0`)
	for _, h := range hostNames(5) {
		w.done("terminate 1 "+h, "start 2 "+h)
	}
	w.table(`SomeEnvironment/Prod:1    Inactive     0         0
	         SomeEnvironment/Prod:2    Active       5         5`)
}

// The seed asks whether that can be smarter than to restart all tasks: they are what the
// revision wants, so only the new host gets one.
func TestTheSeedsUpdateOfTheInstanceGroup(t *testing.T) {
	w := deployed(t, 5, nil)
	w.propose(Update{Base: 1, Definition: defined(func(d *definition.Definition) { d.InstanceGroup.Query = "attribute:stack in (prod, gamma)" })})
	w.table(`SomeEnvironment/Prod:1    Active     5         5
	         SomeEnvironment/Prod:2    Created    0         0`)
	w.propose(Deploy{Revision: 2, Hosts: hostNames(6)})
	w.table(`SomeEnvironment/Prod:1    Undeploying  0         5
	         SomeEnvironment/Prod:2    Deploying    6         0`)
	w.can("start 1 h6") // with the name that the others have
	w.table(`SomeEnvironment/Prod:1    Undeploying  0         0
	         SomeEnvironment/Prod:2    Deploying    6         5`)
	w.done("start 1 h6")
	w.table(`SomeEnvironment/Prod:1    Inactive     0         0
	         SomeEnvironment/Prod:2    Active       6         6`)
	if n := w.times(record.TaskTerminating); n != 0 {
		t.Errorf("%d tasks were terminated", n)
	}
}

func TestTheSeedsReplaceStepByStep(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(image("log-daemon:2"), hostNames(5))
	w.table(`SomeEnvironment/Prod:1    Undeploying  0         5
	         SomeEnvironment/Prod:2    Deploying    5         0`)
	w.can("terminate 1 h1")
	w.done("terminate 1 h1")
	w.table(`SomeEnvironment/Prod:1    Undeploying  0         4
	         SomeEnvironment/Prod:2    Deploying    5         0`)
	w.can("start 2 h1") // nothing else before that is healthy
	w.done("start 2 h1")
	w.table(`SomeEnvironment/Prod:1    Undeploying  0         4
	         SomeEnvironment/Prod:2    Deploying    5         1`)
	for _, h := range hostNames(4)[1:] {
		w.done("terminate 1 "+h, "start 2 "+h)
	}
	w.done("terminate 1 h5")
	w.table(`SomeEnvironment/Prod:1    Undeploying  0         0
	         SomeEnvironment/Prod:2    Deploying    5         4`)
	w.done("start 2 h5")
	w.table(`SomeEnvironment/Prod:1    Inactive     0         0
	         SomeEnvironment/Prod:2    Active       5         5`)
}

func TestTheSeedsSurgeStepByStep(t *testing.T) {
	w := deployed(t, 5, func(d *definition.Definition) {
		d.Deployment.Method, d.Deployment.MinHealthyPercent = definition.Surge, 100
	})
	w.update(image("log-daemon:2"), hostNames(5))
	w.table(`SomeEnvironment/Prod:1    Undeploying  0         5
	         SomeEnvironment/Prod:2    Deploying    5         0`)
	w.can("start 2 h1")
	w.done("start 2 h1")
	w.table(`SomeEnvironment/Prod:1    Undeploying  0         5
	         SomeEnvironment/Prod:2    Deploying    5         1`)
	w.can("terminate 1 h1") // one host at most has two
	w.done("terminate 1 h1")
	w.table(`SomeEnvironment/Prod:1    Undeploying  0         4
	         SomeEnvironment/Prod:2    Deploying    5         1`)
	for _, h := range hostNames(4)[1:] {
		w.done("start 2 "+h, "terminate 1 "+h)
	}
	w.done("start 2 h5")
	w.table(`SomeEnvironment/Prod:1    Undeploying  0         1
	         SomeEnvironment/Prod:2    Deploying    5         5`)
	w.done("terminate 1 h5")
	w.table(`SomeEnvironment/Prod:1    Inactive     0         0
	         SomeEnvironment/Prod:2    Active       5         5`)
}

func TestTheSeedsRollback(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(image("log-daemon:2"), hostNames(5))
	for _, h := range hostNames(5) {
		w.done("terminate 1 "+h, "start 2 "+h)
	}
	w.table(`SomeEnvironment/Prod:1    Inactive     0         0
	         SomeEnvironment/Prod:2    Active       5         5`)
	w.refuses(Deploy{Revision: 1, Hosts: hostNames(5)}, OlderRevision)
	w.propose(Rollback{Revision: 1, Hosts: hostNames(5)})
	w.table(`SomeEnvironment/Prod:1    Deploying    5         0
	         SomeEnvironment/Prod:2    Reverting    0         5`)
	for _, h := range hostNames(5) {
		w.done("terminate 2 "+h, "start 1 "+h)
	}
	w.table(`SomeEnvironment/Prod:1    Active       5         5
	         SomeEnvironment/Prod:2    Reverted     0         0`)
	w.propose(Deploy{Revision: 2, Hosts: hostNames(5)}) // is newer than the active one
	w.table(`SomeEnvironment/Prod:1    Undeploying  0         5
	         SomeEnvironment/Prod:2    Deploying    5         0`)
}

func TestTheSeedsRollbackDuringADeployment(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(image("log-daemon:2"), hostNames(5))
	w.done("terminate 1 h1", "start 2 h1", "terminate 1 h2")
	w.refuses(Deploy{Revision: 1, Hosts: hostNames(5)}, OlderRevision)
	w.propose(Rollback{Revision: 1, Hosts: hostNames(5)})
	w.table(`SomeEnvironment/Prod:1    Deploying    5         3
	         SomeEnvironment/Prod:2    Reverting    0         1`)
	w.can("start 1 h2") // which has none already
	w.done("start 1 h2", "terminate 2 h1", "start 1 h1")
	w.table(`SomeEnvironment/Prod:1    Active       5         5
	         SomeEnvironment/Prod:2    Reverted     0         0`)
}

func TestTheSeedsRollbackPastAnUndeployingRevision(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(image("log-daemon:2"), hostNames(5))
	for _, h := range hostNames(5) {
		w.done("terminate 1 "+h, "start 2 "+h)
	}
	w.update(image("log-daemon:3"), hostNames(5))
	w.done("terminate 2 h1", "start 3 h1")
	w.table(`SomeEnvironment/Prod:1    Inactive     0         0
	         SomeEnvironment/Prod:2    Undeploying  0         4
	         SomeEnvironment/Prod:3    Deploying    5         1`)
	w.propose(Rollback{Revision: 1, Hosts: hostNames(5)})
	w.table(`SomeEnvironment/Prod:1    Deploying    5         0
	         SomeEnvironment/Prod:2    Reverting    0         4
	         SomeEnvironment/Prod:3    Reverting    0         1`)
	w.done("terminate 3 h1", "start 1 h1")
	for _, h := range hostNames(5)[1:] {
		w.done("terminate 2 "+h, "start 1 "+h)
	}
	w.table(`SomeEnvironment/Prod:1    Active       5         5
	         SomeEnvironment/Prod:2    Reverted     0         0
	         SomeEnvironment/Prod:3    Reverted     0         0`)
}

// All are down after a bad revision; a configuration of its own lets the
// rollback go faster than the minimum would.
func TestARollbackMayHaveAConfigurationOfItsOwn(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(image("log-daemon:2"), hostNames(5))
	for _, h := range hostNames(5) {
		w.done("terminate 1 "+h, "start 2 "+h)
	}
	zero := 0
	w.propose(Rollback{Revision: 1, Hosts: hostNames(5), Change: record.Change{MinHealthyPercent: &zero}})
	w.can("terminate 2 h1", "terminate 2 h2", "terminate 2 h3", "terminate 2 h4", "terminate 2 h5")
}

// What a rollback is allowed in an emergency must not be allowed for as long as its
// revision is active.
func TestAConfigurationOfADeploymentEndsWithIt(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(image("log-daemon:2"), hostNames(5))
	for _, h := range hostNames(5) {
		w.done("terminate 1 "+h, "start 2 "+h)
	}
	zero, surge := 0, definition.Surge
	w.propose(Rollback{Revision: 1, Hosts: hostNames(5), Change: record.Change{MinHealthyPercent: &zero, Method: &surge}})
	if r := w.state.Report(); r.Minimum != 0 {
		t.Errorf("while it is rolled back %d hosts must be healthy", r.Minimum)
	}
	for _, h := range hostNames(5) {
		w.done("start 1 "+h, "terminate 2 "+h)
	}
	w.table(`SomeEnvironment/Prod:1    Active       5         5
	         SomeEnvironment/Prod:2    Reverted     0         0`)
	if r := w.state.Report(); r.Minimum != 4 || r.Deployment.Configuration.MinHealthyPercent != 0 {
		t.Errorf("of the active revision %d hosts must be healthy, and the deployment is said to have had %d %%", r.Minimum, r.Deployment.Configuration.MinHealthyPercent)
	}
	w.sees(1, "h1", tasks.Drifted, "image")
	w.sees(1, "h2", tasks.Drifted, "image")
	w.begin("start 1 h1")
	w.can("start 1 h1")
	why := w.state.Explain(record.TaskTarget("SomeEnvironment/Prod", 1, "h2"), w.now)
	if len(why) != 1 || why[0].Code != reason.MinHealthy || !strings.Contains(why[0].Change, "a revision with a lower min_healthy_percent") {
		t.Errorf("explained is %+v", why)
	}
}
