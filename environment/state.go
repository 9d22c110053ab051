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
	name        string
	target      deploylog.Target
	revisions   []*revision // by number
	deployments []Deployment
	deleted     bool
	born        int // the first revision since it was created the last time
	head        int64

	hosts  []*host
	byName map[string]*host

	// Of the deployment in force.
	force    *Deployment // the last of the deployments; nil before the first, and when deleted
	counts   map[string]int
	known    bool      // its hosts
	reached  bool      // it has finished
	tried    bool      // a task of it was begun
	progress time.Time // the last
	pause    *PauseInfo
	resumed  time.Time
	clock    time.Time // the latest time that was heard of
	active   int       // the revision of the last deployment that has finished; 0 is none

	// Derived.
	sets    [classes]set
	overdue set
	alarms  alarms
	total   totals
	current map[int]int // tasks of a revision that are there; of that in force, those that are up
}

// totals counts the hosts that stand in a way.
type totals struct{ wanted, up, serves, double, unsettled, failed, busy, hopeful int }

// revision is one of them, with what became of it.
type revision struct {
	Revision
	left     bool // it was deployed, and another has come after it
	reverted bool
	gone     bool // left, and the one after it has finished
}

// New returns the state of an environment of which nothing is known yet.
func New(name string) *State {
	return &State{name: name, target: Target(name), byName: map[string]*host{}, counts: map[string]int{}, current: map[int]int{}}
}

// Name of the environment.
func (s *State) Name() string { return s.name }

// Head is the Seq of the last event that was applied.
func (s *State) Head() int64 { return s.head }

// Exists tells whether it was created, and not deleted since.
func (s *State) Exists() bool { return len(s.revisions) > 0 && !s.deleted }

// ActiveDeployment is the deployment in force; ok is false when there is none.
func (s *State) ActiveDeployment() (d Deployment, ok bool) {
	if s.force == nil {
		return Deployment{}, false
	}
	return *s.force, true
}

// Idle tells whether nothing will happen unless something happens to it: no
// deployment is under way but those that are stuck or paused, and nothing that
// was begun has not ended.
func (s *State) Idle() bool {
	switch {
	case s.force == nil:
		return true
	case s.total.busy > 0:
		return false
	case s.pause != nil || s.force.Status == DeploymentStuck:
		return true
	case !s.reached || !s.known:
		return false
	}
	return s.sets[free].empty() && s.sets[fresh].empty() && s.total.hopeful == 0 &&
		(s.sets[takesDown].empty() || s.spareServing() <= 0) && (s.sets[cleans].empty() || s.spare() <= 0) && (s.sets[doubles].empty() || s.over() <= 0)
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
	if s.force == nil || s.force.Kind == ByDelete {
		return nil
	}
	return s.revisions[s.force.Revision-1].Definition
}

// HostManifests yields the hosts that have tasks or are to have one, each with the
// manifest; of several manifests a host comes several times.
func (s *State) HostManifests() iter.Seq2[string, string] {
	return func(yield func(host, manifest string) bool) {
		for _, h := range s.hosts {
			if h.wanted && !yield(h.name, s.Manifest()) {
				return
			}
			for _, t := range h.tasks {
				if of := s.revisions[t.revision-1].Definition.Task.Manifest; (!h.wanted || of != s.Manifest()) && !yield(h.name, of) {
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
	s.clock = later(s.clock, e.CreatedAt)
	if e.Target == s.target {
		s.head = e.Seq
		s.applyOwn(e)
		return
	}
	if name, revision, host, ok := taskOf(e.Target); ok && name == s.name {
		s.head = e.Seq
		if s.force != nil && revision <= len(s.revisions) {
			s.applyTask(e, revision, host)
		}
	}
}

func (s *State) applyOwn(e deploylog.Event) {
	if s.force != nil && e.Deployment == s.force.ID {
		s.counts[e.Name] = max(s.counts[e.Name], e.Attempt)
	}
	p := read(e.Data)
	switch e.Name {
	case EventCreated, EventUpdated:
		if p.Definition == nil || strconv.Itoa(len(s.revisions)+1) != e.Revision {
			return
		}
		if e.Name == EventCreated {
			s.born = len(s.revisions) + 1
		}
		p.Definition.Name, s.deleted = s.name, false
		s.revisions = append(s.revisions, &revision{Revision: Revision{
			Number: len(s.revisions) + 1, Base: p.Base, By: p.By, Seq: e.Seq, CreatedAt: e.CreatedAt, Definition: p.Definition,
		}})
		return
	case EventStarted:
		s.start(e, p)
	case EventDeleted:
		s.forget(e)
	}
	if s.force == nil || e.Deployment != s.force.ID {
		return
	}
	switch e.Name {
	case EventFinished:
		s.finish(e)
	case EventFailed:
		s.end(e, DeploymentSuperseded, p.Error)
	case EventStuck:
		if s.force.Status == DeploymentRunning {
			s.force.Status, s.force.Since, s.force.Cause = DeploymentStuck, e.Seq, p.Error
		}
	case EventPaused:
		s.pause = &PauseInfo{By: p.By, Reason: p.Reason, Seq: e.Seq, Since: e.CreatedAt}
	case EventResumed:
		s.pause, s.resumed, s.progress = nil, e.CreatedAt, e.CreatedAt
	case EventHostsChanged:
		s.change(e, p)
		return
	}
	s.refreshAll(e.CreatedAt)
}

// start puts a deployment in force.
func (s *State) start(e deploylog.Event, p payload) {
	number, err := strconv.Atoi(e.Revision)
	deleting := p.Kind == ByDelete
	if deleting {
		number, err = len(s.revisions), nil
	}
	if err != nil || number < 1 || number > len(s.revisions) || s.deleted {
		return
	}
	for _, r := range s.revisions {
		if s.force != nil && s.force.Kind != ByDelete && r.Number == s.force.Revision {
			r.left, r.gone = true, false
		}
		r.reverted = r.reverted || slices.Contains(p.Reverts, r.Number)
	}
	r := s.revisions[number-1]
	if deleting {
		r.left = r.left || s.force != nil && s.force.Revision == number
	} else {
		r.left, r.gone, r.reverted = false, false, false
	}
	s.deployments = append(s.deployments, Deployment{
		ID: e.Deployment, Kind: cmp.Or(p.Kind, ByDeploy), Revision: number, Automatic: p.Automatic, Status: DeploymentRunning, By: p.By, Reason: p.Reason,
		Seq: e.Seq, Started: e.CreatedAt, Since: e.Seq, Configuration: p.Change.apply(r.Definition.Deployment),
	})
	known := s.known && s.definition() != nil && s.definition().InstanceGroup.Query == r.Definition.InstanceGroup.Query
	s.force = &s.deployments[len(s.deployments)-1]
	clear(s.counts)
	s.counts[e.Name] = e.Attempt
	s.reached, s.tried, s.pause, s.progress, s.resumed = false, false, nil, e.CreatedAt, time.Time{}
	for _, h := range s.hosts {
		h.begun = false
	}
	switch {
	case deleting:
		s.known = true
		s.want(nil)
	case p.Hosts != nil:
		s.known = true
		s.want(*p.Hosts)
	default:
		s.known = known
	}
}

// want makes these the hosts that are to have a task.
func (s *State) want(names []string) {
	for _, h := range s.hosts {
		h.wanted = false
	}
	for _, name := range names {
		h := s.host(name)
		h.wanted, h.lost = true, false
	}
}

func (s *State) finish(e deploylog.Event) {
	if s.reached {
		return
	}
	s.reached, s.active = true, s.force.Revision
	s.end(e, DeploymentFinished, "")
	for _, r := range s.revisions {
		r.gone = r.gone || r.left
	}
}

func (s *State) end(e deploylog.Event, as DeploymentStatus, cause string) {
	if f := s.force; f.Ended.IsZero() {
		f.Status, f.Since, f.Ended, f.Cause = as, e.Seq, e.CreatedAt, cause
	}
}

// forget takes note of the end of the environment.
func (s *State) forget(e deploylog.Event) {
	if f := s.force; f != nil && f.Kind == ByDelete {
		s.end(e, DeploymentFinished, "")
	} else if f != nil {
		s.end(e, DeploymentSuperseded, "the environment was deleted")
	}
	for _, r := range s.revisions {
		if r.left = r.left || s.force != nil && r.Number == s.force.Revision; r.left {
			r.gone = true
		}
	}
	s.deleted, s.force, s.pause, s.active = true, nil, nil, 0
	s.hosts, s.byName, s.known = nil, map[string]*host{}, false
	s.sets, s.overdue, s.alarms, s.total, s.current = [classes]set{}, nil, nil, totals{}, map[int]int{}
}

const lostHost = "its host is not in the inventory any more"

// change takes note of hosts that came and went.
func (s *State) change(e deploylog.Event, p payload) {
	s.known = s.known || !p.More
	set := func(names []string, wanted, lost bool) {
		for _, name := range names {
			h := s.host(name)
			s.touch(h, e.CreatedAt, func() {
				h.wanted, h.lost = wanted, lost
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
func (s *State) host(name string) *host {
	h := s.byName[name]
	if h == nil {
		h = &host{name: name, index: len(s.hosts), now: standing{settled: true}}
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
		h = s.host(name)
	}
	progress := false
	s.touch(h, e.CreatedAt, func() {
		again := h.counts.next(e.Deployment, revision, e.Name) > 1
		if e.Deployment == s.force.ID {
			h.counts.note(e.Deployment, revision, e.Name, e.Attempt)
		}
		if e.Name == EventTaskDeadlinePassed {
			h.late = e.Deployment
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
		case h.lost && t.up():
			t.status, t.cause = TaskLost, lostHost
		}
		if e.Deployment != s.force.ID {
			return
		}
		begins := e.Name == EventTaskStarted && revision == s.force.Revision
		h.begun = h.begun || begins
		// What dies and comes again, again and again, is no progress.
		progress = !again && (e.Name == EventTaskFinished && revision == s.force.Revision || e.Name == EventTaskTerminated) || begins && !s.tried
		s.tried = s.tried || begins
	})
	if progress {
		s.progress = e.CreatedAt
		if s.force.Status == DeploymentStuck && !s.halted() {
			s.force.Status, s.force.Since, s.force.Cause = DeploymentRunning, e.Seq, ""
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
			t.first = time.Time{}
		}
		if e.Name == EventTaskStarted && t.first.IsZero() {
			t.first = e.CreatedAt
		}
		if t.status == TaskTerminating != (e.Name == EventTaskTerminating) {
			t.failures = 0 // those of the other thing are of no interest
		}
		t.status, t.deployment, t.attempt, t.ended, t.next = TaskStarting, e.Deployment, e.Attempt, false, time.Time{}
		if e.Name == EventTaskTerminating {
			t.status = TaskTerminating
		}
	case EventTaskLaunched:
		t.status, t.cause = TaskLaunched, ""
	case EventTaskFinished, EventTaskRecovered:
		t.status, t.cause, t.healthy, t.blamed = TaskHealthy, "", e.CreatedAt, ""
	case EventTaskLost:
		t.status, t.cause = TaskLost, p.Error
	case EventTaskDrifted:
		t.status, t.cause = TaskDrifted, p.Diff
		if e.CreatedAt.Sub(t.drifted) >= steady {
			t.failures = 0
		} else { // to repair it did not help for long
			t.failures++
			t.next = e.CreatedAt.Add(retryPause(t.failures))
		}
		t.drifted = e.CreatedAt
	case EventTaskDied:
		if e.CreatedAt.Sub(t.healthy) >= steady {
			t.failures = 0
		}
		t.fail(TaskDied, e, p.Error)
	case EventTaskFailed:
		t.fail(TaskFailed, e, p.Error)
	case EventTaskTerminationFailed:
		t.fail(TaskTerminating, e, p.Error)
		t.ended = true
	case EventTaskTerminated:
		return true
	}
	return false
}

func (t *task) fail(as TaskStatus, e deploylog.Event, cause string) {
	t.status, t.cause, t.blamed = as, cause, e.Deployment
	t.failures++
	t.next = e.CreatedAt.Add(retryPause(t.failures))
}

// touch changes something of a host, and finds out how it stands then.
func (s *State) touch(h *host, now time.Time, change func()) {
	s.count(h, -1)
	change()
	s.stands(h, now)
	s.count(h, 1)
}

// refreshAll finds out how all hosts stand.
func (s *State) refreshAll(now time.Time) {
	s.sets, s.overdue, s.alarms, s.total = [classes]set{}, nil, s.alarms[:0], totals{}
	clear(s.current)
	for _, h := range s.hosts {
		s.stands(h, now)
		s.count(h, 1)
	}
}

// stands finds out how a host stands.
func (s *State) stands(h *host, now time.Time) {
	var again time.Time
	h.now, again = s.stand(h, now)
	h.stamp++
	if !again.IsZero() {
		heap.Push(&s.alarms, alarm{again, h.index, h.stamp})
	}
}

// count adds a host to what is counted, or takes it out.
func (s *State) count(h *host, by int) {
	if s.force == nil || h.lost {
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
	one(h.wanted, &s.total.wanted)
	one(h.now.up, &s.total.up)
	one(h.now.serves, &s.total.serves)
	one(h.now.double, &s.total.double)
	one(!h.now.settled, &s.total.unsettled)
	one(h.now.failed, &s.total.failed)
	one(h.now.busy, &s.total.busy)
	one(h.now.hopeful, &s.total.hopeful)
	if h.now.class != nothing {
		put(&s.sets[h.now.class])
	}
	if h.now.overdue {
		put(&s.overdue)
	}
	for _, t := range h.tasks {
		if t.up() || s.force.Kind == ByDelete || t.revision != s.force.Revision {
			s.current[t.revision] += by
		}
	}
}

// minimum is how many hosts must keep a task that is counted on.
func (s *State) minimum() int { return s.force.Configuration.Minimum(s.total.wanted) }

// spare is how many tasks that are counted on may be stopped.
func (s *State) spare() int { return s.total.up - s.minimum() }

// spareServing is how many of them on hosts that are to have a task: those on
// hosts that leave do not make up for them.
func (s *State) spareServing() int { return s.total.serves - s.minimum() }

// over is how many more hosts may have two tasks.
func (s *State) over() int { return s.force.Configuration.MaxOver - s.total.double }

// halted tells whether too many hosts have failed for another to be begun.
func (s *State) halted() bool {
	most := s.force.Configuration.MaxFailed
	return !s.reached && most != nil && s.total.failed > most.Of(s.total.wanted)
}
