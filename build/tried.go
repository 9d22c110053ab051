package build

import (
	"encoding/json"
	"slices"

	"github.com/deployster-go/deployster/build/compact"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
)

// tries are the changes that follow from what Ended has returned and is not applied yet.
type tries struct {
	all      []tried
	foreseen []foreseen // what was returned of jobs that were built
	kept     int        // of all: those whose events were applied
	applied  int        // of foreseen
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

// foreseen is an event that was returned and whose changes are tried: where this very event is
// applied next, they are kept, and not made again.
type foreseen struct {
	name     string
	target   deploylog.Target
	data     json.RawMessage
	attempt  int32
	job      int32
	g        *group
	from, to int32          // of the tries
	outcome  record.Outcome // of one by which a job is finished
}

// is reports whether an event is the one that was returned.
func (f *foreseen) is(e *deploylog.Event) bool {
	return len(e.Data) == len(f.data) && &e.Data[0] == &f.data[0] && e.Attempt == int(f.attempt) && e.Name == f.name && e.Target == f.target
}

// try changes the state of a job until tries are taken back. So the consequences of several
// results are those of all of them together.
func (s *State) try(g *group, i int32, to transition.Job) {
	s.tries.all = append(s.tries.all, tried{g: g, job: i, state: g.jobs[i].state, then: to})
	if g.jobs[i].state.InFlight() {
		g.jobs[i].asked = true
	}
	g.move(i, to)
}

// tryGroup changes the state of a group until tries are taken back.
func (s *State) tryGroup(g *group, to transition.Group) {
	s.tries.all = append(s.tries.all, tried{g: g, job: -1, group: g.state, after: to})
	g.state = to
}

// keep keeps what was tried of an event that is applied; it reports false where the event is
// not the next that was foreseen.
func (s *State) keep(e *deploylog.Event) bool {
	t := &s.tries
	if t.applied == len(t.foreseen) {
		return false
	}
	f := &t.foreseen[t.applied]
	if int(f.from) != t.kept || !f.is(e) {
		return false
	}
	f.g.stalled = false
	if e.Name == record.JobFinished {
		f.g.jobs[f.job].asked = false
		s.applyFinished(f.g, f.job, e, &f.outcome)
	}
	for _, t := range t.all[f.from:f.to] {
		j := &t.g.jobs[t.job]
		j.since, j.seq = compact.MomentOf(e.CreatedAt), e.Seq
	}
	t.kept, t.applied = int(f.to), t.applied+1
	if t.kept == len(t.all) {
		s.takeBack() // of which there is nothing left
	}
	return true
}

// takeBack takes all tries back that are not kept.
func (s *State) takeBack() {
	for _, t := range slices.Backward(s.tries.all[s.tries.kept:]) {
		if t.job < 0 {
			t.g.state = t.group
			continue
		}
		t.g.move(t.job, t.state)
		if t.state.InFlight() {
			t.g.jobs[t.job].asked = false
		}
	}
	s.tries = tries{all: s.tries.all[:0], foreseen: s.tries.foreseen[:0]}
}

// recorded takes all tries back while somebody asks how it is, and returns how to try them
// again.
func (s *State) recorded() (again func()) {
	tries := slices.Clone(s.tries.all[s.tries.kept:])
	s.takeBack()
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
