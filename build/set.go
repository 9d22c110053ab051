package build

import "math/bits"

// set is a set of indexes below a bound. Those in it are found in their order, however few
// of them there are: a bit of a level says that a word of the level below is not 0.
type set struct {
	levels [][]uint64
	size   int // how many are in it
}

func newSet(bound int) (s set) {
	for n := bound; ; {
		n = (n + 63) / 64
		s.levels = append(s.levels, make([]uint64, n))
		if n <= 1 {
			return s
		}
	}
}

func (s *set) has(i int) bool { return s.levels[0][i/64]&(1<<(i%64)) != 0 }

func (s *set) add(i int) {
	if s.has(i) {
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

func (s *set) remove(i int) {
	if !s.has(i) {
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

// next is the first index that is in the set and not below i, -1 without one.
func (s *set) next(i int) int {
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
