package build

import (
	"maps"
	"slices"

	"github.com/deployster-go/deployster/build/record"
)

// spoil takes note of the artifacts that are missing or altered: none of them is used again
// before it was built again.
func (s *State) spoil(j *job, data *record.Lost) {
	for _, digest := range data.Spoiled {
		s.spoiled[record.HashOf(digest)] = true
	}
	if data.Mistaken && len(data.Spoiled) == 0 {
		if f := s.reusable.Of(record.HashOf(decode[record.Started](j.started).Inputs)); f != nil {
			s.spoiled[f.Artifact] = true
		}
	}
}

// affected are the jobs that have not begun and wait for one or use it, directly or as what
// they use needs it to run. All that do not use it directly need it from now on themselves,
// also those that have begun or ended, for they may begin again. It is Built while this is
// asked.
func (g *group) affected(i int32) []int32 {
	all, indirect := g.usersOf(i)
	for _, user := range slices.Sorted(maps.Keys(indirect)) {
		if slices.Contains(g.lacks[user], i) {
			continue
		}
		if g.more == nil {
			g.more, g.lacks = map[int32][]edge{}, map[int32][]int32{}
		}
		g.more[i] = append(g.more[i], newEdge(user, 0))
		g.lacks[user] = append(g.lacks[user], i)
	}
	return all
}

// usersOf are the jobs that have not begun and wait for one or use it, in order, and which of
// all jobs use it only as what they use needs it to run.
func (g *group) usersOf(i int32) (all []int32, indirect map[int32]bool) {
	direct, indirect := map[int32]bool{}, map[int32]bool{}
	seen, listed := map[int32]bool{i: true}, map[int32]bool{}
	queue := []int32{i}
	for len(queue) > 0 {
		from := queue[0]
		queue = queue[1:]
		for _, e := range g.needed[g.jobs[from].first:g.jobs[from].last] {
			user := e.job()
			switch {
			case from != i && e&waits != 0:
				continue
			case from != i:
				indirect[user] = true
			case e&waits == 0:
				direct[user] = true
			}
			if g.jobs[user].state.Waiting() && !listed[user] {
				listed[user] = true
				all = append(all, user)
			}
			if e&(runs|waits) == runs && !seen[user] {
				seen[user] = true
				queue = append(queue, user)
			}
		}
	}
	slices.Sort(all)
	for user := range direct {
		delete(indirect, user)
	}
	return all, indirect
}
