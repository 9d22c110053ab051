package work

import (
	"sync"

	"github.com/deployster-go/deployster/control/gc"
	"github.com/deployster-go/deployster/control/runs"
)

// mostKept is of how many runs in a place the files are kept. What is retried again and
// again, or deployed all day, would fill a disk.
const mostKept = 5

// keptFiles are the directories of the runs of a process, by place, oldest first. All
// revisions of an environment on a host are one place.
type keptFiles struct {
	mu sync.Mutex
	by map[string][]string
}

// add keeps the files of a run, and removes those of an earlier one where there are too
// many.
func (k *keptFiles) add(place, dir string) {
	place = runs.AnyRevision(place)
	k.mu.Lock()
	if k.by == nil {
		k.by = map[string][]string{}
	}
	dirs := append(k.by[place], dir)
	many := max(0, len(dirs)-mostKept)
	k.by[place] = dirs[many:]
	k.mu.Unlock()
	for _, old := range dirs[:many] {
		_ = gc.RemoveRun(old) // at worst it stays
	}
}
