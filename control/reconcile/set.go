package reconcile

import "slices"

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

// Pop removes the first member and returns it.
func (s *OrderedSet[K]) Pop() (first K) {
	first, s.members = s.members[0], s.members[1:]
	delete(s.has, first)
	return first
}

// Take removes all members and returns them.
func (s *OrderedSet[K]) Take() (all []K) {
	all, s.members = s.members, nil
	clear(s.has)
	return all
}

// First removes up to n members from the front and returns them.
func (s *OrderedSet[K]) First(n int) (first []K) {
	n = min(n, len(s.members))
	first, s.members = s.members[:n:n], s.members[n:]
	for _, m := range first {
		delete(s.has, m)
	}
	return first
}

// Has reports whether something is a member.
func (s *OrderedSet[K]) Has(m K) bool { return s.has[m] }

// All returns the members.
func (s *OrderedSet[K]) All() []K { return slices.Clone(s.members) }

// Remove removes a member.
func (s *OrderedSet[K]) Remove(m K) {
	if s.has[m] {
		delete(s.has, m)
		s.members = slices.DeleteFunc(s.members, func(other K) bool { return other == m })
	}
}
