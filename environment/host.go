package environment

import (
	"slices"
	"time"
)

// host is a machine that has tasks, or is to have one.
type host struct {
	name   string
	index  int
	wanted bool   // it is to have a task of the revision in force
	lost   bool   // it is not in the inventory any more
	begun  bool   // a task of the revision in force was begun on it by the deployment in force
	late   string // deployment whose healthy deadline its task has passed
	tasks  []*task
	counts counts
	stamp  int // changes whenever it is looked at
	now    standing
}

// task is a task that is there, or may be.
type task struct {
	revision   int
	status     TaskStatus
	seq        int64
	since      time.Time
	deployment string // that began what was begun last
	attempt    int    // of it
	failures   int    // in a row
	blamed     string // deployment of the last failure
	cause      string
	next       time.Time // it rests until then
	ended      bool      // of a terminating one: it was tried in vain
	healthy    time.Time // since when it was, at the last time
	drifted    time.Time // the last time
	first      time.Time // when the deployment began it for the first time
}

// up tells whether the task is one that is counted on.
func (t *task) up() bool { return t.status == TaskHealthy || t.status == TaskDrifted }

// begun tells whether something was begun that has not ended, as far as is known.
func (t *task) begun() bool {
	return t.status == TaskStarting || t.status == TaskTerminating && !t.ended
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
func (h *host) ups() (n int) {
	for _, t := range h.tasks {
		if t.up() {
			n++
		}
	}
	return n
}

// counts numbers the events of a host's tasks within a deployment, so that each
// is there once.
type counts struct {
	deployment string
	of         []tally
}

type tally struct {
	revision int
	event    string
	n        int
}

// next is the number of the next event.
func (c *counts) next(deployment string, revision int, event string) int {
	if c.deployment == deployment {
		for _, k := range c.of {
			if k.revision == revision && k.event == event {
				return k.n + 1
			}
		}
	}
	return 1
}

func (c *counts) note(deployment string, revision int, event string, n int) {
	if c.deployment != deployment {
		*c = counts{deployment: deployment, of: c.of[:0]}
	}
	for i := range c.of {
		if k := &c.of[i]; k.revision == revision && k.event == event {
			k.n = max(k.n, n)
			return
		}
	}
	c.of = append(c.of, tally{revision, event, n})
}

// class is what must be given for the next thing that is to be done on a host.
type class int

// The classes. None of them is settled or waits for time.
const (
	nothing   class = iota
	free            // it takes nothing away
	fresh           // it is the first on its host: not while too many hosts have failed
	takesDown       // it stops the only task that is counted on of a host that is to have one
	cleans          // the same of a host that is to have none
	doubles         // it gives the host a second task
	classes         // how many there are
)

// standing is what was found when a host was looked at last.
type standing struct {
	class   class
	kind    Kind
	task    int  // revision
	up      bool // it has a task that is counted on
	serves  bool // and is to have one
	double  bool
	settled bool // it is as it is to be
	failed  bool // it counts against max_failed
	busy    bool // what is worked on next was begun, and has not ended
	hopeful bool // it rests, and may well do better soon
	overdue bool // its healthy deadline has passed, and that is not recorded
}

// despair is after how many failures in a row nobody is to wait for the next try.
const despair = 3

// stand finds out how a host stands, and when time alone changes that, zero is
// never.
func (s *State) stand(h *host, now time.Time) (st standing, again time.Time) {
	if h.lost || s.force == nil {
		return standing{settled: true}, again
	}
	f := s.force
	st.up, st.double = h.ups() > 0, len(h.tasks) > 1
	st.serves = st.up && h.wanted
	var mine *task
	if h.wanted {
		mine = h.find(f.Revision)
	}
	var do *task // which is worked on next, nil with a Start is none yet
	st.class, st.kind, do = s.next(h, mine)
	st.settled = st.kind == "" || st.kind == Start && do != nil && do.up() // drift is repaired by the way
	st.task = f.Revision
	if do != nil {
		// The end of something else would never come, if a controller died.
		st.task, st.busy = do.revision, do.begun() && (st.kind == Start) == (do.status == TaskStarting)
		if due := s.due(st.kind, do); due.After(now) && !do.since.After(now) { // else the clock was set back
			st.class, again = nothing, due
			st.hopeful = st.kind == Confirm || do.failures < despair
		}
	}
	if mine != nil && !mine.up() {
		st.failed = mine.blamed == f.ID || h.late == f.ID
		if deadline := s.healthyDeadline(h, mine); !deadline.IsZero() {
			if st.overdue = !deadline.After(now); !st.overdue && (again.IsZero() || deadline.Before(again)) {
				again = deadline
			}
		}
	}
	return st, again
}

// next is what is to be done on a host, which is there, and with which of its
// tasks; mine is that of the revision in force.
func (s *State) next(h *host, mine *task) (class, Kind, *task) {
	if old := s.outgoing(h, mine); old != nil {
		switch {
		case s.force.Kind == ByDelete || old.status == TaskTerminating || h.ups() > 1:
			return free, Terminate, old
		case old.up() && h.wanted:
			return takesDown, Terminate, old
		case old.up():
			return cleans, Terminate, old
		case h.wanted && mine == nil && !h.begun:
			return fresh, Terminate, old
		}
		return free, Terminate, old
	}
	switch {
	case s.awaits(h, mine):
		return nothing, await, nil
	case !h.wanted:
		return nothing, "", nil
	case mine == nil && len(h.tasks) > 0:
		return doubles, Start, nil
	case mine == nil && h.begun:
		return free, Start, nil
	case mine == nil:
		return fresh, Start, nil
	}
	switch mine.status {
	case TaskTerminating:
		return free, Terminate, mine
	case TaskLost:
		return nothing, await, nil
	case TaskLaunched:
		return free, Confirm, mine
	case TaskHealthy:
		return nothing, "", nil
	case TaskDrifted:
		if s.force.Configuration.Drift == ReportDrift {
			return nothing, "", nil
		}
		return takesDown, Start, mine
	default:
		return free, Start, mine
	}
}

// await is the kind of what is not to be done, but waited for: that a task that is
// lost is seen again. It may be well, so it is neither stopped nor started.
const await Kind = "await"

// outgoing is the task that is to leave the host next: first those that are of
// no use, then older ones.
func (s *State) outgoing(h *host, mine *task) (first *task) {
	stays := s.stays(h, mine)
	for _, t := range h.tasks {
		lost := t.status == TaskLost && s.force.Kind != ByDelete
		if t != mine && t != stays && !lost && (first == nil || !t.up() && first.up()) {
			first = t
		}
	}
	return first
}

// awaits tells whether a task that is to leave the host is lost.
func (s *State) awaits(h *host, mine *task) bool {
	stays := s.stays(h, mine)
	return slices.ContainsFunc(h.tasks, func(t *task) bool { return t != mine && t != stays && t.status == TaskLost })
}

// stays is the task that Surge leaves until the new one is healthy: that of most
// use, of several the newest. What is of none makes way.
func (s *State) stays(h *host, mine *task) (last *task) {
	if !h.wanted || s.force.Configuration.Method != Surge || mine != nil && mine.up() {
		return nil
	}
	for _, t := range h.tasks {
		if t != mine && t.use() > 0 && (last == nil || t.use() >= last.use()) {
			last = t
		}
	}
	return last
}

// use is of how much use a task is, or may be.
func (t *task) use() int {
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
func (s *State) due(kind Kind, t *task) time.Time {
	switch {
	case kind == Confirm:
		return t.since.Add(time.Duration(s.force.Configuration.MinHealthyTime))
	case kind == Terminate && t.status != TaskTerminating:
		return time.Time{}
	}
	return t.next
}

// healthyDeadline is when a task is to be healthy, zero when that does not matter
// any more or is recorded.
func (s *State) healthyDeadline(h *host, t *task) time.Time {
	f := s.force
	if s.reached || s.pause != nil || h.late == f.ID || t.first.IsZero() || t.deployment != f.ID {
		return time.Time{}
	}
	return later(t.first, s.resumed).Add(time.Duration(f.Configuration.HealthyDeadline))
}

func later(a, b time.Time) time.Time {
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
const steady = 10 * time.Minute
