package environment

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
)

func (w *world) last(event string) (found deploylog.Event) {
	w.Helper()
	for _, e := range w.events {
		if e.Name == event {
			found = e
		}
	}
	if found.Name == "" {
		w.Fatalf("there is no %s", event)
	}
	return found
}

func (w *world) times(event string) (n int) {
	for _, e := range w.events {
		if e.Name == event {
			n++
		}
	}
	return n
}

func (w *world) sees(revision int, host string, health tasks.Health, detail string) {
	w.Helper()
	w.append(w.state.Probed(w.state.Task(revision, host), tasks.ProbeResult{Health: health, Detail: detail})...)
	w.steps()
}

func most(n int) *budget.Budget { return &budget.Budget{Count: n} }

func TestOfTwoUpdatesAtOnceOneWinsAndTheOtherIsTold(t *testing.T) {
	w := deployed(t, 1, nil)
	first, err := w.state.Propose(Update{Base: 1, Definition: defined(image("log-daemon:2")), By: "bob@host"}, w.now)
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.state.Propose(Update{Base: 1, Definition: defined(image("log-daemon:3")), By: "carol@host"}, w.now)
	if err != nil {
		t.Fatal(err)
	}
	a, b := first[0], second[0]
	if a.Deployment != b.Deployment || a.Target != b.Target || a.Name != b.Name || a.Attempt != b.Attempt {
		t.Errorf("the log would take both: %v and %v", a, b)
	}
	w.append(first...)
	w.refuses(Update{Base: 1, Definition: defined(image("log-daemon:3"))}, StaleBase)
	_, err = w.state.Propose(Update{Base: 1, Definition: defined(image("log-daemon:3"))}, w.now)
	if !errors.Is(err, ErrStale) {
		t.Errorf("it is not ErrStale: %v", err)
	}
	w.refuses(Update{Base: 2, Definition: defined(image("log-daemon:2"))}, NothingChanged)
	w.refuses(Update{Base: 7, Definition: defined(nil)}, UnknownRevision)
}

func TestOnlyWhatIsKnownIsDeployedOrRolledBack(t *testing.T) {
	w := newWorld(t)
	w.refuses(Deploy{Revision: 1}, UnknownEnvironment)
	w.propose(Create{Definition: defined(nil)})
	w.refuses(Create{Definition: defined(nil)}, EnvironmentExists)
	w.refuses(Deploy{Revision: 2}, UnknownRevision)
	w.refuses(Rollback{Revision: 1}, NothingDeployed)
	w.refuses(Pause{}, NothingDeployed)
	w.refuses(Resume{}, NotPaused)
	w.propose(Update{Base: 1, Definition: defined(image("log-daemon:2"))})
	w.propose(Update{Base: 2, Definition: defined(image("log-daemon:3"))})
	w.propose(Deploy{Revision: 2, Hosts: hostNames(1)})
	w.refuses(Rollback{Revision: 2}, AlreadyDeployed)
	w.refuses(Rollback{Revision: 3}, NewerRevision)
	w.refuses(Rollback{Revision: 1}, NeverDeployed)
	none := 101
	w.refuses(Deploy{Revision: 3, Change: record.Change{MinHealthyPercent: &none}}, InvalidChange)
}

func TestADeploymentThatCouldNeverGoOnIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		percent, hosts int
		words          []string
	}{
		"all of several": {100, 5, []string{"none of 5 hosts", "--min-healthy-percent 80 or less"}},
		"too few":        {80, 4, []string{"none of 4 hosts", "--min-healthy-percent 75 or less"}},
		"one":            {50, 1, []string{"none of 1 host", "--method Surge"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := deployed(t, test.hosts, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = test.percent })
			w.propose(Deploy{Revision: 1, Hosts: hostNames(test.hosts)}) // nothing is to be replaced
			d := *w.state.Revisions()[0].Definition
			d.Task.Vars = map[string]any{"image": "log-daemon:2"}
			w.propose(Update{Base: 1, Definition: &d})
			err := w.refuses(Deploy{Revision: 2, Hosts: hostNames(test.hosts)}, NoDisruptionAllowed)
			for _, word := range test.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q is without %q", err, word)
				}
			}
			surge := definition.Surge
			w.propose(Deploy{Revision: 2, Hosts: hostNames(test.hosts), Change: record.Change{Method: &surge}})
			w.can("start 2 h1")
		})
	}
}

func TestTheMinimumIsNeverBrokenByRounding(t *testing.T) {
	for _, test := range []struct{ hosts, percent, minimum int }{
		{5, 80, 4}, {5, 81, 5}, {5, 79, 4}, {3, 50, 2}, {1, 0, 0}, {1, 1, 1}, {0, 100, 0}, {10_000, 99, 9900},
	} {
		if got := (definition.Configuration{MinHealthyPercent: test.percent}).Minimum(test.hosts); got != test.minimum {
			t.Errorf("%d %% of %d are %d, want %d", test.percent, test.hosts, got, test.minimum)
		}
	}
}

func TestTheProgressDeadlineFiresOnceAndProgressMovesIt(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(nil)})
	w.propose(Deploy{Revision: 1, Hosts: hostNames(2)})
	started := w.now
	if wake := w.state.Wake(); !wake.Equal(started.Add(10 * time.Minute)) {
		t.Errorf("it wakes at %s", wake)
	}
	w.after(9 * time.Minute)
	w.done("start 1 h1")
	w.after(9 * time.Minute)
	w.fails("start 1 h2", "no disk")
	w.table(`SomeEnvironment/Prod:1 Deploying 2 1`)
	w.after(time.Minute - time.Millisecond)
	w.steps()
	w.table(`SomeEnvironment/Prod:1 Deploying 2 1`)
	w.after(time.Millisecond)
	w.steps()
	w.table(`SomeEnvironment/Prod:1 Stuck 2 1`)
	if p := record.Read(w.last(record.EnvironmentStuck).Data); p.Error != "no progress for 10m: h2: no disk" {
		t.Errorf("it is stuck because %q", p.Error)
	}
	for range 100 { // it goes on trying
		w.after(time.Minute)
		w.fails("start 1 h2", "no disk")
	}
	if n := w.times(record.EnvironmentStuck); n != 1 {
		t.Errorf("it is stuck %d times", n)
	}
	w.after(time.Minute)
	w.done("start 1 h2")
	w.table(`SomeEnvironment/Prod:1 Active 2 2`)
}

func TestTheHealthyDeadlineOfATaskFiresOnce(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.MaxFailed = most(1) })})
	w.propose(Deploy{Revision: 1, Hosts: hostNames(3)})
	w.begin("start 1 h1")
	w.begin("start 1 h2")
	w.after(5*time.Minute - time.Millisecond)
	w.steps()
	if n := w.times(record.TaskDeadlinePassed); n != 0 {
		t.Errorf("%d tasks are late too early", n)
	}
	w.after(time.Millisecond)
	w.steps()
	if n := w.times(record.TaskDeadlinePassed); n != 2 {
		t.Errorf("%d tasks are late", n)
	}
	w.table(`SomeEnvironment/Prod:1 Stuck 3 0`) // more than max_failed
	w.after(time.Hour)
	w.steps()
	if n := w.times(record.TaskDeadlinePassed); n != 2 {
		t.Errorf("%d tasks are late", n)
	}
}

func TestAFailureBudgetThatIsSpentHaltsTheRollout(t *testing.T) {
	w := deployed(t, 10, nil)
	w.update(func(d *definition.Definition) { image("log-daemon:2")(d); d.Deployment.MaxFailed = most(1) }, hostNames(10))
	w.done("terminate 1 h1", "terminate 1 h10")
	w.fails("start 2 h1", "bad image")
	w.can("start 2 h10")
	w.fails("start 2 h10", "bad image")
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 8
	         SomeEnvironment/Prod:2 Stuck 10 0`)
	if p := record.Read(w.last(record.EnvironmentStuck).Data); p.Code != string(reason.TooManyFailed) || !strings.HasSuffix(p.Error, ": h1: bad image\nh10: bad image") {
		t.Errorf("it is stuck because of %s: %q", p.Code, p.Error)
	}
	w.can()
	w.after(time.Second)
	w.can("start 2 h1", "start 2 h10") // those that have begun are tried again
	w.done("start 2 h1")
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 8
	         SomeEnvironment/Prod:2 Deploying 10 1`)
	w.can("start 2 h10", "terminate 1 h2")
}

func TestAStuckDeploymentRollsBackByItselfIfItIsToldTo(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(func(d *definition.Definition) { image("log-daemon:2")(d); d.Deployment.AutoRollback = true }, hostNames(5))
	w.done("terminate 1 h1")
	w.fails("start 2 h1", "bad image")
	w.after(10 * time.Minute)
	w.steps()
	w.table(`SomeEnvironment/Prod:1 Deploying 5 4
	         SomeEnvironment/Prod:2 Reverting 0 1`) // what failed may have left something
	d, _ := w.state.ActiveDeployment()
	if d.Kind != record.ByRollback || !d.Automatic || d.Reason == "" {
		t.Errorf("in force is %+v", d)
	}
	if was := w.state.Deployments()[1]; was.Status != report.DeploymentSuperseded || was.Ended.IsZero() {
		t.Errorf("the bad one is %+v", was)
	}
	w.done("terminate 2 h1", "start 1 h1")
	w.table(`SomeEnvironment/Prod:1 Active 5 5
	         SomeEnvironment/Prod:2 Reverted 0 0`)
}

// The first revision has none to go back to, and a rollback does not roll back.
func TestWhatCanNotBeRolledBackStaysStuck(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.AutoRollback = true })})
	w.propose(Deploy{Revision: 1, Hosts: hostNames(1)})
	w.after(10 * time.Minute)
	w.steps()
	w.table(`SomeEnvironment/Prod:1 Stuck 1 0`)
}

func TestARollbackToOtherHostsWaitsUntilTheyAreKnown(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(func(d *definition.Definition) {
		image("log-daemon:2")(d)
		d.Deployment.AutoRollback, d.InstanceGroup = true, definition.InstanceGroup{Query: "attribute:stack == gamma", MaxLeaving: &budget.Budget{Percent: 100}}
	}, []string{"h6"})
	w.begin("start 2 h6")
	w.after(10 * time.Minute)
	w.steps()
	w.can()
	w.propose(SetHosts{Selected: hostNames(5)})
	w.done("terminate 2 h6")
	w.table(`SomeEnvironment/Prod:1 Active 5 5
	         SomeEnvironment/Prod:2 Reverted 0 0`)
}

func TestNothingBeginsWhileItIsPaused(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(image("log-daemon:2"), hostNames(5))
	running := w.begin("terminate 1 h1")
	w.propose(Pause{By: "alice@host", Reason: "a mistake"})
	w.refuses(Pause{}, AlreadyPaused)
	w.append(w.state.Completed(running, tasks.ProbeResult{}, nil)...) // what runs is finished
	w.can()
	w.after(time.Hour) // which no deadline counts
	w.can()
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 4
	         SomeEnvironment/Prod:2 Deploying 5 0`)
	w.propose(Resume{})
	w.after(10*time.Minute - time.Millisecond)
	w.can("start 2 h1")
	w.propose(Pause{})
	w.propose(Rollback{Revision: 1, Hosts: hostNames(5)}) // another deployment goes on, too
	w.can("start 1 h1")
}

func TestATaskMustStayHealthyForAWhile(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(func(d *definition.Definition) {
		image("log-daemon:2")(d)
		d.Deployment.MinHealthyTime = definition.Duration(time.Minute)
	}, hostNames(5))
	w.done("terminate 1 h1", "start 2 h1")
	w.can()
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 4
	         SomeEnvironment/Prod:2 Deploying 5 0`)
	w.sees(2, "h1", tasks.Unhealthy, "it ended")
	w.last(record.TaskFailed)
	w.after(time.Second)
	w.done("start 2 h1")
	w.after(time.Minute)
	w.can("confirm 2 h1")
	w.done("confirm 2 h1")
	w.can("terminate 1 h2")
}

func TestADiedTaskIsStartedAgainWithPausesThatGrow(t *testing.T) {
	w := deployed(t, 2, nil)
	pauses := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute}
	for _, pause := range pauses {
		w.sees(1, "h1", tasks.Unhealthy, "it ended with 1")
		w.table(`SomeEnvironment/Prod:1 Degraded 2 1`)
		w.can()
		if wake := w.state.Wake(); !wake.Equal(w.now.Add(pause)) {
			t.Errorf("it wakes after %s, want %s", wake.Sub(w.now), pause)
		}
		w.after(pause)
		w.done("start 1 h1")
	}
	w.after(tasks.HealthyReset) // long enough for that to be forgotten
	w.sees(1, "h1", tasks.Unhealthy, "it ended with 1")
	w.after(time.Second)
	w.can("start 1 h1")
	w.sees(1, "h1", tasks.Healthy, "")
	w.last(record.TaskRecovered)
	w.can()
}

func TestDriftIsRepairedWithinTheMinimumOrOnlyReported(t *testing.T) {
	w := deployed(t, 5, nil)
	w.sees(1, "h1", tasks.Drifted, "~ content")
	w.sees(1, "h2", tasks.Drifted, "~ content")
	w.table(`SomeEnvironment/Prod:1 Active 5 5`)
	w.can("start 1 h1") // one of five may be down
	w.done("start 1 h1")
	w.can("start 1 h2")

	w = deployed(t, 5, func(d *definition.Definition) { d.Deployment.Drift = definition.ReportDrift })
	w.sees(1, "h1", tasks.Drifted, "~ content")
	w.can()
	if row := w.state.Report().Hosts[0].Tasks[0]; row.Status != report.TaskDrifted || row.Cause != "~ content" {
		t.Errorf("it is reported as %+v", row)
	}
	w.sees(1, "h1", tasks.Healthy, "")
	w.last(record.TaskRecovered)
}

func TestHostsThatComeGetATaskAndThoseThatGoAreCleaned(t *testing.T) {
	w := deployed(t, 5, nil)
	w.propose(SetHosts{Selected: append(hostNames(4), "h6")})
	w.table(`SomeEnvironment/Prod:1 Active 5 5`)
	w.can("start 1 h6", "terminate 1 h5")
	w.done("start 1 h6", "terminate 1 h5")
	w.table(`SomeEnvironment/Prod:1 Active 5 5`)
	if events, err := w.state.Propose(SetHosts{Selected: append(hostNames(4), "h6")}, w.now); err != nil || len(events) > 0 {
		t.Errorf("it is told again: %v, %v", events, err)
	}

	// One that is lost cannot be cleaned; nothing waits for it. When it is back
	// what it has is of no use until it is looked at.
	w.propose(SetHosts{Selected: append(hostNames(3), "h6"), Known: func(host string) bool { return host != "h4" }})
	w.table(`SomeEnvironment/Prod:1 Active 4 4`)
	w.can()
	if row := w.state.Report().Hosts[3]; row.Host != "h4" || !row.Lost {
		t.Errorf("it is reported as %+v", row)
	}
	w.propose(SetHosts{Selected: append(hostNames(4), "h6")})
	w.can()
	w.sees(1, "h4", tasks.Unhealthy, "it ended")
	w.after(time.Second)
	w.can("start 1 h4")
	w.propose(SetHosts{Selected: append(hostNames(3), "h6")})
	w.can("terminate 1 h4")
}

// Until the new hosts are healthy, tasks on the old ones are what there is.
func TestHostsThatGoAreNotCleanedBeforeOthersAreHealthy(t *testing.T) {
	w := deployed(t, 2, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 50 })
	w.update(func(d *definition.Definition) {
		d.InstanceGroup = definition.InstanceGroup{Query: "other", MaxLeaving: &budget.Budget{Percent: 100}}
	}, []string{"h3", "h4"})
	w.can("start 1 h3", "start 1 h4", "terminate 1 h1")
	w.begin("terminate 1 h1")
	w.can("terminate 1 h1", "start 1 h3", "start 1 h4")
	w.done("start 1 h3")
	w.can("terminate 1 h1", "start 1 h4", "terminate 1 h2")
}

func TestNoHostsAreDesiredZero(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(nil)})
	w.propose(Deploy{Revision: 1})
	w.after(time.Hour)
	w.can() // and no deadline passes
	w.table(`SomeEnvironment/Prod:1 Deploying 0 0`)
	if all := w.state.Explain(w.state.target, w.now); len(all) != 1 || all[0].Code != reason.NoHosts || !w.state.Idle() || !w.state.AwaitsHosts() {
		t.Errorf("it explains %+v, and is idle: %t", all, w.state.Idle())
	}
	w.propose(SetHosts{Selected: hostNames(1)})
	if left := w.state.Report().Deadline.Sub(w.now); left != 10*time.Minute {
		t.Errorf("%s are left for the first host", left)
	}
	w.done("start 1 h1")
	w.table(`SomeEnvironment/Prod:1 Active 1 1`)
}

func TestWhatWasBegunWhenAControllerDiedIsDoneAgain(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(image("log-daemon:2"), hostNames(5))
	w.begin("terminate 1 h1")
	w.can("terminate 1 h1") // and no other: it does not count as healthy
	w.done("terminate 1 h1")
	w.begin("start 2 h1")
	w.can("start 2 h1")
	w.propose(Rollback{Revision: 1, Hosts: hostNames(5)})
	w.can("terminate 2 h1") // never two versions
}

func TestWhoIsBusyOrDoesNotKnowIsAskedForLess(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(image("log-daemon:2"), append(hostNames(5), "h6"))
	busy := func(host string) bool { return host != "h6" }
	if all := slices.Collect(w.state.Decide(w.now, Can{Work: busy, Disrupt: true})); len(all) != 0 {
		t.Errorf("it is asked for %v", all) // 5 of 6 must be healthy
	}
	w.done("start 2 h6")
	if all := slices.Collect(w.state.Decide(w.now, Can{})); len(all) != 0 {
		t.Errorf("it is asked for %v", all)
	}
	next := func(host string) bool { return host != "h1" }
	all := slices.Collect(w.state.Decide(w.now, Can{Work: next, Disrupt: true}))
	if len(all) != 1 || all[0].Host != "h2" {
		t.Errorf("it is asked for %v", all)
	}
}

func TestManyHostsAreToldInParts(t *testing.T) {
	names := make([]string, 0, 10_000)
	for i := range cap(names) {
		names = append(names, "a-host-with-a-long-name-that-somebody-chose-for-it-"+string(rune('a'+i%26))+"-"+time.Duration(i).String())
	}
	w := newWorld(t)
	w.propose(Create{Definition: defined(nil)})
	w.propose(Deploy{Revision: 1, Hosts: names[:1]})
	w.propose(SetHosts{Selected: names})
	if n := w.times(record.HostsChanged); n < 2 {
		t.Errorf("they are told in %d parts", n)
	}
	if n := w.state.Report().Rows[0].Desired; n != len(names) {
		t.Errorf("%d are desired", n)
	}
}

// A task that starts well and dies, again and again, does not put the deadline off.
func TestATaskThatKeepsDyingLetsItsDeploymentBeStuck(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(nil)})
	w.propose(Deploy{Revision: 1, Hosts: hostNames(2)})
	w.fails("start 1 h2", "no disk")
	for range 9 {
		w.done("start 1 h1")
		w.sees(1, "h1", tasks.Unhealthy, "it ended")
		w.after(time.Minute)
	}
	w.done("start 1 h1")
	w.sees(1, "h1", tasks.Unhealthy, "it ended")
	w.after(time.Minute)
	w.steps()
	w.table(`SomeEnvironment/Prod:1 Stuck 2 0`)
}

// Drift that may not be repaired, because the minimum leaves no room, keeps no
// deployment from its end.
func TestDriftDoesNotHoldUpADeployment(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 100 })})
	w.propose(Deploy{Revision: 1, Hosts: hostNames(2)})
	w.done("start 1 h1")
	w.sees(1, "h1", tasks.Drifted, "~ content")
	w.done("start 1 h2")
	w.table(`SomeEnvironment/Prod:1 Active 2 2`)
	w.can()
	if all := w.state.Explain(record.Target("SomeEnvironment/Prod"), w.now); len(all) != 1 || all[0].Target != "task/SomeEnvironment/Prod/1/h1" {
		t.Errorf("it is explained as %+v", all)
	}
}

// What is started on a host that is lost meanwhile is not trusted when it is back.
func TestATaskThatStartedOnALostHostIsLookedAtAgain(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(nil)})
	w.propose(Deploy{Revision: 1, Hosts: hostNames(2)})
	running := w.begin("start 1 h1")
	w.propose(SetHosts{Selected: []string{"h2"}, Known: func(host string) bool { return host != "h1" }})
	w.append(w.state.Completed(running, tasks.ProbeResult{Health: tasks.Healthy}, nil)...)
	w.propose(SetHosts{Selected: hostNames(2)})
	w.can("start 1 h2")
	w.sees(1, "h1", tasks.Healthy, "")
	w.table(`SomeEnvironment/Prod:1 Deploying 2 1`)
}
