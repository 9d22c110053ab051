// Package heap keeps values of which the first, by an order of their own, is
// always at hand: nodes that are ready, timers that are due.
package heap

// Heap holds values; the one at index 0 comes before all others. The zero value is
// empty.
type Heap[T interface{ Before(T) bool }] []T

// Push adds a value.
func (h *Heap[T]) Push(value T) {
	*h = append(*h, value)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s[i].Before(s[parent]) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

// Pop removes the first value, which must exist, and returns it.
func (h *Heap[T]) Pop() T {
	s := *h
	first, last := s[0], len(s)-1
	s[0] = s[last]
	var zero T
	s[last] = zero // so that nothing it refers to is kept
	s = s[:last]
	*h = s
	for i := 0; ; {
		next := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s); child++ {
			if s[child].Before(s[next]) {
				next = child
			}
		}
		if next == i {
			return first
		}
		s[i], s[next] = s[next], s[i]
		i = next
	}
}
