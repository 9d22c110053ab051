// Package bitset has sets of small numbers, of which the next is found at once.
package bitset

import "math/bits"

// Set is a set of indexes below a bound. Those in it are found in their order, however few
// of them there are: a bit of a level says that a word of the level below is not 0.
type Set struct {
	levels [][]uint64
	size   int // how many are in it
}

// New is an empty set of indexes below a bound.
func New(bound int) (s Set) {
	for n := bound; ; {
		n = (n + 63) / 64
		s.levels = append(s.levels, make([]uint64, n))
		if n <= 1 {
			return s
		}
	}
}

// Len is how many are in the set.
func (s *Set) Len() int { return s.size }

// Made reports whether the set was made with New.
func (s *Set) Made() bool { return len(s.levels) > 0 }

// Has reports whether an index is in the set.
func (s *Set) Has(i int) bool { return s.levels[0][i/64]&(1<<(i%64)) != 0 }

// Add adds an index.
func (s *Set) Add(i int) {
	if s.Has(i) {
		return
	}
	s.size++
	for _, level := range s.levels {
		was := level[i/64]
		level[i/64] |= 1 << (i % 64)
		if was != 0 {
			return
		}
		i /= 64
	}
}

// Remove removes an index.
func (s *Set) Remove(i int) {
	if !s.Has(i) {
		return
	}
	s.size--
	for _, level := range s.levels {
		if level[i/64] &^= 1 << (i % 64); level[i/64] != 0 {
			return
		}
		i /= 64
	}
}

// Next is the first index that is in the set and not below i, -1 without one.
func (s *Set) Next(i int) int {
	for up := 0; up < len(s.levels); up++ {
		if i/64 >= len(s.levels[up]) {
			return -1
		}
		word := s.levels[up][i/64] >> (i % 64)
		if word == 0 {
			i = i/64 + 1
			continue
		}
		i += bits.TrailingZeros64(word)
		for ; up > 0; up-- {
			i = i*64 + bits.TrailingZeros64(s.levels[up-1][i])
		}
		return i
	}
	return -1
}
