// Package reusable finds what was built of the same inputs before.
package reusable

import (
	"slices"

	"github.com/deployster-go/deployster/build/record"
)

// Artifact is what was built of some inputs.
type Artifact struct {
	Inputs     record.Hash
	next       int32 // of those that have a head in common, from 1
	Group, Job int32 // in the orders of all
	Seq        int64
	Unpushed   bool // by a job that failed because it could not be pushed
	Artifact   record.Hash
}

// Table is artifacts by the hashes of their inputs. There are many, and neither these nor what
// finds them have pointers, which the collector of garbage would follow. The zero value is empty.
type Table struct {
	all   []Artifact
	heads []int32 // by a part of the hash: the last of those that have it, from 1
}

const (
	minHeads = 64 // there are at least, and always a power of two
	headsPer = 2  // heads for an artifact, at least: most are alone at theirs
)

// Len is how many there are.
func (t *Table) Len() int { return len(t.all) }

// Grow makes room for so many more.
func (t *Table) Grow(n int) { t.all = slices.Grow(t.all, n) }

// Copy is a table of which the artifacts are the same, and which is not changed with this one.
func (t *Table) Copy() Table { return Table{all: slices.Clone(t.all)} }

// All are the artifacts, in the order of their inputs' first ones. They are not kept.
func (t *Table) All() []Artifact { return t.all }

// Of is what was built of some inputs, nil is nothing. It is not kept.
func (t *Table) Of(inputs record.Hash) *Artifact {
	if len(t.heads) == 0 {
		return nil
	}
	for i := *t.head(&inputs); i > 0; i = t.all[i-1].next {
		if a := &t.all[i-1]; a.Inputs == inputs {
			return a
		}
	}
	return nil
}

// Set notes what was built, in the place of what was built of the same inputs before.
func (t *Table) Set(a Artifact) {
	if of := t.Of(a.Inputs); of != nil {
		a.next = of.next
		*of = a
		return
	}
	t.all = append(t.all, a)
	if headsPer*len(t.all) <= len(t.heads) {
		t.link(len(t.all) - 1)
		return
	}
	t.heads = make([]int32, max(minHeads, 2*len(t.heads)))
	for i := range t.all {
		t.link(i)
	}
}

// head is that of those whose hashes have a part in common.
func (t *Table) head(inputs *record.Hash) *int32 {
	return &t.heads[inputs.Short()&uint64(len(t.heads)-1)]
}

// link has an artifact be found.
func (t *Table) link(i int) {
	head := t.head(&t.all[i].Inputs)
	t.all[i].next, *head = *head, int32(i+1)
}
