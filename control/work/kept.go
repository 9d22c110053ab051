package work

import (
	"sync"

	"github.com/deployster-go/deployster/control/runs"
)

// mostKept is of how many runs in a place the files are kept. What is retried again and
// again, or deployed all day, would fill a disk.
const mostKept = 5

// keptFiles are the directories of the runs of a process, by place, oldest first. All
// revisions of an environment on a host are one place.
type keptFiles struct {
	spare spareDirs // those that are not kept any more

	mu sync.Mutex
	by map[string][]string
}

// add keeps the files of a run, and no longer those of an earlier one where there are too
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
		k.spare.put(place, old)
	}
}

// begin gives a run the files of one in the same place that are not kept any more. end is
// called when the run is over.
func (k *keptFiles) begin(place, dir string) (end func()) {
	if !k.spare.take(runs.AnyRevision(place), dir) {
		return func() {}
	}
	return func() { _ = trim(dir) } // at worst files stay that are empty
}
