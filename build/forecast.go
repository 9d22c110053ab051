package build

import (
	"time"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/internal/heap"
)

// Forecast is when a group will have ended, if every job takes as long as it did last and
// succeeds, and nothing older is submitted.
type Forecast struct {
	Group    string        `json:"group"`
	Jobs     int           `json:"jobs"`     // that are left
	Measured int           `json:"measured"` // jobs of the group of which it is known how long they take
	Ahead    int           `json:"ahead"`    // jobs that are left of older groups, which come first
	Work     time.Duration `json:"work"`     // of all jobs that are left, nanoseconds
	Path     time.Duration `json:"path"`     // of the longest chain of jobs that need each other
	Critical []int         `json:"critical"` // jobs of that
	Slots    int           `json:"slots"`    // at the places of the group
	Left     time.Duration `json:"left"`
	End      time.Time     `json:"end,omitzero"`
	Unserved []int         `json:"unserved,omitempty"`        // jobs that no worker serves, or that need such: the group will not end
	Unknown  string        `json:"workers_unknown,omitempty"` // why it is not known which workers there are, nor so when it ends
}

// Forecast is when a group will have ended. slots is how many jobs are built at once at a
// place.
func (s *State) Forecast(id string, now time.Time, slots func(record.Place) int) (Forecast, error) {
	defer s.recorded()()
	of, err := s.known(id)
	if err != nil {
		return Forecast{}, err
	}
	f := Forecast{Group: of.id, Critical: []int{}}
	m := simulation{State: s, free: make([]int, len(s.places)), now: now}
	for k, p := range s.places {
		m.free[k] = max(0, slots(p))
	}
	seen := map[int]bool{}
	for _, place := range of.serving() {
		if !seen[place] {
			f.Slots += m.free[place]
		}
		seen[place] = true
	}
	if of.state.Ended() || of.state == transition.Canceling || !of.linked() {
		return f, nil
	}
	for _, g := range s.groups {
		if g.at > of.at || g.state.Ended() || g.state == transition.Canceling || !g.linked() {
			continue
		}
		p := m.add(g)
		if g != of {
			f.Ahead += p.left
			continue
		}
		f.Jobs, f.Measured = p.left, p.known
		f.Path, f.Critical = g.critical(p.paths)
		for i := range g.jobs {
			if !g.jobs[i].state.Ended() {
				f.Work += p.durations[i]
			}
		}
	}
	m.run()
	last := m.groups[len(m.groups)-1]
	f.Left, f.End = last.end, now.Add(last.end)
	for i := range of.jobs {
		if !last.done[i] && !of.jobs[i].state.Ended() {
			f.Unserved = append(f.Unserved, i+1)
		}
	}
	if len(f.Unserved) > 0 {
		f.End = time.Time{}
	}
	return f, nil
}

// linked reports whether the jobs of the group are known.
func (g *group) linked() bool { return g.inFlight.Made() }

// critical are the longest chain of jobs that need or wait for each other, and how long that
// takes.
func (g *group) critical(paths []time.Duration) (length time.Duration, chain []int) {
	chain = []int{}
	at := int32(-1)
	for i := range g.jobs {
		if !g.jobs[i].state.Ended() && paths[i] > length {
			at, length = int32(i), paths[i]
		}
	}
	for at >= 0 {
		chain = append(chain, int(at)+1)
		next := int32(-1)
		j := &g.jobs[at]
		for _, e := range g.needed[j.first:j.last] {
			if n := e.job(); n > at && (next < 0 || paths[n] > paths[next]) && !g.jobs[n].state.Ended() {
				next = n
			}
		}
		at = next
	}
	return length, chain
}

// simulation is how jobs will be built.
type simulation struct {
	*State
	now     time.Time
	free    []int // slots, by place
	groups  []*projected
	running heap.Heap[expected]
}

// projected is a group as it will go on.
type projected struct {
	*group
	durations, paths []time.Duration
	known, left      int
	unmet            []int32
	done             []bool
	eligible         map[int]*heap.Heap[turn] // by place
	end              time.Duration
}

// turn is a job that may begin.
type turn struct {
	path time.Duration
	job  int32
}

// Before reports whether a job has its turn before another.
func (t turn) Before(o turn) bool {
	if t.path != o.path {
		return t.path > o.path
	}
	return t.job < o.job
}

// expected is when a job will have ended.
type expected struct {
	at    time.Duration
	g     *projected
	job   int32
	place int
}

// Before reports whether a job ends before another.
func (e expected) Before(o expected) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	return e.g.at < o.g.at || e.g == o.g && e.job < o.job
}

// add adds a group, younger than those that were added before.
func (m *simulation) add(g *group) *projected {
	p := &projected{group: g, unmet: make([]int32, len(g.jobs)), done: make([]bool, len(g.jobs)), eligible: map[int]*heap.Heap[turn]{}}
	p.durations, p.known = m.durations(g)
	p.paths = g.paths(p.durations)
	m.groups = append(m.groups, p)
	for i := range g.jobs {
		j := &g.jobs[i]
		p.unmet[i] = j.unmet
		switch {
		case j.state.Ended():
		case j.state.InFlight():
			p.left++
			place := g.places[g.placeOf(int32(i))]
			m.free[place] = max(0, m.free[place]-1)
			m.running.Push(expected{max(0, p.durations[i]-max(0, m.now.Sub(j.began.Time()))), p, int32(i), place})
		default:
			p.left++
			if j.unmet == 0 && j.broken == 0 {
				p.offer(int32(i))
			}
		}
	}
	return p
}

// offer has a job begin as soon as it is its turn.
func (p *projected) offer(i int32) {
	place := p.places[p.placeOf(i)]
	if p.eligible[place] == nil {
		p.eligible[place] = &heap.Heap[turn]{}
	}
	p.eligible[place].Push(turn{p.paths[i], i})
}

// run goes on until nothing can begin any more.
func (m *simulation) run() {
	at := time.Duration(0)
	for {
		for _, p := range m.groups {
			for place, of := range p.eligible {
				for m.free[place] > 0 && len(*of) > 0 {
					i := of.Pop().job
					m.free[place]--
					m.running.Push(expected{at + p.durations[i], p, i, place})
				}
			}
		}
		if len(m.running) == 0 {
			return
		}
		e := m.running.Pop()
		at = e.at
		m.free[e.place]++
		e.g.end, e.g.done[e.job] = max(e.g.end, at), true
		e.g.users(e.job, func(u edge) {
			if e.g.unmet[u.job()]--; e.g.unmet[u.job()] == 0 && e.g.jobs[u.job()].broken == 0 && !e.g.jobs[u.job()].state.Ended() {
				e.g.offer(u.job())
			}
		})
	}
}
