package environment

import (
	"slices"
	"time"
)

// host is a machine that has tasks, or is to have one.
type host struct {
	name           string
	index          int
	desired        bool   // it is to have a task of the revision in force
	lost           bool   // it is not in the inventory any more
	started        bool   // a task of the revision in force was begun on it by the deployment in force
	deadlinePassed string // deployment whose healthy deadline its task has passed
	tasks          []*task
	attempts       attemptCounts
	generation     int // changes whenever it is looked at
	status         hostStatus
}

// task is a task that is there, or may be.
type task struct {
	revision     int
	status       TaskStatus
	seq          int64
	since        time.Time
	deployment   string // that began what was begun last
	attempt      int    // of it
	failures     int    // in a row
	failedIn     string // deployment of the last failure
	cause        string
	retryAt      time.Time // it rests until then
	attemptEnded bool      // of a terminating one: it was tried in vain
	healthySince time.Time // since when it was, at the last time
	driftedAt    time.Time // the last time
	firstStarted time.Time // when the deployment began it for the first time
}

// up tells whether the task is one that is counted on.
func (t *task) available() bool { return t.status == TaskHealthy || t.status == TaskDrifted }

// begun tells whether something was begun that has not ended, as far as is known.
func (t *task) inFlight() bool {
	return t.status == TaskStarting || t.status == TaskTerminating && !t.attemptEnded
}

func (h *host) find(revision int) *task {
	for _, t := range h.tasks {
		if t.revision == revision {
			return t
		}
	}
	return nil
}

// add returns the task of a revision, made if there is none.
func (h *host) add(revision int) *task {
	t := h.find(revision)
	if t == nil {
		t = &task{revision: revision}
		i, _ := slices.BinarySearchFunc(h.tasks, revision, func(t *task, r int) int { return t.revision - r })
		h.tasks = slices.Insert(h.tasks, i, t)
	}
	return t
}

func (h *host) remove(revision int) {
	h.tasks = slices.DeleteFunc(h.tasks, func(t *task) bool { return t.revision == revision })
}

// ups is how many of its tasks are counted on.
func (h *host) availableTasks() (n int) {
	for _, t := range h.tasks {
		if t.available() {
			n++
		}
	}
	return n
}

// counts numbers the events of a host's tasks within a deployment, so that each
// is there once.
type attemptCounts struct {
	deployment string
	list       []attemptCount
}

type attemptCount struct {
	revision int
	event    string
	n        int
}

// next is the number of the next event.
func (c *attemptCounts) next(deployment string, revision int, event string) int {
	if c.deployment == deployment {
		for _, k := range c.list {
			if k.revision == revision && k.event == event {
				return k.n + 1
			}
		}
	}
	return 1
}

func (c *attemptCounts) record(deployment string, revision int, event string, n int) {
	if c.deployment != deployment {
		*c = attemptCounts{deployment: deployment, list: c.list[:0]}
	}
	for i := range c.list {
		if k := &c.list[i]; k.revision == revision && k.event == event {
			k.n = max(k.n, n)
			return
		}
	}
	c.list = append(c.list, attemptCount{revision, event, n})
}

// class is what must be given for the next thing that is to be done on a host.
type class int

// The classes. None of them is settled or waits for time.
const (
	classNone    class = iota
	classFree          // it takes nothing away
	classFirst         // it is the first on its host: not while too many hosts have failed
	classReplace       // it stops the only task that is counted on of a host that is to have one
	classDrain         // the same of a host that is to have none
	classSurge         // it gives the host a second task
	classCount         // how many there are
)

// standing is what was found when a host was looked at last.
type hostStatus struct {
	class     class
	kind      Kind
	task      int  // revision
	available bool // it has a task that is counted on
	serving   bool // and is to have one
	double    bool
	settled   bool // it is as it is to be
	failed    bool // it counts against max_failed
	inFlight  bool // what is worked on next was begun, and has not ended
	retrying  bool // it rests, and may well do better soon
	overdue   bool // its healthy deadline has passed, and that is not recorded
}

// despair is after how many failures in a row nobody is to wait for the next try.
const maxRetries = 3

// stand finds out how a host stands, and when time alone changes that, zero is
// never.
func (s *State) evaluate(h *host, now time.Time) (st hostStatus, next time.Time) {
	if h.lost || s.active == nil {
		return hostStatus{settled: true}, next
	}
	f := s.active
	st.available, st.double = h.availableTasks() > 0, len(h.tasks) > 1
	st.serving = st.available && h.desired
	var current *task
	if h.desired {
		current = h.find(f.Revision)
	}
	var task *task // which is worked on next, nil with a Start is none yet
	st.class, st.kind, task = s.nextAction(h, current)
	st.settled = st.kind == "" || st.kind == Start && task != nil && task.available() // drift is repaired by the way
	st.task = f.Revision
	if task != nil {
		// The end of something else would never come, if a controller died.
		st.task, st.inFlight = task.revision, task.inFlight() && (st.kind == Start) == (task.status == TaskStarting)
		if notBefore := s.notBefore(st.kind, task); notBefore.After(now) && !task.since.After(now) { // else the clock was set back
			st.class, next = classNone, notBefore
			st.retrying = st.kind == Confirm || task.failures < maxRetries
		}
	}
	if current != nil && !current.available() {
		st.failed = current.failedIn == f.ID || h.deadlinePassed == f.ID
		if deadline := s.healthyDeadline(h, current); !deadline.IsZero() {
			if st.overdue = !deadline.After(now); !st.overdue && (next.IsZero() || deadline.Before(next)) {
				next = deadline
			}
		}
	}
	return st, next
}

// next is what is to be done on a host, which is there, and with which of its
// tasks; mine is that of the revision in force.
func (s *State) nextAction(h *host, current *task) (class, Kind, *task) {
	if old := s.outgoing(h, current); old != nil {
		switch {
		case s.active.Kind == ByDelete || old.status == TaskTerminating || h.availableTasks() > 1:
			return classFree, Terminate, old
		case old.available() && h.desired:
			return classReplace, Terminate, old
		case old.available():
			return classDrain, Terminate, old
		case h.desired && current == nil && !h.started:
			return classFirst, Terminate, old
		}
		return classFree, Terminate, old
	}
	switch {
	case s.awaitsProbe(h, current):
		return classNone, awaitProbe, nil
	case !h.desired:
		return classNone, "", nil
	case current == nil && len(h.tasks) > 0:
		return classSurge, Start, nil
	case current == nil && h.started:
		return classFree, Start, nil
	case current == nil:
		return classFirst, Start, nil
	}
	switch current.status {
	case TaskTerminating:
		return classFree, Terminate, current
	case TaskLost:
		return classNone, awaitProbe, nil
	case TaskLaunched:
		return classFree, Confirm, current
	case TaskHealthy:
		return classNone, "", nil
	case TaskDrifted:
		if s.active.Configuration.Drift == ReportDrift {
			return classNone, "", nil
		}
		return classReplace, Start, current
	default:
		return classFree, Start, current
	}
}

// await is the kind of what is not to be done, but waited for: that a task that is
// lost is seen again. It may be well, so it is neither stopped nor started.
const awaitProbe Kind = "await"

// outgoing is the task that is to leave the host next: first those that are of
// no use, then older ones.
func (s *State) outgoing(h *host, current *task) (first *task) {
	retained := s.retained(h, current)
	for _, t := range h.tasks {
		lost := t.status == TaskLost && s.active.Kind != ByDelete
		if t != current && t != retained && !lost && (first == nil || !t.available() && first.available()) {
			first = t
		}
	}
	return first
}

// awaits tells whether a task that is to leave the host is lost.
func (s *State) awaitsProbe(h *host, current *task) bool {
	retained := s.retained(h, current)
	return slices.ContainsFunc(h.tasks, func(t *task) bool { return t != current && t != retained && t.status == TaskLost })
}

// stays is the task that Surge leaves until the new one is healthy: that of most
// use, of several the newest. What is of none makes way.
func (s *State) retained(h *host, current *task) (last *task) {
	if !h.desired || s.active.Configuration.Method != Surge || current != nil && current.available() {
		return nil
	}
	for _, t := range h.tasks {
		if t != current && t.rank() > 0 && (last == nil || t.rank() >= last.rank()) {
			last = t
		}
	}
	return last
}

// use is of how much use a task is, or may be.
func (t *task) rank() int {
	switch t.status {
	case TaskHealthy, TaskDrifted:
		return 3
	case TaskLost:
		return 2
	case TaskLaunched, TaskStarting:
		return 1
	default:
		return 0
	}
}

// due is when the next thing may be done with a task.
func (s *State) notBefore(kind Kind, t *task) time.Time {
	switch {
	case kind == Confirm:
		return t.since.Add(time.Duration(s.active.Configuration.MinHealthyTime))
	case kind == Terminate && t.status != TaskTerminating:
		return time.Time{}
	}
	return t.retryAt
}

// healthyDeadline is when a task is to be healthy, zero when that does not matter
// any more or is recorded.
func (s *State) healthyDeadline(h *host, t *task) time.Time {
	f := s.active
	if s.finished || s.pause != nil || h.deadlinePassed == f.ID || t.firstStarted.IsZero() || t.deployment != f.ID {
		return time.Time{}
	}
	return latest(t.firstStarted, s.resumed).Add(time.Duration(f.Configuration.HealthyDeadline))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// retryPause is how long a task rests that failed so many times in a row: a
// second at first, then double, up to a minute.
func retryPause(failures int) time.Duration {
	const doublings = 6
	return min(time.Second<<min(max(failures, 1)-1, doublings), time.Minute)
}

// steady is how long a task must have been healthy for its failures to be
// forgotten.
const healthyReset = 10 * time.Minute
