package ordered

import (
	"iter"
	"math/bits"
)

// Set is a set of indexes of hosts, in order; nil is empty. A bit of its words is an index.
type Set []uint64

// Add puts an index into the set.
func (s *Set) Add(i int) {
	for len(*s) <= i/64 {
		*s = append(*s, 0)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

// Remove takes an index out of the set; of one that is not in it that is nothing.
func (s Set) Remove(i int) {
	if i/64 < len(s) {
		s[i/64] &^= 1 << (i % 64)
	}
}

// Empty reports whether the set has no index.
func (s Set) Empty() bool {
	for _, word := range s {
		if word != 0 {
			return false
		}
	}
	return true
}

// All yields the indexes, in order. The set may be changed meanwhile.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, word := range s {
			for ; word != 0; word &= word - 1 {
				if !yield(i*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}
