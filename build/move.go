package build

import (
	"slices"

	"github.com/deployster-go/deployster/build/transition"
)

// move brings a job into a state, and counts what that changes for those that need it.
func (g *group) move(i int32, to transition.Job) {
	j := &g.jobs[i]
	from := j.state
	if from == to {
		return
	}
	g.note(j, -1)
	j.state = to
	g.note(j, 1)
	g.counts[from]--
	g.counts[to]++
	switch {
	case to == transition.Eligible:
		g.enqueue(j)
	case from == transition.Eligible && len(g.queues) > 0:
		g.queues[j.queue].eligible.remove(int(j.position))
	}
	if is := to.InFlight(); is != from.InFlight() {
		if is {
			g.inFlight.add(int(i))
		} else {
			g.inFlight.remove(int(i))
		}
	}
	built, ended, unbuilt := change(from == transition.Built, to == transition.Built), change(from.Ended(), to.Ended()), change(from.Unbuilt(), to.Unbuilt())
	if built == 0 && ended == 0 {
		return
	}
	for _, e := range g.needed[j.first:j.last] {
		g.count(e, built, ended, unbuilt)
	}
	if len(g.more) > 0 {
		for _, e := range g.more[i] {
			g.count(e, built, ended, unbuilt)
		}
	}
}

// count counts for a job that what it needs has changed.
func (g *group) count(e edge, built, ended, unbuilt int32) {
	j := &g.jobs[e.job()]
	g.note(j, -1)
	if e&waits != 0 {
		j.unmet -= ended
	} else {
		j.unmet -= built
		j.broken += unbuilt
	}
	g.note(j, 1)
}

func change(before, after bool) int32 {
	switch {
	case before == after:
		return 0
	case after:
		return 1
	default:
		return -1
	}
}

// note counts a job among those of which something should be recorded.
func (g *group) note(j *job, by int) {
	switch {
	case j.broken > 0:
		if j.state.Waiting() {
			g.blocked += by
		}
	case j.unmet == 0 && (j.state == transition.Schedulable || j.state == transition.JobLost):
		g.ready += by
	}
}

// enqueue puts a job where it may be dispatched from, unless it rests.
func (g *group) enqueue(j *job) {
	if !j.resting && len(g.queues) > 0 {
		g.queues[j.queue].eligible.add(int(j.position))
	}
}

// tried is a change that is not recorded yet, and what was before it.
type tried struct {
	g     *group
	job   int32 // -1 is the group itself
	state transition.Job
	group transition.Group
	then  transition.Job // what was tried
	after transition.Group
}

// try changes the state of a job until tries are taken back. So the consequences of several
// results are those of all of them together.
func (s *State) try(g *group, i int32, to transition.Job) {
	s.tries = append(s.tries, tried{g: g, job: i, state: g.jobs[i].state, then: to})
	if g.jobs[i].state.InFlight() {
		g.jobs[i].asked = true
	}
	g.move(i, to)
}

// tryGroup changes the state of a group until tries are taken back.
func (s *State) tryGroup(g *group, to transition.Group) {
	s.tries = append(s.tries, tried{g: g, job: -1, group: g.state, after: to})
	g.state = to
}

// takeBack takes all tries back from the nth on.
func (s *State) takeBack(n int) {
	for len(s.tries) > n {
		t := s.tries[len(s.tries)-1]
		s.tries = s.tries[:len(s.tries)-1]
		if t.job < 0 {
			t.g.state = t.group
			continue
		}
		t.g.move(t.job, t.state)
		if t.state.InFlight() {
			t.g.jobs[t.job].asked = false
		}
	}
}

// recorded takes all tries back while somebody asks how it is, and returns how to try them
// again.
func (s *State) recorded() (again func()) {
	if len(s.tries) == 0 {
		return func() {}
	}
	tries := slices.Clone(s.tries)
	s.takeBack(0)
	return func() {
		for _, t := range tries {
			if t.job < 0 {
				s.tryGroup(t.g, t.after)
			} else {
				s.try(t.g, t.job, t.then)
			}
		}
	}
}
