package environment

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// State is one environment as the log tells it. It is not safe for concurrent
// use, nor are the methods that only ask.
//
// How each host stands is found out when something happens to it, and kept in
// sets, so that a decision costs what has changed and not what there is.
type State struct {
	name          string
	target        deploylog.Target
	revisions     []*revision // by number
	deployments   []Deployment
	deleted       bool
	firstRevision int // the first revision since it was created the last time
	head          int64

	hosts  []*host
	byName map[string]*host

	// Of the deployment in force.
	active       *Deployment // the last of the deployments; nil before the first, and when deleted
	attempts     map[string]int
	hostsKnown   bool      // its hosts
	finished     bool      // it has finished
	started      bool      // a task of it was begun
	lastProgress time.Time // the last
	pause        *PauseInfo
	resumed      time.Time
	clock        time.Time // the latest time that was heard of
	lastFinished int       // the revision of the last deployment that has finished; 0 is none

	// Derived.
	sets    [classCount]set
	overdue set
	timers  timerQueue
	total   totals
	current map[int]int // tasks of a revision that are there; of that in force, those that are up
}

// totals counts the hosts that stand in a way.
type totals struct{ desired, available, serving, double, unsettled, failed, inFlight, retrying int }

// revision is one of them, with what became of it.
type revision struct {
	Revision
	replaced   bool // it was deployed, and another has come after it
	reverted   bool
	undeployed bool // left, and the one after it has finished
}

// New returns the state of an environment of which nothing is known yet.
func New(name string) *State {
	return &State{name: name, target: Target(name), byName: map[string]*host{}, attempts: map[string]int{}, current: map[int]int{}}
}

// Name of the environment.
func (s *State) Name() string { return s.name }

// Head is the Seq of the last event that was applied.
func (s *State) Head() int64 { return s.head }

// Exists tells whether it was created, and not deleted since.
func (s *State) Exists() bool { return len(s.revisions) > 0 && !s.deleted }

// ActiveDeployment is the deployment in force; ok is false when there is none.
func (s *State) ActiveDeployment() (d Deployment, ok bool) {
	if s.active == nil {
		return Deployment{}, false
	}
	return *s.active, true
}

// Idle tells whether nothing will happen unless something happens to it: no
// deployment is under way but those that are stuck or paused, and nothing that
// was begun has not ended.
func (s *State) Idle() bool {
	switch {
	case s.active == nil:
		return true
	case s.total.inFlight > 0:
		return false
	case s.pause != nil || s.active.Status == DeploymentStuck:
		return true
	case !s.finished || !s.hostsKnown:
		return false
	}
	return s.sets[classFree].empty() && s.sets[classFirst].empty() && s.total.retrying == 0 &&
		(s.sets[classReplace].empty() || s.servingDisruptionsLeft() <= 0) && (s.sets[classDrain].empty() || s.disruptionsLeft() <= 0) && (s.sets[classSurge].empty() || s.surgeLeft() <= 0)
}

// Query is the query of the revision in force, "" when there is none: then it
// has no hosts.
func (s *State) Query() string {
	if d := s.definition(); d != nil {
		return d.InstanceGroup.Query
	}
	return ""
}

// Manifest is the task manifest of the revision in force, "" when there is none.
func (s *State) Manifest() string {
	if d := s.definition(); d != nil {
		return d.Task.Manifest
	}
	return ""
}

// definition is that of the revision in force.
func (s *State) definition() *Definition {
	if s.active == nil || s.active.Kind == ByDelete {
		return nil
	}
	return s.revisions[s.active.Revision-1].Definition
}

// HostManifests yields the hosts that have tasks or are to have one, each with the
// manifest; of several manifests a host comes several times.
func (s *State) HostManifests() iter.Seq2[string, string] {
	return func(yield func(host, manifest string) bool) {
		for _, h := range s.hosts {
			if h.desired && !yield(h.name, s.Manifest()) {
				return
			}
			for _, t := range h.tasks {
				if of := s.revisions[t.revision-1].Definition.Task.Manifest; (!h.desired || of != s.Manifest()) && !yield(h.name, of) {
					return
				}
			}
		}
	}
}

// Task is that of a revision on a host.
func (s *State) Task(revision int, host string) Task {
	t := Task{Environment: s.name, Host: host, Revision: revision}
	if revision >= 1 && revision <= len(s.revisions) {
		t.Spec = s.revisions[revision-1].Definition.Task
	}
	return t
}

// Revisions are all, in order. They must not be changed.
func (s *State) Revisions() []Revision {
	all := make([]Revision, len(s.revisions))
	for i, r := range s.revisions {
		all[i] = r.Revision
	}
	return all
}

// Revision is one of them; the error tells which there are.
func (s *State) Revision(number int) (Revision, error) {
	if number >= 1 && number <= len(s.revisions) {
		return s.revisions[number-1].Revision, nil
	}
	if len(s.revisions) == 0 {
		return Revision{}, fmt.Errorf("%w environment %q", ErrUnknown, s.name)
	}
	has := "only revision 1"
	if n := len(s.revisions); n > 1 {
		has = fmt.Sprintf("revisions 1 to %d", n)
	}
	return Revision{}, fmt.Errorf("%w revision %d of environment %s: it has %s", ErrUnknown, number, s.name, has)
}

// Deployments are all, in order. They must not be changed.
func (s *State) Deployments() []Deployment { return s.deployments }

// Apply takes note of an event. Those of other environments are ignored, and so
// is what makes no sense: history is never refused.
func (s *State) Apply(e deploylog.Event) {
	s.clock = latest(s.clock, e.CreatedAt)
	if e.Target == s.target {
		s.head = e.Seq
		s.applyEnvironment(e)
		return
	}
	if name, revision, host, ok := taskOf(e.Target); ok && name == s.name {
		s.head = e.Seq
		if s.active != nil && revision <= len(s.revisions) {
			s.applyTask(e, revision, host)
		}
	}
}

func (s *State) applyEnvironment(e deploylog.Event) {
	if s.active != nil && e.Deployment == s.active.ID {
		s.attempts[e.Name] = max(s.attempts[e.Name], e.Attempt)
	}
	p := read(e.Data)
	switch e.Name {
	case EventCreated, EventUpdated:
		if p.Definition == nil || strconv.Itoa(len(s.revisions)+1) != e.Revision {
			return
		}
		if e.Name == EventCreated {
			s.firstRevision = len(s.revisions) + 1
		}
		p.Definition.Name, s.deleted = s.name, false
		s.revisions = append(s.revisions, &revision{Revision: Revision{
			Number: len(s.revisions) + 1, Base: p.Base, By: p.By, Seq: e.Seq, CreatedAt: e.CreatedAt, Definition: p.Definition,
		}})
		return
	case EventStarted:
		s.applyStarted(e, p)
	case EventDeleted:
		s.applyDeleted(e)
	}
	if s.active == nil || e.Deployment != s.active.ID {
		return
	}
	switch e.Name {
	case EventFinished:
		s.applyFinished(e)
	case EventFailed:
		s.endDeployment(e, DeploymentSuperseded, p.Error)
	case EventStuck:
		if s.active.Status == DeploymentRunning {
			s.active.Status, s.active.Since, s.active.Cause = DeploymentStuck, e.Seq, p.Error
		}
	case EventPaused:
		s.pause = &PauseInfo{By: p.By, Reason: p.Reason, Seq: e.Seq, Since: e.CreatedAt}
	case EventResumed:
		s.pause, s.resumed, s.lastProgress = nil, e.CreatedAt, e.CreatedAt
	case EventHostsChanged:
		s.applyHostsChanged(e, p)
		return
	}
	s.refreshAll(e.CreatedAt)
}

// start puts a deployment in force.
func (s *State) applyStarted(e deploylog.Event, p payload) {
	number, err := strconv.Atoi(e.Revision)
	deleting := p.Kind == ByDelete
	if deleting {
		number, err = len(s.revisions), nil
	}
	if err != nil || number < 1 || number > len(s.revisions) || s.deleted {
		return
	}
	for _, r := range s.revisions {
		if s.active != nil && s.active.Kind != ByDelete && r.Number == s.active.Revision {
			r.replaced, r.undeployed = true, false
		}
		r.reverted = r.reverted || slices.Contains(p.Reverts, r.Number)
	}
	r := s.revisions[number-1]
	if deleting {
		r.replaced = r.replaced || s.active != nil && s.active.Revision == number
	} else {
		r.replaced, r.undeployed, r.reverted = false, false, false
	}
	s.deployments = append(s.deployments, Deployment{
		ID: e.Deployment, Kind: cmp.Or(p.Kind, ByDeploy), Revision: number, Automatic: p.Automatic, Status: DeploymentRunning, By: p.By, Reason: p.Reason,
		Seq: e.Seq, Started: e.CreatedAt, Since: e.Seq, Configuration: p.Change.apply(r.Definition.Deployment),
	})
	known := s.hostsKnown && s.definition() != nil && s.definition().InstanceGroup.Query == r.Definition.InstanceGroup.Query
	s.active = &s.deployments[len(s.deployments)-1]
	clear(s.attempts)
	s.attempts[e.Name] = e.Attempt
	s.finished, s.started, s.pause, s.lastProgress, s.resumed = false, false, nil, e.CreatedAt, time.Time{}
	for _, h := range s.hosts {
		h.started = false
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

// want makes these the hosts that are to have a task.
func (s *State) setDesired(names []string) {
	for _, h := range s.hosts {
		h.desired = false
	}
	for _, name := range names {
		h := s.addHost(name)
		h.desired, h.lost = true, false
	}
}

func (s *State) applyFinished(e deploylog.Event) {
	if s.finished {
		return
	}
	s.finished, s.lastFinished = true, s.active.Revision
	s.endDeployment(e, DeploymentFinished, "")
	for _, r := range s.revisions {
		r.undeployed = r.undeployed || r.replaced
	}
}

func (s *State) endDeployment(e deploylog.Event, as DeploymentStatus, cause string) {
	if f := s.active; f.Ended.IsZero() {
		f.Status, f.Since, f.Ended, f.Cause = as, e.Seq, e.CreatedAt, cause
	}
}

// forget takes note of the end of the environment.
func (s *State) applyDeleted(e deploylog.Event) {
	if f := s.active; f != nil && f.Kind == ByDelete {
		s.endDeployment(e, DeploymentFinished, "")
	} else if f != nil {
		s.endDeployment(e, DeploymentSuperseded, "the environment was deleted")
	}
	for _, r := range s.revisions {
		if r.replaced = r.replaced || s.active != nil && r.Number == s.active.Revision; r.replaced {
			r.undeployed = true
		}
	}
	s.deleted, s.active, s.pause, s.lastFinished = true, nil, nil, 0
	s.hosts, s.byName, s.hostsKnown = nil, map[string]*host{}, false
	s.sets, s.overdue, s.timers, s.total, s.current = [classCount]set{}, nil, nil, totals{}, map[int]int{}
}

const lostHost = "its host is not in the inventory any more"

// change takes note of hosts that came and went.
func (s *State) applyHostsChanged(e deploylog.Event, p payload) {
	s.hostsKnown = s.hostsKnown || !p.More
	set := func(names []string, wanted, lost bool) {
		for _, name := range names {
			h := s.addHost(name)
			s.modify(h, e.CreatedAt, func() {
				h.desired, h.lost = wanted, lost
				for _, t := range h.tasks {
					if lost && t.status != TaskTerminating {
						t.status, t.seq, t.since, t.cause = TaskLost, e.Seq, e.CreatedAt, lostHost
					}
				}
			})
		}
	}
	set(p.Joined, true, false)
	set(p.Left, false, false)
	set(p.Lost, false, true)
}

// host returns the host of a name, made if there is none.
func (s *State) addHost(name string) *host {
	h := s.byName[name]
	if h == nil {
		h = &host{name: name, index: len(s.hosts), status: hostStatus{settled: true}}
		s.hosts, s.byName[name] = append(s.hosts, h), h
	}
	return h
}

func (s *State) applyTask(e deploylog.Event, revision int, name string) {
	h := s.byName[name]
	if h == nil {
		if e.Name != EventTaskStarted {
			return
		}
		h = s.addHost(name)
	}
	progress := false
	s.modify(h, e.CreatedAt, func() {
		repeated := h.attempts.next(e.Deployment, revision, e.Name) > 1
		if e.Deployment == s.active.ID {
			h.attempts.record(e.Deployment, revision, e.Name, e.Attempt)
		}
		if e.Name == EventTaskDeadlinePassed {
			h.deadlinePassed = e.Deployment
			return
		}
		t := h.find(revision)
		if e.Name == EventTaskStarted {
			t = h.add(revision)
		}
		switch {
		case t == nil:
		case t.apply(e):
			h.remove(revision)
		case h.lost && t.available():
			t.status, t.cause = TaskLost, lostHost
		}
		if e.Deployment != s.active.ID {
			return
		}
		begins := e.Name == EventTaskStarted && revision == s.active.Revision
		h.started = h.started || begins
		// What dies and comes again, again and again, is no progress.
		progress = !repeated && (e.Name == EventTaskFinished && revision == s.active.Revision || e.Name == EventTaskTerminated) || begins && !s.started
		s.started = s.started || begins
	})
	if progress {
		s.lastProgress = e.CreatedAt
		if s.active.Status == DeploymentStuck && !s.halted() {
			s.active.Status, s.active.Since, s.active.Cause = DeploymentRunning, e.Seq, ""
		}
	}
}

// apply tells whether the task is gone.
func (t *task) apply(e deploylog.Event) (gone bool) {
	t.seq, t.since = e.Seq, e.CreatedAt
	p := read(e.Data)
	switch e.Name {
	case EventTaskStarted, EventTaskTerminating:
		if t.deployment != e.Deployment {
			t.firstStarted = time.Time{}
		}
		if e.Name == EventTaskStarted && t.firstStarted.IsZero() {
			t.firstStarted = e.CreatedAt
		}
		if t.status == TaskTerminating != (e.Name == EventTaskTerminating) {
			t.failures = 0 // those of the other thing are of no interest
		}
		t.status, t.deployment, t.attempt, t.attemptEnded, t.retryAt = TaskStarting, e.Deployment, e.Attempt, false, time.Time{}
		if e.Name == EventTaskTerminating {
			t.status = TaskTerminating
		}
	case EventTaskLaunched:
		t.status, t.cause = TaskLaunched, ""
	case EventTaskFinished, EventTaskRecovered:
		t.status, t.cause, t.healthySince, t.failedIn = TaskHealthy, "", e.CreatedAt, ""
	case EventTaskLost:
		t.status, t.cause = TaskLost, p.Error
	case EventTaskDrifted:
		t.status, t.cause = TaskDrifted, p.Diff
		if e.CreatedAt.Sub(t.driftedAt) >= healthyReset {
			t.failures = 0
		} else { // to repair it did not help for long
			t.failures++
			t.retryAt = e.CreatedAt.Add(retryPause(t.failures))
		}
		t.driftedAt = e.CreatedAt
	case EventTaskDied:
		if e.CreatedAt.Sub(t.healthySince) >= healthyReset {
			t.failures = 0
		}
		t.fail(TaskDied, e, p.Error)
	case EventTaskFailed:
		t.fail(TaskFailed, e, p.Error)
	case EventTaskTerminationFailed:
		t.fail(TaskTerminating, e, p.Error)
		t.attemptEnded = true
	case EventTaskTerminated:
		return true
	}
	return false
}

func (t *task) fail(as TaskStatus, e deploylog.Event, cause string) {
	t.status, t.cause, t.failedIn = as, cause, e.Deployment
	t.failures++
	t.retryAt = e.CreatedAt.Add(retryPause(t.failures))
}

// touch changes something of a host, and finds out how it stands then.
func (s *State) modify(h *host, now time.Time, change func()) {
	s.count(h, -1)
	change()
	s.refresh(h, now)
	s.count(h, 1)
}

// refreshAll finds out how all hosts stand.
func (s *State) refreshAll(now time.Time) {
	s.sets, s.overdue, s.timers, s.total = [classCount]set{}, nil, s.timers[:0], totals{}
	clear(s.current)
	for _, h := range s.hosts {
		s.refresh(h, now)
		s.count(h, 1)
	}
}

// stands finds out how a host stands.
func (s *State) refresh(h *host, now time.Time) {
	var next time.Time
	h.status, next = s.evaluate(h, now)
	h.generation++
	if !next.IsZero() {
		heap.Push(&s.timers, timer{next, h.index, h.generation})
	}
}

// count adds a host to what is counted, or takes it out.
func (s *State) count(h *host, by int) {
	if s.active == nil || h.lost {
		return
	}
	one := func(yes bool, n *int) {
		if yes {
			*n += by
		}
	}
	put := func(s *set) {
		if by > 0 {
			s.add(h.index)
		} else {
			s.remove(h.index)
		}
	}
	one(h.desired, &s.total.desired)
	one(h.status.available, &s.total.available)
	one(h.status.serving, &s.total.serving)
	one(h.status.double, &s.total.double)
	one(!h.status.settled, &s.total.unsettled)
	one(h.status.failed, &s.total.failed)
	one(h.status.inFlight, &s.total.inFlight)
	one(h.status.retrying, &s.total.retrying)
	if h.status.class != classNone {
		put(&s.sets[h.status.class])
	}
	if h.status.overdue {
		put(&s.overdue)
	}
	for _, t := range h.tasks {
		if t.available() || s.active.Kind == ByDelete || t.revision != s.active.Revision {
			s.current[t.revision] += by
		}
	}
}

// minimum is how many hosts must keep a task that is counted on.
func (s *State) minimum() int { return s.active.Configuration.Minimum(s.total.desired) }

// spare is how many tasks that are counted on may be stopped.
func (s *State) disruptionsLeft() int { return s.total.available - s.minimum() }

// spareServing is how many of them on hosts that are to have a task: those on
// hosts that leave do not make up for them.
func (s *State) servingDisruptionsLeft() int { return s.total.serving - s.minimum() }

// over is how many more hosts may have two tasks.
func (s *State) surgeLeft() int { return s.active.Configuration.MaxOver - s.total.double }

// halted tells whether too many hosts have failed for another to be begun.
func (s *State) halted() bool {
	most := s.active.Configuration.MaxFailed
	return !s.finished && most != nil && s.total.failed > most.Of(s.total.desired)
}
