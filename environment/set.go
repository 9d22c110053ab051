package environment

import (
	"container/heap"
	"iter"
	"math/bits"
	"time"
)

// set is a set of indexes of hosts, in order.
type set []uint64

func (s *set) add(i int) {
	for len(*s) <= i/64 {
		*s = append(*s, 0)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

func (s set) remove(i int) {
	if i/64 < len(s) {
		s[i/64] &^= 1 << (i % 64)
	}
}

func (s set) empty() bool {
	for _, word := range s {
		if word != 0 {
			return false
		}
	}
	return true
}

func (s set) all() iter.Seq[int] {
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

// alarms tells which hosts are to be looked at again because time has passed. An
// alarm whose host was looked at since is of no interest any more.
type timerQueue []timer

type timer struct {
	at         time.Time
	host       int
	generation int // of the host when it was set
}

func (a timerQueue) Len() int           { return len(a) }
func (a timerQueue) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a timerQueue) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }

// Push and Pop are for package heap.
func (a *timerQueue) Push(x any) { *a = append(*a, x.(timer)) }

// Pop takes the last away.
func (a *timerQueue) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// next is the first alarm that still is of interest.
func (a *timerQueue) next(of func(timer) bool) (timer, bool) {
	for len(*a) > 0 {
		if first := (*a)[0]; of(first) {
			return first, true
		}
		heap.Pop(a)
	}
	return timer{}, false
}
