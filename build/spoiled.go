package build

import (
	"slices"

	"github.com/deployster-go/deployster/build/record"
)

// spoil takes note of the artifacts that are missing or altered: none of them is used again
// before it was built again.
func (s *State) spoil(j *job, data *record.Lost) {
	for _, digest := range data.Spoiled {
		s.spoiled[digest] = true
	}
	if data.Mistaken && len(data.Spoiled) == 0 {
		if f, ok := s.reusable[decode[record.Started](j.started).Inputs]; ok {
			s.spoiled[f.artifact] = true
		}
	}
}

// affected are the jobs that have not begun and use one, directly or as what they use needs
// it to run. Those that do not use it directly need it from now on themselves. It is Built
// while this is asked.
func (g *group) affected(i int32) []int32 {
	users, all := g.usersOf(i)
	for _, user := range all {
		if users[user] || slices.Contains(g.lacks[user], i) {
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

// usersOf are the jobs that have not begun and use one, in order, and which of these do so
// directly.
func (g *group) usersOf(i int32) (direct map[int32]bool, all []int32) {
	direct = map[int32]bool{}
	seen, listed := map[int32]bool{i: true}, map[int32]bool{}
	queue := []int32{i}
	for len(queue) > 0 {
		from := queue[0]
		queue = queue[1:]
		for _, e := range g.needed[g.jobs[from].first:g.jobs[from].last] {
			user := e.job()
			if e&waits != 0 {
				continue
			}
			if from == i {
				direct[user] = true
			}
			if g.jobs[user].state.Waiting() && !listed[user] {
				listed[user] = true
				all = append(all, user)
			}
			if e&runs != 0 && !seen[user] {
				seen[user] = true
				queue = append(queue, user)
			}
		}
	}
	slices.Sort(all)
	return direct, all
}
