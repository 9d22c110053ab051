package build

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/build/bitset"
	"github.com/deployster-go/deployster/build/compact"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
)

// group is a build group.
type group struct {
	id, name  string
	at        int // in the order of all
	state     transition.Group
	triggered record.Triggered
	created   record.Created
	canceling record.Canceling
	specs     []record.JobSpec
	jobs      []job

	targets record.Targets // of its jobs, once all are known

	needed []edge           // who needs a job: those of one after those of the other
	more   map[int32][]edge // beyond these, since an artifact was missing
	lacks  map[int32][]int32

	places   []int      // of the state, by those of the group
	queues   []queue    // of what is Eligible, by the places
	inFlight bitset.Set // jobs that a worker has

	counts  [int(transition.CancelComplete) + 1]int // jobs by state
	ready   int                                     // jobs that are Schedulable or lost, and need nothing more
	blocked int                                     // jobs that wait for what will not be built

	lasted *lasted // of all groups of its name; nil is that none of them has begun
	timed  int     // jobs that have an index there

	attempts map[string]int   // of its own events
	notes    map[note]int     // attempts of events of jobs that have no number of their own
	idents   map[int32]string // of artifacts with all that these need to run, as far as they were asked for
	reused   int              // jobs that are Built, and whose artifact was there already
	stalled  bool
	cause    string
	seq      int64 // of the event with which it came into its state

	createdAt, startedAt, endedAt time.Time
}

// note is an event of a job that may happen to it several times in one attempt.
type note struct {
	job   int32
	event string
}

// queue is the jobs of one place by their order, and which of them may be dispatched now.
type queue struct {
	jobs     []int32
	eligible bitset.Set
}

// job is a job of a group. What is looked at of others that a job needs, or that need it, is
// together at its beginning: of a large group hardly anything else is at hand by then.
type job struct {
	state      transition.Job
	backingOff bool   // it was lost, and is not dispatched yet
	asked      bool   // it has ended, and that is not applied
	reused     bool   // its artifact was there already
	runs       bool   // it uses something that whoever uses it needs, too
	pass       int32  // as in its JobSpec
	unmet      int32  // jobs that it needs or waits for, and that are not done
	broken     int32  // jobs that it needs, and that have ended unbuilt
	first      int32  // of the edges of its group
	last       int32  //
	queue      int32  // index of its place
	position   int32  // in the queue of that
	artifact   string // digest, once it is Built
	rank       int32  // in its group
	attempt    int32  // the last

	occurrence int32 // index of how long it took last
	lost       int32 // how often, since it was queued, as far as that counts
	excused    int32 // how often it was lost through no fault of its own, since it was queued
	rebuilt    int32 // how often, as its artifact was missing
	because    int32 // job that failed, of one that needs it; from 1

	started []byte // data of the last attempt
	ended   []byte // data of how that ended
	began   compact.Moment
	since   compact.Moment
	seq     int64
}

// edge is that a job is needed by another.
type edge uint32

const (
	waits edge = 1 << iota // the other only must not overtake it
	runs                   // the other needs it also to run
)

const edgeBits = 2

func newEdge(job int32, kind edge) edge { return edge(job)<<edgeBits | kind }

func (e edge) job() int32 { return int32(e >> edgeBits) }

// add adds jobs as they were created.
func (g *group) add(specs []record.JobSpec) {
	g.specs = append(g.specs, specs...)
	for i := len(g.jobs); i < len(g.specs); i++ {
		runs := slices.ContainsFunc(g.specs[i].Uses, func(u record.Use) bool { return u.Run })
		g.jobs = append(g.jobs, job{state: transition.Pending, runs: runs, pass: int32(g.specs[i].Pass)})
		g.counts[transition.Pending]++
	}
}

// link finds who needs whom, once all jobs are known. A job that needs one that there is
// not will never be able to begin.
func (g *group) link() {
	needs := make([]edge, 0, 2*len(g.jobs)) // of a job: what it needs
	ends := make([]int, len(g.jobs))
	for i := range g.jobs {
		from := len(needs)
		needs = append(needs, g.needs(i)...)
		for _, e := range needs[from:] {
			if int(e.job()) < len(g.jobs) {
				g.jobs[e.job()].last++
			}
		}
		ends[i] = len(needs)
		g.jobs[i].unmet = int32(len(needs) - from)
	}
	total := int32(0)
	for i := range g.jobs {
		j := &g.jobs[i]
		j.first, j.last, total = total, total, total+j.last
	}
	g.needed = make([]edge, total)
	from := 0
	for i, end := range ends {
		for _, e := range needs[from:end] {
			if int(e.job()) < len(g.jobs) {
				needed := &g.jobs[e.job()]
				g.needed[needed.last] = newEdge(int32(i), e&(waits|runs))
				needed.last++
			}
		}
		from = end
	}
	g.inFlight = bitset.New(len(g.jobs))
	g.targets = record.TargetsOf(g.id, len(g.jobs))
}

// nobody is the index of a job that there is not, in the edges.
const nobody = 1<<(32-edgeBits) - 1

// needs are the jobs that one needs or waits for, each once.
func (g *group) needs(i int) (all []edge) {
	spec := &g.specs[i]
	index := func(number int) int32 {
		if number < 1 || number > len(g.jobs) {
			return nobody
		}
		return int32(number - 1)
	}
	for _, u := range spec.Uses {
		switch {
		case u.Job == 0:
		case u.Run:
			all = append(all, newEdge(index(u.Job), runs))
		default:
			all = append(all, newEdge(index(u.Job), 0))
		}
	}
	uses := len(all)
	if uses+len(spec.Waits) < 2 {
		for _, n := range spec.Waits {
			all = append(all, newEdge(index(n), waits))
		}
		return all
	}
	for _, n := range spec.Waits {
		e := newEdge(index(n), waits)
		if !slices.ContainsFunc(all[:uses], func(u edge) bool { return u.job() == e.job() }) {
			all = append(all, e)
		}
	}
	// Where a job is used twice, once to run, it is that.
	slices.SortFunc(all, func(a, b edge) int {
		if a.job() != b.job() {
			return int(a.job()) - int(b.job())
		}
		return int(b) - int(a)
	})
	return slices.CompactFunc(all, func(a, b edge) bool { return a.job() == b.job() })
}

// users yields who needs a job.
func (g *group) users(i int32, yield func(edge)) {
	j := &g.jobs[i]
	for _, e := range g.needed[j.first:j.last] {
		yield(e)
	}
	for _, e := range g.more[i] {
		yield(e)
	}
}

// failFast reports whether nothing of the group is to begin after a failure.
func (g *group) failFast() bool { return g.triggered.FailFast }

// dispatches reports whether jobs of the group may begin.
func (g *group) dispatches() bool {
	return g.state == transition.Dispatching || g.state == transition.FailureCleanup
}

// stopping reports whether a job of the group that was lost is not tried again.
func (g *group) stopping() bool {
	return g.state == transition.Canceling || g.failFast() && g.counts[transition.JobFailed] > 0
}

// running is how many jobs workers have.
func (g *group) running() int { return g.inFlight.Len() }

// left is how many jobs have not ended.
func (g *group) left() int {
	return len(g.jobs) - g.counts[transition.Built] - g.counts[transition.JobFailed] - g.counts[transition.DependencyFailed] - g.counts[transition.CancelComplete]
}

// next is the attempt of an event of the group itself.
func (g *group) next(event string) int { return g.attempts[event] + 1 }
