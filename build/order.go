package build

import (
	"cmp"
	"slices"
	"time"

	"github.com/deployster-go/deployster/build/bitset"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
)

// lasted is how long the jobs of groups of one name took last. The first of these groups
// gives the indexes, for many a name has no other.
type lasted struct {
	took  []time.Duration // 0 is not known
	first *group          // whose jobs are the first of took
	at    map[occurrence]int32
}

// occurrence is a package in a pass.
type occurrence struct {
	name string
	pass int
}

func occurrenceOf(spec *record.JobSpec) occurrence { return occurrence{spec.Package, spec.Pass} }

// index are the indexes in took by what was built.
func (l *lasted) index() map[occurrence]int32 {
	if l.at == nil {
		l.at = make(map[occurrence]int32, len(l.first.specs))
		for i := range l.first.timed {
			if o := occurrenceOf(&l.first.specs[i]); l.at[o] == 0 {
				l.at[o] = int32(i) + 1
			}
		}
	}
	return l.at
}

// of is how long a job of a group took last, 0 where that is not known.
func (l *lasted) of(g *group, i int) time.Duration {
	if i < g.timed {
		return l.took[g.jobs[i].occurrence]
	}
	if l == nil {
		return 0
	}
	if at := l.index()[occurrenceOf(&g.specs[i])]; at > 0 {
		return l.took[at-1]
	}
	return 0
}

// lasting is how long the jobs of groups with the name of one took last, among which each of
// its jobs has an index then. All of its jobs are known.
func (s *State) lasting(g *group) *lasted {
	if g.lasted != nil {
		return g.lasted
	}
	if g.lasted = s.took[g.name]; g.lasted == nil {
		g.lasted = &lasted{took: make([]time.Duration, len(g.jobs)), first: g}
		s.took[g.name] = g.lasted
		for i := range g.jobs {
			g.jobs[i].occurrence = int32(i)
		}
		g.timed = len(g.jobs)
		return g.lasted
	}
	last, index := g.lasted, g.lasted.index()
	for ; g.timed < len(g.jobs); g.timed++ {
		o := occurrenceOf(&g.specs[g.timed])
		at := index[o]
		if at == 0 {
			last.took = append(last.took, 0)
			at = int32(len(last.took))
			index[o] = at
		}
		g.jobs[g.timed].occurrence = at - 1
	}
	return g.lasted
}

// durations are how long jobs will take: as long as they did last, those of which this is not
// known as long as half of the others, and without any a second. known is how many are.
func (s *State) durations(g *group) (all []time.Duration, known int) {
	last := s.took[g.name]
	all = make([]time.Duration, len(g.jobs))
	measured := make([]time.Duration, 0, len(g.jobs))
	for i := range g.jobs {
		if took := last.of(g, i); took > 0 {
			all[i] = took
			measured = append(measured, took)
		}
	}
	if known = len(measured); known == len(all) {
		return all, known
	}
	median := time.Second
	if known > 0 {
		slices.Sort(measured)
		median = measured[known/2]
	}
	for i := range all {
		if all[i] == 0 {
			all[i] = median
		}
	}
	return all, known
}

// paths are how long it takes at least from the begin of each job until the last is built
// that needs or waits for it. Jobs that are Built take no time.
func (g *group) paths(durations []time.Duration) []time.Duration {
	paths := make([]time.Duration, len(g.jobs))
	for i := len(g.jobs) - 1; i >= 0; i-- {
		j := &g.jobs[i]
		longest := time.Duration(0)
		for _, e := range g.needed[j.first:j.last] {
			if int(e.job()) > i { // which it is, unless somebody wrote the log by hand
				longest = max(longest, paths[e.job()])
			}
		}
		if j.state != transition.Built {
			longest += durations[i]
		}
		paths[i] = longest
	}
	return paths
}

// order puts the jobs of a group that starts into the order in which they are dispatched: the
// longest remaining path first, then by their numbers.
func (s *State) order(g *group) {
	s.lasting(g)
	s.reusable.Grow(len(g.jobs))
	durations, _ := s.durations(g)
	paths := g.paths(durations)
	type path struct {
		length time.Duration
		job    int32
	}
	sorted := make([]path, len(paths))
	for i, length := range paths {
		sorted[i] = path{length, int32(i)}
	}
	slices.SortFunc(sorted, func(a, b path) int {
		return cmp.Or(cmp.Compare(b.length, a.length), cmp.Compare(a.job, b.job))
	})
	order := make([]int32, len(sorted))
	for rank, p := range sorted {
		order[rank] = p.job
	}
	g.queue(order)
}

// queue puts the jobs of a group into its queues.
func (g *group) queue(order []int32) {
	g.queues = make([]queue, len(g.places))
	for rank, i := range order {
		j := &g.jobs[i]
		j.rank, j.queue = int32(rank), int32(g.placeOf(i))
		q := &g.queues[j.queue]
		j.position = int32(len(q.jobs))
		q.jobs = append(q.jobs, i)
	}
	for k := range g.queues {
		g.queues[k].eligible = bitset.New(len(g.queues[k].jobs))
	}
}

// placeOf is the index of the place of a job; the last is that of jobs without one.
func (g *group) placeOf(i int32) int {
	if at := g.specs[i].Place; at >= 0 && at < len(g.places) {
		return at
	}
	return len(g.places) - 1
}
