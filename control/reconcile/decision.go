package reconcile

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Decision collects what may be done about one entity now.
type Decision[K comparable] struct {
	Now time.Time

	name     string
	head     int64
	slots    *slots[K]
	failures map[K]failure
	all      []*transition[K]
	most     int  // events
	whole    bool // every step is to be asked for
	passed   int  // work for which there was no room
	wake     time.Time
}

// scan is how long it took to ask for every step of an entity.
type scan struct {
	tick  int
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

// Slot is where work is to be done.
type Slot[K comparable] struct {
	Key       K      // two with the same key are not done at once
	Host      string // where it needs a slot; "" is nowhere
	Unslotted bool   // it needs none of the loop's slots, for it only waits
	Attempt   int    // failures count for one attempt
}

// Can reports whether work may begin: it is not being done, does not rest after a
// failure, and there is room. Where there is none the entity is decided about again
// when there is.
func (d *Decision[K]) Can(s Slot[K]) bool {
	if f, ok := d.failures[s.Key]; ok && f.attempt == s.Attempt && f.rests(d.Now) {
		d.wake = Earlier(d.wake, f.until)
		d.passed++
		return false
	}
	if !d.slots.can(d.name, s) {
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
	d.all = append(d.all, &transition[K]{entity: d.name, head: d.head, events: events, works: works})
	d.most -= max(1, len(events))
}

// Full reports whether enough was added for now.
func (d *Decision[K]) Full() bool { return d.most <= 0 }

// Enough reports whether there is no use in asking for more steps.
func (d *Decision[K]) Enough() bool {
	return !d.whole && d.slots.free <= 0 && d.passed > len(d.slots.keys)+scanMargin
}

// WakeAt has the entity decided about again at a time, unless that has passed.
func (d *Decision[K]) WakeAt(at time.Time) {
	if at.After(d.Now) {
		d.wake = Earlier(d.wake, at)
	}
}
