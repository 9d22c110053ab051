package promotions

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	envdefinition "github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// A revision comes anew after another one was there as a whole. What was approved ends also when somebody took
// the other one back before that. That is so from one version on, and older logs keep what was decided by them.
func TestARevisionComesAnewOnlyAfterAnotherWasThere(t *testing.T) {
	const finished, superseded = report.DeploymentFinished, report.DeploymentSuperseded
	for name, c := range map[string]struct {
		all           []report.Deployment
		came, arrived int64
	}{
		"none":                      {nil, 0, 0},
		"the first":                 {[]report.Deployment{{Seq: 3, Revision: 1, Status: report.DeploymentRunning}}, 3, 3},
		"the same again":            {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 9, Revision: 1, Status: finished}}, 3, 3},
		"after another":             {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 6, Revision: 2, Status: finished}, {Seq: 9, Revision: 1, Status: finished}}, 9, 9},
		"another failed":            {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 6, Revision: 2, Status: superseded}, {Seq: 9, Kind: record.ByRollback, Automatic: true, Revision: 1, Status: finished}}, 3, 3},
		"another failed in a row":   {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 5, Revision: 2, Status: superseded}, {Seq: 6, Revision: 3, Status: report.DeploymentStuck}, {Seq: 9, Automatic: true, Revision: 1, Status: finished}}, 3, 3},
		"another was taken back":    {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 6, Revision: 2, Status: superseded}, {Seq: 9, Revision: 1, Status: finished}}, 3, 9},
		"rolled back by hand":       {[]report.Deployment{{Seq: 3, Revision: 2, Status: finished}, {Seq: 5, Revision: 1, Status: finished}, {Seq: 6, Kind: record.ByRollback, Revision: 2, Status: superseded}, {Seq: 9, Revision: 1, Status: finished}}, 5, 9},
		"rolled back, which failed": {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 6, Kind: record.ByRollback, Revision: 2, Status: superseded}, {Seq: 9, Kind: record.ByRollback, Automatic: true, Revision: 1, Status: finished}}, 3, 9},
		"a failed one, again":       {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 5, Revision: 2, Status: superseded}, {Seq: 6, Automatic: true, Revision: 1, Status: superseded}, {Seq: 9, Revision: 1, Status: finished}}, 3, 3},
		"another failed in a bake":  {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 6, Revision: 2, Status: superseded, BakeFailed: "died"}, {Seq: 9, Automatic: true, Revision: 1, Status: finished}}, 9, 9},
		"another failed at first":   {[]report.Deployment{{Seq: 6, Revision: 2, Status: superseded}, {Seq: 9, Revision: 1, Status: finished}}, 9, 9},
		"after it was all deleted":  {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 6, Kind: record.ByDelete, Status: superseded}, {Seq: 9, Revision: 1, Status: finished}}, 9, 9},
		"another has not ended yet": {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 6, Revision: 2, Status: report.DeploymentRunning}}, 6, 6},
	} {
		of := values{known: map[int]string{0: "", 1: "1", 2: "2", 3: "3"}}
		came, arrived := arrivals(c.all, of)
		assert.Equal(t, []int64{c.came, c.came}, []int64{came, arrived}, "%s: an older version recorded it", name)
		for i := range c.all {
			c.all[i].Version = record.CountsTakenBack
		}
		came, arrived = arrivals(c.all, of)
		assert.Equal(t, []int64{c.came, c.arrived}, []int64{came, arrived}, "%s: it came and arrived with events", name)
	}
}

// The revision that an environment runs is what its active, healthy tasks carry: all of them, on
// all hosts that should have one. What any task may run keeps it from being promoted again.
func TestAnEnvironmentRunsWhatItsHealthyTasksCarry(t *testing.T) {
	started := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	task := func(revision int, status report.TaskStatus) report.TaskRow {
		return report.TaskRow{Revision: revision, Status: status, Since: started}
	}
	host := func(name string, of ...report.TaskRow) report.HostRow {
		return report.HostRow{Host: name, Desired: true, Tasks: of}
	}
	well := host("h1", task(2, report.TaskHealthy))
	with := func(h report.HostRow, change func(*report.HostRow)) report.HostRow {
		change(&h)
		return h
	}
	for name, c := range map[string]struct {
		hosts    []report.HostRow
		excepted string // a host that the deployment tolerates
		revision string // of the active definition; "" is 2
		status   promotion.DeploymentStatus
		health   promotion.Health
		why      string
		runs     string
	}{
		"all are healthy":                   {hosts: []report.HostRow{well, host("h2", task(2, report.TaskHealthy))}, health: promotion.Whole, runs: "2"},
		"one has none":                      {hosts: []report.HostRow{well, host("h2")}, health: promotion.Partly, why: "h2 does not run it", runs: "2"},
		"one has none, which is tolerated":  {hosts: []report.HostRow{well, host("h2")}, excepted: "h2", health: promotion.Whole, runs: "2"},
		"one is to have none":               {hosts: []report.HostRow{well, with(host("h2"), func(h *report.HostRow) { h.Desired = false })}, health: promotion.Whole, runs: "2"},
		"one has died":                      {hosts: []report.HostRow{well, host("h2", task(2, report.TaskDied))}, health: promotion.Partly, why: "h2 does not run it, or is not healthy", runs: "2"},
		"one has drifted":                   {hosts: []report.HostRow{well, host("h2", task(2, report.TaskDrifted))}, health: promotion.Partly, why: "h2 does not run it", runs: "2"},
		"one could not be started":          {hosts: []report.HostRow{well, host("h2", task(3, report.TaskFailed))}, health: promotion.Partly, why: "h2 does not run it", runs: "2"},
		"one is lost":                       {hosts: []report.HostRow{well, host("h2", task(2, report.TaskLost))}, health: promotion.Unknown, why: "the state of h2 is not known", runs: "2"},
		"one is not in the inventory":       {hosts: []report.HostRow{well, with(well, func(h *report.HostRow) { h.Host, h.Lost = "h2", true })}, health: promotion.Unknown, why: "the state of h2 is not known", runs: "2"},
		"one runs another, well":            {hosts: []report.HostRow{well, host("h2", task(1, report.TaskHealthy))}, health: promotion.Partly, why: "h2 runs revision 1", runs: "1 2"},
		"one runs two, well":                {hosts: []report.HostRow{well, host("h2", task(1, report.TaskHealthy), task(2, report.TaskHealthy))}, health: promotion.Partly, why: "h2 runs revision 1", runs: "1 2"},
		"one runs another, and not well":    {hosts: []report.HostRow{well, host("h2", task(1, report.TaskDied))}, health: promotion.Partly, why: "h2 does not run it", runs: "1 2"},
		"one that is to leave runs another": {hosts: []report.HostRow{well, with(host("h2", task(1, report.TaskHealthy)), func(h *report.HostRow) { h.Desired = false })}, health: promotion.Partly, why: "h2 runs revision 1", runs: "1 2"},
		"none is healthy, as is tolerated":  {hosts: []report.HostRow{host("h1", task(2, report.TaskDied))}, excepted: "h1", health: promotion.Partly, why: "it has no healthy task", runs: "2"},
		"there is no host":                  {health: promotion.Partly, why: "it has no healthy task"},
		"it is being deployed":              {hosts: []report.HostRow{well}, status: promotion.Deploying, health: promotion.Partly, why: "it is being deployed", runs: "2"},
		"its deployment is stuck":           {hosts: []report.HostRow{well}, status: promotion.Stuck, health: promotion.Partly, why: "its deployment is stuck: no room", runs: "2"},
		"nothing says what it is":           {hosts: []report.HostRow{host("h1", task(4, report.TaskHealthy))}, revision: "none", health: promotion.Partly, why: "has no text or number in task.vars.version"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := promotion.Observation{Health: promotion.Partly, Revision: "2", Active: promotion.Deployment{Status: promotion.Deployed, Cause: "no room"}}
			if c.revision != "" {
				seen.Revision = ""
			}
			if c.status != "" {
				seen.Active.Status = c.status
			}
			r := report.Report{Deployment: &report.Deployment{Ended: started}, Hosts: c.hosts}
			if c.excepted != "" {
				r.Exceptions = []string{c.excepted}
			}
			hosts(&seen, r, values{variable: "version", known: map[int]string{1: "1", 2: "2", 3: "3", 4: ""}})
			slices.Sort(seen.Runs)
			if runs := strings.Join(seen.Runs, " "); seen.Health != c.health || !strings.Contains(seen.Why, c.why) || (c.why == "") != (seen.Why == "") || runs != c.runs {
				t.Errorf("it is %s, %q, and runs %q", seen.Health, seen.Why, runs)
			}
		})
	}
	later := host("h2", task(2, report.TaskHealthy))
	later.Tasks[0].Since = started.Add(time.Hour) // it died since, and was started again
	seen := promotion.Observation{Revision: "2", Active: promotion.Deployment{Status: promotion.Deployed}}
	hosts(&seen, report.Report{Deployment: &report.Deployment{Ended: started}, Hosts: []report.HostRow{well, later}}, values{known: map[int]string{2: "2"}})
	assert.WithinDuration(t, started.Add(time.Hour), seen.Since, 0, "it has run it as a whole since")
}

// fleet is an environment and its log, on a host whose tasks become healthy unless somebody says
// otherwise.
type fleet struct {
	*testing.T
	state *environment.State
	seq   int64
	now   time.Time
	ill   bool
}

func (f *fleet) do(c environment.Command) {
	f.Helper()
	events, err := f.state.Propose(c, f.now)
	f.record(events, err)
}

func (f *fleet) record(events []deploylog.Event, err error) {
	f.Helper()
	require.NoError(f, err)
	for _, e := range events {
		f.seq++
		e.Seq, e.CreatedAt = f.seq, f.now
		f.state.Apply(e)
	}
}

// settles has the work done that may be, for a while.
func (f *fleet) settles() {
	f.Helper()
	for range 100 {
		f.now = f.now.Add(time.Minute)
		for s := range f.state.Decide(f.now, environment.Can{Disrupt: true}) {
			f.record(s.Events, nil)
			if s.Kind != tasks.Record {
				health := tasks.Healthy
				if f.ill && s.Kind != tasks.Terminate {
					health = tasks.Unhealthy
				}
				f.record(f.state.Completed(s, tasks.ProbeResult{Health: health}, nil), nil)
			}
			break
		}
	}
}

func (f *fleet) wants(when string, health promotion.Health, revision, runs string, byHand bool) promotion.Observation {
	f.Helper()
	o := observe(f.state, "version")
	slices.Sort(o.Runs)
	if got := strings.Join(o.Runs, " "); o.Health != health || o.Revision != revision || got != runs || (o.RolledBack.Event > 0) != byHand {
		f.Errorf("%s it is %s, revision %q, runs %q, rolled back %+v: %s", when, o.Health, o.Revision, got, o.RolledBack, o.Why)
	}
	return o
}

// What is being deployed counts as what some of it runs, from the beginning; only who rolls back
// by hand is a person who does not want it; and what is deleted runs nothing any more.
func TestAnEnvironmentIsObservedWhateverBecomesOfIt(t *testing.T) {
	f := &fleet{T: t, state: environment.New("prod"), now: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)}
	with := func(version string) *envdefinition.Definition {
		return &envdefinition.Definition{
			Name: "prod", Type: envdefinition.Daemon, InstanceGroup: envdefinition.InstanceGroup{Query: "all"},
			Task: envdefinition.TaskSpec{Manifest: "shop.yaml", Vars: map[string]any{"version": version}},
			Deployment: envdefinition.Configuration{
				Method: envdefinition.Replace, MaxOver: 1, AutoRollback: true,
				HealthyDeadline: envdefinition.Duration(5 * time.Minute), ProgressDeadline: envdefinition.Duration(10 * time.Minute),
			},
		}
	}
	on := []string{"h1"}
	f.do(environment.Create{Definition: with("one")})
	f.wants("before it is deployed", promotion.Partly, "", "", false)
	f.do(environment.Deploy{Revision: 1, Hosts: on})
	assert.True(t, f.wants("while it is deployed", promotion.Partly, "one", "one", false).Moving)
	f.do(environment.Pause{})
	assert.False(t, f.wants("when that is paused", promotion.Partly, "one", "one", false).Moving, "what is paused moves")
	f.do(environment.Resume{})
	f.settles()
	f.wants("once it is deployed", promotion.Whole, "one", "one", false)

	f.ill = true
	f.do(environment.Update{Base: 1, Definition: with("two")})
	f.do(environment.Deploy{Revision: 2, Hosts: on})
	f.wants("when the next begins", promotion.Partly, "two", "one two", false)
	for range 100 {
		f.settles()
		if d, _ := f.state.ActiveDeployment(); d.Automatic {
			break
		}
	}
	f.ill = false
	f.settles()
	f.wants("when it went back by itself", promotion.Whole, "one", "one", false)

	f.do(environment.Update{Base: 2, Definition: with("three")})
	f.do(environment.Deploy{Revision: 3, Hosts: on})
	f.settles()
	f.do(environment.Rollback{Revision: 1, Hosts: on, By: "ada"})
	f.settles()
	f.wants("when somebody rolled it back", promotion.Whole, "one", "one", true)
	f.do(environment.Delete{TerminateTasks: true})
	f.wants("while it is deleted", promotion.Partly, "", "", true)
	f.settles()
	assert.True(t, f.wants("when it is deleted", promotion.Unknown, "", "", false).Deleted, "it is not known that it was deleted")
}

// defineShop defines a pipeline of the environments dev and prod.
func defineShop(t *testing.T, c *Controller) {
	t.Helper()
	_, err := c.promotions.Change(t.Context(), "shop", true, func(s *promotion.State) ([]deploylog.Event, error) {
		return s.Propose(promotion.Define{ID: "define", Definition: &definition.Definition{
			Name: "shop", Promotion: definition.Promotion{Policy: definition.Single, Variable: "version"},
			Stages: []definition.Stage{{Name: "dev", Environment: "dev"}, {Name: "prod", Environment: "prod"}},
		}}, promotion.Observed{}, time.Now())
	})
	require.NoError(t, err)
}

// What an environment runs is found out once, and again when it has changed: not so often where
// that takes long. What nobody keeps, and what cannot be read, is unknown.
func TestWhatIsObservedIsKeptUntilItChanges(t *testing.T) {
	now := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	open := reconciletest.InMemory(t)
	log := open()
	persons := environments.New(log, clock)
	does := func(c environment.Command) {
		t.Helper()
		_, err := persons.Command(t.Context(), "dev", c)
		require.NoError(t, err)
	}
	d := &envdefinition.Definition{Name: "dev", Type: envdefinition.Daemon, InstanceGroup: envdefinition.InstanceGroup{Query: "all"}, Task: envdefinition.TaskSpec{Manifest: "m", Vars: map[string]any{"version": "1"}}}
	does(environment.Create{Definition: d})

	c := NewController(Options{Options: reconcile.Options{Log: open(), Now: clock, Parallelism: 1}})
	defineShop(t, c)
	c.use("shop", []string{"dev", "prod"})
	of := observed{"dev", "version"}
	var again time.Time
	seen := func() promotion.Observation {
		t.Helper()
		require.NoError(t, c.followed.Follow(t.Context(), 0))
		var all promotion.Observed
		all, again = c.observe(c.promotions.States["shop"])
		return all["dev"]
	}

	if o := seen(); o.Health != promotion.Unknown || !strings.Contains(o.Why, "no controller keeps it") {
		t.Errorf("what nobody keeps is %+v", o)
	}
	leave, err := log.TryLock("environment/dev")
	require.NoError(t, err)
	defer leave()
	first := c.seen[of].at
	now = now.Add(time.Hour)
	if o := seen(); o.Why != "nothing is deployed" || !c.seen[of].at.Equal(first) || !again.IsZero() {
		t.Errorf("what has not changed is looked at again at %s: %+v", c.seen[of].at, o)
	}

	does(environment.Deploy{Revision: 1, Hosts: []string{"h1"}})
	require.Equal(t, "1", seen().Revision)
	assert.WithinDuration(t, now, c.seen[of].at, 0, "it has changed, and is observed")

	slow := c.seen[of]
	slow.took = 20 * time.Millisecond
	c.seen[of] = slow
	does(environment.Pause{})
	now = now.Add(100 * time.Millisecond)
	require.True(t, seen().Moving, "what takes long is observed again at once, or at %s", again)
	assert.WithinDuration(t, slow.at.Add(400*time.Millisecond), again, 0, "what takes long is observed again at once, or at")
	now = again
	if o := seen(); o.Moving || !c.seen[of].at.Equal(now) || !again.IsZero() {
		t.Errorf("nor is it later: %+v", o)
	}

	c.broken = errors.New("input/output error")
	if o := seen(); o.Health != promotion.Unknown || !strings.Contains(o.Why, "input/output error") {
		t.Errorf("what cannot be read is %+v", o)
	}
}

// A revision that is there since a moment that has not come yet, for the clock was set back, is
// there since that was seen.
func TestWhenAClockIsSetBackIsKept(t *testing.T) {
	now := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	c := NewController(Options{Options: reconcile.Options{Log: reconciletest.InMemory(t)(), Now: func() time.Time { return now }, Parallelism: 1}})
	defineShop(t, c)
	of := observed{"dev", "version"}
	c.seen[of] = observation{Observation: promotion.Observation{Health: promotion.Whole, Event: 1, Since: now.Add(time.Hour)}, watched: true, at: now}
	for range 3 {
		all, _ := c.observe(c.promotions.States["shop"])
		assert.WithinDuration(t, time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), all["dev"].Ahead, 0, "it was first seen")
		now = now.Add(20 * time.Minute)
	}
}

// A process that was stopped notices it when it goes on, and not that it is merely busy.
func TestAStoppedProcessWasAbsent(t *testing.T) {
	begin := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	now := begin
	c := NewController(Options{Options: reconcile.Options{Log: reconciletest.InMemory(t)(), Now: func() time.Time { return now }, Parallelism: 1}})
	defineShop(t, c)
	c.since["shop"] = now
	for _, test := range []struct {
		passes time.Duration
		want   time.Time
	}{
		{0, time.Time{}},
		{59 * time.Second, time.Time{}},
		{-5 * time.Hour, time.Time{}}, // the clock was set back
		{5 * time.Hour, begin.Add(59*time.Second - 5*time.Hour)},
		{60 * time.Hour, begin.Add(59*time.Second - 5*time.Hour)}, // what is not recorded yet stays
	} {
		now = now.Add(test.passes)
		c.noticeAbsence()
		assert.Equal(t, test.want, c.absent["shop"], "after %s", test.passes)
	}
}

// An absence that is not recorded yet outlasts the event by which a controller says that it watches.
func TestAnAbsenceIsForgottenOnceItIsRecorded(t *testing.T) {
	now := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	c := NewController(Options{Options: reconcile.Options{Log: reconciletest.InMemory(t)(), Now: func() time.Time { return now }, Parallelism: 1}})
	defineShop(t, c)
	c.absent["shop"] = now
	for _, test := range []struct{ since, want time.Time }{{time.Time{}, now}, {now, time.Time{}}} {
		for _, e := range c.promotions.States["shop"].Watched(test.since) {
			c.Received("shop", e)
		}
		assert.Equal(t, test.want, c.absent["shop"])
	}
}
