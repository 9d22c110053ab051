package reconcile

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/internal/heap"
)

// OrderedSet is a set that keeps the order in which its members came. The zero
// value is empty.
type OrderedSet[K comparable] struct {
	members []K
	has     map[K]bool
}

// Add adds those that are not members.
func (s *OrderedSet[K]) Add(members ...K) {
	if s.has == nil {
		s.has = map[K]bool{}
	}
	for _, m := range members {
		if !s.has[m] {
			s.has[m] = true
			s.members = append(s.members, m)
		}
	}
}

// Len is the number of members.
func (s *OrderedSet[K]) Len() int { return len(s.members) }

// First removes up to n members from the front and returns them.
func (s *OrderedSet[K]) First(n int) (first []K) {
	n = min(n, len(s.members))
	first, s.members = s.members[:n:n], s.members[n:]
	for _, m := range first {
		delete(s.has, m)
	}
	return first
}

// Pop removes the first member and returns it.
func (s *OrderedSet[K]) Pop() K { return s.First(1)[0] }

// Take removes all members and returns them.
func (s *OrderedSet[K]) Take() []K { return s.First(len(s.members)) }

// remove removes some members.
func (s *OrderedSet[K]) remove(some ...K) {
	before := len(s.has)
	for _, m := range some {
		delete(s.has, m)
	}
	if len(s.has) < before {
		s.members = slices.DeleteFunc(s.members, func(m K) bool { return !s.has[m] })
	}
}

// DelayQueue holds what is due when. The zero value is empty.
type DelayQueue[K comparable] struct {
	at    map[K]time.Time
	dates heap.Heap[date[K]] // those that at does not have are of no interest any more
}

type date[K comparable] struct {
	at  time.Time
	key K
}

// Before reports whether a date is before another.
func (d date[K]) Before(other date[K]) bool { return d.at.Before(other.at) }

// Set makes something due at a time instead of any other; zero is never.
func (t *DelayQueue[K]) Set(key K, at time.Time) {
	switch was, ok := t.at[key]; {
	case ok && was.Equal(at) || !ok && at.IsZero():
		return
	case at.IsZero():
		delete(t.at, key)
	default:
		if t.at == nil {
			t.at = map[K]time.Time{}
		}
		t.at[key] = at
		t.dates.Push(date[K]{at, key})
	}
	const slack = 64
	if len(t.dates) > 2*len(t.at)+slack {
		t.dates = t.dates[:0]
		for key, at := range t.at {
			t.dates.Push(date[K]{at, key})
		}
	}
}

// At is when something is due, zero when never.
func (t *DelayQueue[K]) At(key K) time.Time { return t.at[key] }

// Next is when the first is due, zero when nothing is.
func (t *DelayQueue[K]) Next() time.Time {
	for len(t.dates) > 0 {
		first := t.dates[0]
		if at, ok := t.at[first.key]; ok && at.Equal(first.at) {
			return first.at
		}
		t.dates.Pop()
	}
	return never
}

// Take returns one that is due, and is not any more then.
func (t *DelayQueue[K]) Take(now time.Time) (key K, ok bool) {
	if at := t.Next(); at.IsZero() || at.After(now) {
		return key, false
	}
	key = t.dates[0].key
	delete(t.at, key)
	return key, true
}

var never time.Time

// Earlier is the first of two times, of which zero is never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
