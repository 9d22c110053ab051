package environment

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/ordered"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
)

// Apply folds in an event. Events of other environments are ignored, and so are
// those that contradict the state: history is never refused.
func (s *State) Apply(e deploylog.Event) {
	s.clock = latest(s.clock, e.CreatedAt)
	if e.Target == s.target {
		s.boundBake(e.CreatedAt)
		s.head = e.Seq
		s.applyEnvironment(e)
		s.loseStep(e)
		return
	}
	if name, revision, host, ok := record.TaskOf(e.Target); ok && name == s.name {
		s.boundBake(e.CreatedAt)
		s.head = e.Seq
		s.heard = latest(s.heard, e.CreatedAt)
		switch {
		case s.active == nil:
			s.applyToOrphan(e)
		case revision <= len(s.revisions):
			s.applyTask(e, revision, host)
			s.loseStep(e)
		}
	}
}

func (s *State) applyEnvironment(e deploylog.Event) {
	if s.active != nil && e.Deployment == s.active.ID {
		s.attempts[e.Name] = max(s.attempts[e.Name], e.Attempt)
	}
	p := record.Read(e.Data)
	s.hear(e, p)
	switch e.Name {
	case record.EnvironmentCreated, record.EnvironmentUpdated:
		s.applyRevision(e, p)
		return
	case record.EnvironmentStarted:
		s.applyStarted(e, p)
	case record.EnvironmentDeleted:
		s.applyDeleted(e, p.Error)
	case record.HostsCordoned, record.HostsUncordoned, record.TasksTaken, record.EnvironmentWatched, record.UpdateAsked, record.UpdateDeclined:
		s.applyUpkeep(e, p)
		return
	}
	if s.active == nil || e.Deployment != s.active.ID {
		return
	}
	switch e.Name {
	case record.EnvironmentFinished:
		s.applyFinished(e, p)
	case record.EnvironmentFailed:
		s.endDeployment(e, report.DeploymentSuperseded, p.Error)
	case record.EnvironmentStuck:
		if s.active.Status == report.DeploymentRunning {
			s.active.Status, s.active.Since, s.active.Code, s.active.Cause = report.DeploymentStuck, e.Seq, reason.Code(p.Code), p.Error
		}
	case record.BakeFailed:
		s.active.BakeFailed = cmp.Or(p.Error, "too many hosts failed")
	case record.EnvironmentPaused:
		s.pause = &report.PauseInfo{By: p.By, Reason: p.Reason, Seq: e.Seq, Since: e.CreatedAt}
	case record.EnvironmentResumed:
		s.pause, s.resumed, s.lastProgress = nil, e.CreatedAt, e.CreatedAt
	case record.HostsChanged:
		s.applyHostsChanged(e, p)
		return
	case record.HostsHeld:
		s.applyHostsHeld(e, p)
		return
	case record.StepReached, record.StepVerifying, record.StepVerified, record.StepVerifyFailed, record.StepVerifyEnded, record.EnvironmentPromoted:
		s.applyStep(e, p)
		return
	case record.HostsZoned:
		s.applyZones(e, p)
		return
	}
	s.refreshAll(e.CreatedAt)
}

// applyUpkeep folds in what may happen to an environment whether it is deployed or not.
func (s *State) applyUpkeep(e deploylog.Event, p record.Payload) {
	switch e.Name {
	case record.TasksTaken:
		s.applyTaken(e, p)
	case record.EnvironmentWatched:
		s.applyWatched(e, p)
	case record.UpdateAsked, record.UpdateDeclined:
		s.applyAsked(e, p)
	default:
		s.applyCordon(e, p)
	}
}

// applyRevision adds a revision.
func (s *State) applyRevision(e deploylog.Event, p record.Payload) {
	number := len(s.revisions) + 1
	if p.Definition == nil || strconv.Itoa(number) != e.Revision {
		return
	}
	if e.Name == record.EnvironmentCreated {
		s.firstRevision = number
		clear(s.cordons) // who adopts it has them again
	}
	p.Definition.Name, s.deleted, s.inventory = s.name, false, p.Inventory
	s.asked = nil // it was to be this one
	r := &revision{task: number, Revision: report.Revision{
		Number: number, Base: p.Base, By: p.By, Seq: e.Seq, CreatedAt: e.CreatedAt, Definition: p.Definition, Bound: p.Bound, Accepted: p.Accepted,
	}}
	if r.Bound && s.owner >= s.firstRevision {
		r.owner = s.owner
	} else if !r.Bound {
		s.owner = number
	}
	if p.Task > 0 && p.Task >= s.firstRevision && p.Task < number {
		r.task = s.taskOf(p.Task)
		r.TaskOf = r.task
	}
	s.revisions = append(s.revisions, r)
}

// applyStarted makes a deployment the active one.
func (s *State) applyStarted(e deploylog.Event, p record.Payload) {
	number, err := strconv.Atoi(e.Revision)
	deleting := p.Kind == record.ByDelete
	if deleting {
		number, err = len(s.revisions), nil
	}
	clean := deleting && p.Clean && s.deleted
	again := clean || !deleting && p.Adopt // with what was left running
	if err != nil || number < 1 || number > len(s.revisions) || s.deleted && !again {
		return
	}
	r := s.revisions[number-1]
	s.replaceRevisions(r, deleting, p.Reverts)
	s.deployments = append(s.deployments, report.Deployment{
		ID: e.Deployment, Kind: cmp.Or(p.Kind, record.ByDeploy), Revision: number, Automatic: p.Automatic, Only: p.Only, Status: report.DeploymentRunning, By: p.By, Reason: p.Reason, Step: p.Step, Tolerates: p.Tolerates, Clean: clean, Version: p.Version,
		Seq: e.Seq, Started: e.CreatedAt, Since: e.Seq, Configuration: p.Change.Apply(r.Definition.Deployment),
	})
	known := s.hostsKnown && s.definition() != nil && s.definition().InstanceGroup.Query == r.Definition.InstanceGroup.Query
	s.active = &s.deployments[len(s.deployments)-1]
	clear(s.attempts)
	s.attempts[e.Name] = e.Attempt
	s.finished, s.started, s.pause, s.kept, s.waiting, s.lastProgress, s.resumed, s.unwatched = false, false, nil, nil, time.Time{}, e.CreatedAt, time.Time{}, nil
	s.onlyOn(p.Only)
	s.endBake()
	if s.wave = (wave{}); p.Kind == record.ByRollback || len(p.Only) > 0 {
		s.active.Configuration.Steps = nil
	}
	for _, h := range s.hosts {
		h.Started, h.Replaced = false, false
		h.SetAbsent(false)
		h.Spared = false
	}
	if s.deleted {
		s.takeOrphans(e, p.Taken)
	}
	switch {
	case deleting:
		s.hostsKnown = true
		s.setDesired(nil)
	case p.Hosts != nil:
		s.hostsKnown = true
		s.setDesired(*p.Hosts)
	default:
		s.hostsKnown = known
	}
}

// onlyOn has the active deployment restart these hosts; none is all.
func (s *State) onlyOn(names []string) {
	s.only = make(map[string]bool, len(names))
	for _, name := range names {
		s.only[name] = true
	}
}

// replaceRevisions has a revision take the place of that of the active deployment, if there
// is one, and reverts others.
func (s *State) replaceRevisions(by *revision, deleting bool, reverts []int) {
	for _, r := range s.revisions {
		if s.active != nil && s.active.Kind != record.ByDelete && r.Number == s.active.Revision {
			r.replaced, r.undeployed = true, false
		}
		r.reverted = r.reverted || slices.Contains(reverts, r.Number)
	}
	if deleting {
		by.replaced = by.replaced || s.active != nil && s.active.Revision == by.Number
	} else {
		by.replaced, by.undeployed, by.reverted = false, false, false
	}
}

// setDesired makes these the hosts that should have a task.
func (s *State) setDesired(names []string) {
	for _, h := range s.hosts {
		h.Desired = false
	}
	for _, name := range names {
		h := s.addHost(name)
		h.Desired, h.Lost = true, false
	}
}

func (s *State) applyFinished(e deploylog.Event, p record.Payload) {
	if s.finished {
		return
	}
	s.beginBake(e)
	s.finished, s.lastFinished, s.active.Exceptions = true, s.active.Revision, p.Exceptions
	s.endDeployment(e, report.DeploymentFinished, "")
	for _, r := range s.revisions {
		r.undeployed = r.undeployed || r.replaced
	}
}

func (s *State) endDeployment(e deploylog.Event, as report.DeploymentStatus, cause string) {
	if f := s.active; f.Ended.IsZero() {
		f.Status, f.Since, f.Ended, f.Code, f.Cause = as, e.Seq, e.CreatedAt, "", cause
	}
}

// applyDeleted ends the environment.
func (s *State) applyDeleted(e deploylog.Event, cause string) {
	s.asked = nil
	s.orphanTasks(e)
	s.tasksLeft = slices.ContainsFunc(s.hosts, func(h *hosts.Host) bool { return !h.Lost && len(h.Tasks) > 0 })
	switch f := s.active; {
	case f == nil:
	case f.Kind != record.ByDelete:
		s.endDeployment(e, report.DeploymentSuperseded, "the environment was deleted")
	case s.tasksLeft:
		s.endDeployment(e, report.DeploymentSuperseded, cmp.Or(cause, "the tasks that were not terminated yet were left running, unmanaged"))
	default:
		s.endDeployment(e, report.DeploymentFinished, "")
	}
	for _, r := range s.revisions {
		if r.replaced = r.replaced || s.active != nil && r.Number == s.active.Revision; r.replaced {
			r.undeployed = true
		}
	}
	s.deleted, s.active, s.pause, s.kept, s.waiting, s.lastFinished = true, nil, nil, nil, time.Time{}, 0
	s.hosts, s.byName, s.hostsKnown = nil, map[string]*hosts.Host{}, false
	s.zones = zones{}
	s.sets, s.overdue, s.adoptable, s.repairs, s.timers, s.total, s.current = [hosts.Classes]ordered.Set{}, nil, nil, nil, nil, totals{}, map[int]int{}
}

const lostHost = "its host is no longer in the inventory"

// applyHostsChanged folds in hosts that joined, left or were lost.
func (s *State) applyHostsChanged(e deploylog.Event, p record.Payload) {
	s.hostsKnown = s.hostsKnown || !p.More
	s.release(e.CreatedAt)
	none := s.total.desired == 0
	set := func(names []string, wanted, lost bool) {
		for _, name := range names {
			h := s.addHost(name)
			s.modify(h, e.CreatedAt, func() {
				h.Desired, h.Lost = wanted, lost
				for _, t := range h.Tasks {
					if lost && t.Status != report.TaskTerminating {
						t.Status, t.Seq, t.Since, t.Cause = report.TaskLost, e.Seq, e.CreatedAt, lostHost
					}
				}
			})
		}
	}
	set(p.Joined, true, false)
	set(p.Left, false, false)
	set(p.Lost, false, true)
	if none && s.total.desired > 0 {
		s.lastProgress = e.CreatedAt // no time passed for the deployment while it had no hosts
	}
	s.suspend(e.CreatedAt)
}

// addHost returns the host of a name, and adds it if it is new.
func (s *State) addHost(name string) *hosts.Host {
	h := s.byName[name]
	if h == nil {
		h = &hosts.Host{Name: name, Index: len(s.hosts), Cordon: s.cordons[name], Status: hosts.Status{Settled: true}}
		s.hosts, s.byName[name] = append(s.hosts, h), h
	}
	return h
}

func (s *State) applyTask(e deploylog.Event, revision int, name string) {
	h := s.byName[name]
	if h == nil {
		if e.Name != record.TaskStarted {
			return
		}
		h = s.addHost(name)
	}
	progress := false
	s.modify(h, e.CreatedAt, func() {
		repeated := h.Attempts.Next(e.Deployment, revision, e.Name) > 1
		if e.Deployment == s.active.ID {
			h.Attempts.Record(e.Deployment, revision, e.Name, e.Attempt)
		}
		if e.Name == record.TaskDeadlinePassed {
			h.DeadlinePassed = e.Deployment
			return
		}
		h.Check.Apply(e)
		t := h.Find(revision)
		s.noteReplaced(h, t, e)
		if e.Name == record.TaskStarted {
			t = h.Add(revision)
		}
		if begins := e.Name == record.TaskStarted || e.Name == record.TaskAdopted; begins && t != nil {
			switch own := e.Deployment == s.active.ID; {
			case own && revision == s.activeTask():
				t.Of = s.active.Revision
			case !own: // a repair leaves the task that of its revision
				t.Of = revision
			}
		}
		switch {
		case t == nil || leavesTask(e): // which nothing has happened to
		case t.Apply(e):
			h.Remove(revision)
		case h.Lost && t.Available():
			t.Status, t.Cause = report.TaskLost, lostHost
		}
		s.countBaked(h, t, e)
		if e.Deployment == s.active.ID {
			progress = s.progresses(h, e, revision, repeated)
		}
	})
	if progress {
		s.progressed(e)
	}
}

// progressed folds in that the active deployment has come further.
func (s *State) progressed(e deploylog.Event) {
	s.lastProgress = e.CreatedAt
	if s.active.Status == report.DeploymentStuck && !s.halted() {
		s.active.Status, s.active.Since, s.active.Code, s.active.Cause = report.DeploymentRunning, e.Seq, "", ""
	}
}

// leavesTask reports whether an event of a task says nothing of how that is.
func leavesTask(e deploylog.Event) bool {
	return e.Name == record.TaskAdopted || e.Name == record.TaskCheckFailed || e.Name == record.TaskChecked
}

// progresses folds an event of the active deployment into what is known of its
// progress, and reports whether it is progress. A task that keeps dying and
// restarting is none.
func (s *State) progresses(h *hosts.Host, e deploylog.Event, revision int, repeated bool) bool {
	own := revision == s.activeTask()
	started := e.Name == record.TaskStarted && own
	first := started && !s.started
	h.Started, s.started = h.Started || started, s.started || started
	done := e.Name == record.TaskFinished && own || e.Name == record.TaskTerminated
	return !repeated && done || first
}
