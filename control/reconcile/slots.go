package reconcile

// slots are what work needs to begin: one of the loop's, and one of its host.
// An entity that finds none waits for it in line.
type slots[K comparable] struct {
	free   int
	onHost func(host string) int
	busy   map[string]int // work by host
	of     map[string]int // and by entity
	keys   map[K]bool     // what is worked on

	line  OrderedSet[string]             // entities that wait for a slot of the loop
	lines map[string]*OrderedSet[string] // and for one of a host
	freed map[string]bool                // hosts with a line on which there may be a slot
}

func newSlots[K comparable](free int, onHost func(string) int) slots[K] {
	return slots[K]{
		free: free, onHost: onHost, busy: map[string]int{}, of: map[string]int{}, keys: map[K]bool{},
		lines: map[string]*OrderedSet[string]{}, freed: map[string]bool{},
	}
}

// can reports whether there is room for work on an entity. Where there is none, that
// is in line then.
func (s *slots[K]) can(entity string, w Slot[K]) bool {
	switch {
	case s.keys[w.Key]:
		return false
	case s.free <= 0 && !w.Unslotted:
		s.line.Add(entity)
		return false
	case w.Host != "" && s.busy[w.Host] >= s.onHost(w.Host):
		line := s.lines[w.Host]
		if line == nil {
			line = &OrderedSet[string]{}
			s.lines[w.Host] = line
		}
		line.Add(entity)
		return false
	}
	return true
}

func (s *slots[K]) begin(w *Work[K]) {
	s.keys[w.Key] = true
	s.of[w.Entity]++
	if w.Host != "" {
		s.busy[w.Host]++
	}
	if !w.Unslotted {
		s.free--
	}
}

func (s *slots[K]) end(w *Work[K]) {
	delete(s.keys, w.Key)
	if s.of[w.Entity]--; s.of[w.Entity] <= 0 {
		delete(s.of, w.Entity)
	}
	if s.busy[w.Host]--; s.busy[w.Host] <= 0 {
		delete(s.busy, w.Host)
	}
	if !w.Unslotted {
		s.free++
	}
	if s.lines[w.Host] != nil {
		s.freed[w.Host] = true
	}
}

// room reports whether there may be room for somebody in line.
func (s *slots[K]) room() bool { return s.free > 0 && s.line.Len()+len(s.freed) > 0 }

// next removes those from the lines for whom there may be room now: not more than
// there is room for, so that a long line does not cost more at each end of work.
func (s *slots[K]) next() (names []string) {
	if s.free <= 0 {
		return nil
	}
	names = s.line.First(s.free)
	for host := range s.freed {
		line := s.lines[host]
		n := s.onHost(host) - s.busy[host]
		if n <= 0 {
			delete(s.freed, host)
			continue
		}
		names = append(names, line.First(n)...)
		if line.Len() == 0 {
			delete(s.lines, host)
			delete(s.freed, host)
		}
	}
	return names
}

// changed lets those that wait for slots of hosts see whether there are more now.
func (s *slots[K]) changed() {
	for host := range s.lines {
		s.freed[host] = true
	}
}
