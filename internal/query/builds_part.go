package query

import (
	"cmp"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/deploylog"
)

// BuildsAt answers questions about build groups that somebody else follows, as of the time of
// the newest event.
func BuildsAt(all *builds.Builds, log deploylog.Log, newest time.Time) *Builds {
	return &Builds{Builds: all, Log: log, last: newest}
}

// ByID is the groups that are in a state, by their ids; zero is any.
func (b *Builds) ByID(state transition.Group) []build.Summary {
	var states []transition.Group
	if state != transition.NoGroup {
		states = append(states, state)
	}
	groups := b.Groups(states...)
	slices.SortFunc(groups, func(a, b build.Summary) int { return cmp.Compare(a.ID, b.ID) })
	return groups
}

// JobsAfter are up to limit jobs of a group after a number, that are in a state; zero is any,
// where no more than these are read of what the group has.
func (b *Builds) JobsAfter(group string, number, limit int, state transition.Job) (jobs []build.JobReport, err error) {
	err = b.State(func(s *build.State) error {
		id, err := s.Find(group)
		if err != nil {
			return err
		}
		if state != transition.NoJob {
			all, err := s.Jobs(id, state)
			all = all[sort.Search(len(all), func(i int) bool { return all[i].Number > number }):]
			jobs = all[:min(limit, len(all))]
			return err
		}
		for n := max(0, number) + 1; len(jobs) < limit; n++ {
			j, err := s.Job(id, n)
			if errors.Is(err, build.ErrNoJob) {
				break
			}
			if err != nil {
				return err
			}
			jobs = append(jobs, j)
		}
		return nil
	})
	return jobs, err
}
