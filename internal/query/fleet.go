package query

import (
	"cmp"
	"slices"

	"github.com/deployster-go/deployster/build"
)

// WorkerStatus is a worker that may do the jobs of a group, or does one.
type WorkerStatus struct {
	Name   string
	Slots  int  // jobs that it does at once; 0 where that is not known
	Busy   int  // jobs that it does, of all groups
	Silent bool // it does not answer
	Jobs   []build.JobReport
}

// WorkersOf are the workers of a group: those first that do its jobs, then those that do not answer.
// With no workers, as where the past is asked for, they are those that do its jobs.
func (b *Builds) WorkersOf(group BuildStatus, workers build.Workers) (all []WorkerStatus, err error) {
	at := map[string]int{}
	known := func(name string) *WorkerStatus {
		i, ok := at[name]
		if !ok {
			i = len(all)
			at[name], all = i, append(all, WorkerStatus{Name: name})
		}
		return &all[i]
	}
	if workers != nil && !group.State.Ended() {
		for _, place := range group.Places {
			for _, w := range workers(place) {
				known := known(w.Name)
				known.Slots, known.Silent = w.Slots, w.Silent
			}
		}
	}
	for _, j := range group.Running {
		of := known(j.Worker)
		of.Jobs = append(of.Jobs, j)
	}
	current := b.Current()
	err = b.State(func(s *build.State) error {
		for _, id := range current {
			of, err := s.Report(id)
			if err != nil {
				return err
			}
			for _, j := range of.Running {
				if i, ok := at[j.Worker]; ok {
					all[i].Busy++
				}
			}
		}
		return nil
	})
	rank := func(w WorkerStatus) int {
		switch {
		case len(w.Jobs) > 0:
			return 0
		case w.Silent:
			return 1
		default:
			return 2
		}
	}
	slices.SortFunc(all, func(a, b WorkerStatus) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name)) })
	return all, err
}
