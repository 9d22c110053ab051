// Package rundirs keeps the directories of the last runs in each place, and makes those of
// later runs of the others: to make files and remove them again costs more than to write them.
package rundirs

import (
	"sync"

	"github.com/deployster-go/deployster/control/runs"
)

// mostKept is of how many runs in a place the files are kept. What is retried again and
// again, or deployed all day, would fill a disk.
const mostKept = 5

// Kept are the directories of the runs of a process, by place, oldest first. All
// revisions of an environment on a host are one place.
type Kept struct {
	spare spareDirs // those that are not kept any more

	mu sync.Mutex
	by map[string][]string
}

// SpareIn has directories that are not kept any more lie in one until they are needed again.
// Without it they are removed.
func (k *Kept) SpareIn(dir string) { k.spare.in = dir }

// Add keeps the files of a run, and no longer those of an earlier one where there are too
// many.
func (k *Kept) Add(place, dir string) {
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

// Begin gives a run the files of one in the same place that are not kept any more. end is
// called when the run is over.
func (k *Kept) Begin(place, dir string) (end func()) {
	if !k.spare.take(runs.AnyRevision(place), dir) {
		return func() {}
	}
	return func() { _ = trim(dir) } // at worst files stay that are empty
}

// Places is of how many places directories are kept.
func (k *Kept) Places() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.by)
}
