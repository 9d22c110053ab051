package build

import (
	"time"

	"github.com/deployster-go/deployster/build/compact"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/reusable"
	"github.com/deployster-go/deployster/build/transition"
)

// reader reads what a writer wrote.
type reader struct{ *compact.Reader }

func (r reader) hash() record.Hash {
	h, ok := record.HashFrom(r.Text())
	r.Require(ok)
	return h
}

// restoreLasted restores how long jobs of groups of a name took, of which one gives the
// indexes.
func (s *State) restoreLasted(r reader, name string) {
	g := s.groupAt(r)
	l := &lasted{first: g}
	for range r.Count() {
		l.took = append(l.took, time.Duration(r.Number()))
	}
	if !r.Require(g.name == name && g.lasted == nil && s.took[name] == nil && len(l.took) >= len(g.jobs)) {
		return
	}
	s.took[name], g.lasted, g.timed = l, l, len(g.jobs)
	for i := range g.jobs {
		g.jobs[i].occurrence = int32(i)
	}
	for i := len(g.jobs); i < len(l.took) && !r.Bad; i++ {
		o := occurrence{r.Text(), int(r.Number())}
		r.Require(l.index()[o] == 0)
		l.at[o] = int32(i) + 1
	}
}

// restoreFound restores what was built of some inputs.
func (s *State) restoreFound(r reader) {
	g, i := s.groupAt(r), int32(r.Number())
	if !r.Require(g.has(i)) {
		return
	}
	flag := r.Flags()
	f := reusable.Artifact{Group: int32(g.at), Job: i, Unpushed: flag()}
	if follows := flag(); follows {
		end := record.OutcomeOf(g.jobs[i].ended)
		f.Inputs, f.Artifact, f.Seq = end.Inputs, record.HashOf(end.Artifact), g.jobs[i].seq
	} else {
		f.Inputs, f.Artifact, f.Seq = r.hash(), r.hash(), r.Number()
	}
	s.reusable.Set(f)
}

// restoreGroup adds a group. Who needs whom, and all that is counted, is found anew.
func (s *State) restoreGroup(r reader) (g *group, timed bool) {
	g = &group{at: len(s.groups), id: r.Text(), name: r.Text(), state: transition.Group(r.Number()), notes: map[note]int{}}
	r.JSON(&g.triggered)
	r.JSON(&g.created)
	r.JSON(&g.canceling)
	for range r.Count() {
		at := int(r.Number())
		r.Require(at >= 0 && at < len(s.places))
		g.places = append(g.places, at)
	}
	r.JSON(&g.attempts)
	for range r.Count() {
		g.notes[note{int32(r.Number()), r.Text()}] = int(r.Number())
	}
	g.reused = int(r.Number())
	flag := r.Flags()
	timed, ordered := flag(), flag()
	g.stalled, g.cause, g.seq = flag(), r.Text(), r.Number()
	g.createdAt, g.startedAt, g.endedAt = r.Moment(), r.Moment(), r.Moment()
	states := restoreJobs(r, g)
	known := g.state >= transition.Triggered && g.state <= transition.Canceled && g.attempts != nil && s.byID[g.id] == nil
	if !r.Require(known && (ordered || !g.state.Runs()) && (len(g.jobs) == 0 || len(g.places) > 0)) {
		return g, false
	}
	s.relink(r, g, ordered)
	linked := g.state != transition.Triggered && g.state != transition.Created
	for i, state := range states {
		if r.Require(state >= transition.Pending && state <= transition.CancelComplete && (linked || state == transition.Pending)) {
			g.move(int32(i), state)
		}
	}
	return g, timed
}

// relink adds a group whose jobs have not moved yet, and finds who needs whom.
func (s *State) relink(r reader, g *group, ordered bool) {
	s.groups, s.byID[g.id] = append(s.groups, g), g
	s.byName[g.name] = append(s.byName[g.name], g)
	s.list(g, transition.NoGroup)
	if g.state != transition.Triggered && g.state != transition.Created {
		g.link()
	}
	r.moreEdges(g)
	if ordered && r.ranks(g) {
		g.enqueueAll()
	}
}

// restoreJobs adds the jobs of a group, which have not moved yet, and returns their states.
func restoreJobs(r reader, g *group) (states []transition.Job) {
	for range r.Count() {
		g.add([]record.JobSpec{r.spec()})
		j := &g.jobs[len(g.jobs)-1]
		states = append(states, transition.Job(r.Number()))
		flag := r.Flags()
		j.backingOff, j.reused = flag(), flag()
		hasItsEnd := flag()
		j.attempt, j.lost, j.rebuilt, j.because = int32(r.Number()), int32(r.Number()), int32(r.Number()), int32(r.Number())
		j.rank, j.excused = int32(r.Number()), int32(r.Number())
		if !hasItsEnd {
			j.artifact = r.Text()
		}
		j.started, j.ended = r.Data(), r.Data()
		j.began, j.since, j.seq = compact.MomentOf(r.Moment()), compact.MomentOf(r.Moment()), r.Number()
		if hasItsEnd {
			j.artifact = record.OutcomeOf(j.ended).Artifact
		}
		if r.Bad {
			return nil
		}
	}
	return states
}

func (r reader) spec() (spec record.JobSpec) {
	spec.Package, spec.Version, spec.Pass, spec.Of = r.Text(), r.Text(), int(r.Number()), int(r.Number())
	for range r.Count() {
		u := record.Use{Package: r.Text(), Job: int(r.Number()), Artifact: r.Text()}
		u.Run = r.Flags()()
		spec.Uses = append(spec.Uses, u)
	}
	for range r.Count() {
		spec.Waits = append(spec.Waits, int(r.Number()))
	}
	spec.Place, spec.Recipe, spec.Inputs = int(r.Number()), int(r.Number()), r.Text()
	return spec
}

// moreEdges adds who needs whom since an artifact was missing. No job is Built yet, so that
// all of them are waited for.
func (r reader) moreEdges(g *group) {
	lists := func() (all map[int32][]int32) {
		for range r.Count() {
			i := int32(r.Number())
			for range r.Count() {
				of := int32(r.Number())
				if !r.Require(g.has(i) && g.has(of)) {
					return nil
				}
				if all == nil {
					all = map[int32][]int32{}
				}
				all[i] = append(all[i], of)
			}
		}
		return all
	}
	for i, users := range lists() {
		if g.more == nil {
			g.more = map[int32][]edge{}
		}
		for _, user := range users {
			g.more[i] = append(g.more[i], newEdge(user, 0))
			g.jobs[user].unmet++
		}
	}
	g.lacks = lists()
}

// ranks reports whether the ranks of jobs are those of an order.
func (r reader) ranks(g *group) bool {
	seen := make([]bool, len(g.jobs))
	for i := range g.jobs {
		rank := g.jobs[i].rank
		if !r.Require(g.has(rank) && !seen[rank]) {
			return false
		}
		seen[rank] = true
	}
	return true
}

// enqueueAll makes the queues of a group anew, whose jobs have their ranks.
func (g *group) enqueueAll() {
	order := make([]int32, len(g.jobs))
	for i := range g.jobs {
		order[g.jobs[i].rank] = int32(i)
	}
	g.queue(order)
}
