package reconcile

import (
	"container/heap"
	"time"
)

// DelayQueue tells what is due when. The zero value is empty.
type DelayQueue[K comparable] struct {
	at    map[K]time.Time
	dates dates[K] // those that at does not have are of no interest any more
}

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
		heap.Push(&t.dates, date[K]{at, key})
	}
	const slack = 64
	if len(t.dates) > 2*len(t.at)+slack {
		t.dates = t.dates[:0]
		for key, at := range t.at {
			t.dates = append(t.dates, date[K]{at, key})
		}
		heap.Init(&t.dates)
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
		heap.Pop(&t.dates)
	}
	return time.Time{}
}

// Take returns one that is due, and is not any more then.
func (t *DelayQueue[K]) Take(now time.Time) (key K, ok bool) {
	at := t.Next()
	if at.IsZero() || at.After(now) {
		return key, false
	}
	key = t.dates[0].key
	delete(t.at, key)
	return key, true
}

// Earlier is the first of two times, of which zero is never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

type date[K comparable] struct {
	at  time.Time
	key K
}

// dates implements heap.Interface.
type dates[K comparable] []date[K]

func (d dates[K]) Len() int           { return len(d) }
func (d dates[K]) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d dates[K]) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dates[K]) Push(x any)        { *d = append(*d, x.(date[K])) }
func (d *dates[K]) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}
