package reconcile

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Decision collects what may be done about one entity now.
type Decision[K comparable] struct {
	Now time.Time

	name     string
	slots    *slots[K]
	failures map[K]failure
	all      []*transition[K]
	most     int  // events
	whole    bool // every step is to be asked for
	passed   int  // work for which there was no room
	wake     time.Time
}

// scan is when every step of an entity was asked for, and how long that took.
type scan struct {
	ended time.Time
	took  time.Duration
}

// With all slots taken there is nothing to gain among thousands of steps that wait but
// what needs no work, and that is found near those that are being done, unless it is
// of another stage or revision. So every step is asked for whenever something comes from
// outside, and otherwise as often as costs a small part of the time.
const (
	scanPart = 20

	// scanMargin is how many steps that cannot be done are gone through, besides those
	// that are being done.
	scanMargin = 100
)

// Can reports whether work may begin: it is not being done, does not rest after a
// failure, and there is room. Where there is none the entity is decided about again
// when there is.
func (d *Decision[K]) Can(s Slot[K]) bool {
	f, failed := d.failures[s.Key]
	rests := failed && f.attempt == s.Attempt && f.rests(d.Now)
	if rests {
		d.wake = Earlier(d.wake, f.until)
	}
	if rests || !d.slots.can(d.name, s) {
		d.passed++
		return false
	}
	return true
}

// Begin reserves the slots of work that Can begin. It begins when the events of the
// transition are recorded that it is Added with.
func (d *Decision[K]) Begin(w *Work[K]) *Work[K] {
	w.Entity = d.name
	d.slots.begin(w)
	return w
}

// Add adds what is recorded at once, and the work that begins then.
func (d *Decision[K]) Add(events []deploylog.Event, works ...*Work[K]) {
	d.all = append(d.all, &transition[K]{Observation: Observation{d.name, events}, works: works})
	d.most -= max(1, len(events))
}

// Added reports whether anything was added.
func (d *Decision[K]) Added() bool { return len(d.all) > 0 }

// Full reports whether enough was added for now.
func (d *Decision[K]) Full() bool { return d.most <= 0 }

// Enough reports whether there is no use in asking for more steps.
func (d *Decision[K]) Enough() bool {
	return !d.whole && d.slots.free <= 0 && d.passed > len(d.slots.keys)+scanMargin
}

// Load is how many slots of a host are taken.
func (d *Decision[K]) Load(host string) int { return d.slots.taken(host) }

// Free is how many of the slots of the loop are free.
func (d *Decision[K]) Free() int { return d.slots.free }

// WakeAt has the entity decided about again at a time, unless that has passed.
func (d *Decision[K]) WakeAt(at time.Time) {
	if at.After(d.Now) {
		d.wake = Earlier(d.wake, at)
	}
}

// Slot is where work is to be done.
type Slot[K comparable] struct {
	Key       K      // two with the same key are not done at once
	Host      string // where it needs a slot; "" is nowhere
	Unslotted bool   // it needs none of the loop's slots, for it only waits
	Attempt   int    // failures count for one attempt

	// Holder is who holds the slot of the host, from its first work there until Release: all
	// of its work there takes one slot, also between two works. The zero value is nobody:
	// the slot is free again when the work ends.
	Holder K
}

// held reports whether somebody holds the slot of the host.
func (s *Slot[K]) held() bool {
	var nobody K
	return s.Holder != nobody
}

// slots are what work needs to begin: one of the loop's, and one of its host.
// An entity that finds none waits for it in line.
type slots[K comparable] struct {
	free   int
	onHost func(host string) int
	busy   map[string]int        // work by host, but for that of holders
	held   map[string]map[K]bool // holders by host
	of     map[string]int        // and by entity
	keys   map[K]bool            // what is worked on

	line  OrderedSet[string]             // entities that wait for a slot of the loop
	lines map[string]*OrderedSet[string] // and for one of a host
	freed map[string]bool                // hosts with a line on which there may be a slot
}

func newSlots[K comparable](free int, onHost func(string) int) slots[K] {
	return slots[K]{
		free: free, onHost: onHost, busy: map[string]int{}, held: map[string]map[K]bool{}, of: map[string]int{}, keys: map[K]bool{},
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
	case w.Host != "" && !s.roomOn(w.Host, w.Holder):
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
	switch {
	case w.held():
		s.hold(w.Host, w.Holder)
	case w.Host != "":
		s.busy[w.Host]++
	}
	if !w.Unslotted {
		s.free--
	}
}

// roomOn reports whether a host has a slot for somebody, who may hold one already.
func (s *slots[K]) roomOn(host string, holder K) bool {
	return s.held[host][holder] || s.taken(host) < s.onHost(host)
}

// taken is how many slots of a host are.
func (s *slots[K]) taken(host string) int { return s.busy[host] + len(s.held[host]) }

func (s *slots[K]) hold(host string, holder K) {
	if s.held[host] == nil {
		s.held[host] = map[K]bool{}
	}
	s.held[host][holder] = true
}

// release gives back the slot of a host that somebody holds.
func (s *slots[K]) release(host string, holder K) {
	if delete(s.held[host], holder); len(s.held[host]) == 0 {
		delete(s.held, host)
	}
	if s.lines[host] != nil {
		s.freed[host] = true
	}
}

func (s *slots[K]) end(w *Work[K]) {
	delete(s.keys, w.Key)
	if s.of[w.Entity]--; s.of[w.Entity] <= 0 {
		delete(s.of, w.Entity)
	}
	s.giveBack(w)
}

// giveBack gives back the slots of work, unless that happened before.
func (s *slots[K]) giveBack(w *Work[K]) {
	if w.freed {
		return
	}
	w.freed = true
	if !w.held() {
		if s.busy[w.Host]--; s.busy[w.Host] <= 0 {
			delete(s.busy, w.Host)
		}
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
		line, n := s.lines[host], max(0, s.onHost(host)-s.taken(host))
		if names = append(names, line.First(n)...); line.Len() == 0 {
			delete(s.lines, host)
		}
		if n == 0 || line.Len() == 0 {
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
