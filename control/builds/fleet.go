package builds

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/inventory"
)

// Workers are where jobs are done.
type Workers interface {
	// Workers are those that there are at present. It is asked each second, by one goroutine,
	// and connects to nothing.
	Workers() ([]inventory.Host, error)

	// Look asks the engine of a worker for which platforms it builds. It fails when that
	// does not answer, or cannot serve.
	Look(ctx context.Context, name string) (platforms []string, err error)

	// Identity is what the inventory of the workers is known as at present; "" is none.
	Identity() string
}

const (
	// lookEvery is how often the engine of a worker is asked whether it answers.
	lookEvery = 30 * time.Second

	// looksAtOnce is how many engines are asked at once.
	looksAtOnce = 64

	// patience is how long engines have to answer at first before those are used that have, so
	// that not the first to answer gets all jobs.
	patience = time.Second

	// hopeless is after how many failures in a row a worker is not waited for any more by
	// who works until nothing is left to do: a bit more than half a minute.
	hopeless = 6
)

// fleet is the workers that are known. A worker is used when its engine answers, and rests
// after a job was lost there.
type fleet struct {
	Workers
	now    func() time.Time
	notice func(format string, args ...any)

	known   map[string]*worker
	order   []*worker                 // as in the inventory
	serving map[record.Place]*servers // what was found for places, until something changes
	next    time.Time                 // when a worker is due, the first; zero is never
	looking int
	first   time.Time       // when it was first known which there are
	of      string          // the inventory
	others  map[string]bool // inventories of which it was noticed that their groups are left alone
	stale   bool            // it is to be found out which there are
	trouble string          // the last, with that
}

// worker is a host that jobs may be done on.
type worker struct {
	inventory.Host
	platforms []string // of its engine
	seen      bool     // its engine was asked at least once
	looking   bool     // it is being asked
	err       error    // why it is not used; nil is none
	failures  int      // to answer, in a row
	losses    int      // of jobs, in a row
	due       time.Time
	stale     bool // it lost a job while it was being asked
	gone      bool // it is not in the inventory any more
}

// servers are the workers that serve a place, in a ring: of those that are equally busy
// each has its turn.
type servers struct {
	workers []*worker
	turn    int
}

// slots is how many jobs may be done on a host at once. On one that is not known nothing is
// begun; what was begun there is waited for.
func (f *fleet) slots(name string) int {
	w := f.known[name]
	if w == nil {
		return math.MaxInt
	}
	return max(1, w.Slots)
}

// refresh finds out which workers there are, and reports whether others than before. When
// that cannot be found out those stay that are known.
func (f *fleet) refresh() (changed bool) {
	if !f.stale {
		return false
	}
	f.stale = false
	f.distrustClock()
	hosts, err := f.Workers.Workers()
	if err != nil {
		if text := err.Error(); text != f.trouble {
			f.trouble = text
			f.notice("going on with the workers that are known: %v", err)
		}
		return false
	}
	f.trouble = ""
	if of := f.Identity(); of != f.of {
		f.of, f.others, f.serving = of, nil, nil
		changed = true
	}
	if slices.EqualFunc(hosts, f.order, func(h inventory.Host, w *worker) bool { return sameHost(h, w.Host) && h.Slots == w.Slots }) {
		return changed
	}
	if len(hosts) == 0 && len(f.order) > 0 {
		f.notice("there are no workers any more: nothing begins until there are")
	}
	if f.first.IsZero() {
		f.first = f.now()
	}
	before := f.known
	f.known, f.order = make(map[string]*worker, len(hosts)), nil
	for _, h := range hosts {
		w := before[h.Name]
		if w == nil || !sameHost(h, w.Host) {
			w = &worker{Host: h, due: f.now()}
		}
		delete(before, h.Name)
		w.Slots = h.Slots
		f.known[h.Name] = w
		f.order = append(f.order, w)
	}
	for _, w := range before {
		w.gone = true
	}
	f.schedule()
	return true
}

// distrustClock has workers asked now that would be due too late, because the clock was set
// back.
func (f *fleet) distrustClock() {
	now := f.now()
	for _, w := range f.order {
		if w.due.Sub(now) > time.Minute {
			w.due = now
			f.next = now
		}
	}
}

// sameHost reports whether what is known of a host holds for another line about it.
func sameHost(a, b inventory.Host) bool {
	if a.Name != b.Name || a.Reach() != b.Reach() || !slices.Equal(a.Platforms, b.Platforms) || len(a.Attributes) != len(b.Attributes) {
		return false
	}
	for key, values := range a.Attributes {
		if !slices.Equal(values, b.Attributes[key]) {
			return false
		}
	}
	return true
}

// schedule finds out when the next worker is due, and forgets what was found for places.
func (f *fleet) schedule() {
	f.serving, f.next = nil, time.Time{}
	for _, w := range f.order {
		if !w.looking {
			f.next = reconcile.Earlier(f.next, w.due)
		}
	}
}

// due are the workers whose engines are to be asked now.
func (f *fleet) due() (due []*worker) {
	now := f.now()
	if f.next.IsZero() || f.next.After(now) {
		return nil
	}
	for _, w := range f.order {
		if f.looking >= looksAtOnce {
			break
		}
		if !w.looking && !w.due.After(now) {
			w.looking = true
			f.looking++
			due = append(due, w)
		}
	}
	f.schedule()
	if f.looking >= looksAtOnce {
		f.next = time.Time{} // until one of them has answered
	}
	return due
}

// looked notes what an engine answered, and reports whether another worker is used now, or
// one less.
func (f *fleet) looked(w *worker, platforms []string, err error) (changed bool) {
	f.looking--
	w.looking = false
	if stale := w.stale; stale || w.gone {
		w.stale = false
		f.schedule()
		return false
	}
	before, seen := w.err, w.seen
	w.seen, w.err = true, err
	switch {
	case err != nil:
		w.failures++
		w.due = f.now().Add(reconcile.Pause(w.failures))
		if before == nil || before.Error() != err.Error() {
			f.notice("worker %s is not used: %v; it is tried again", w.Name, err)
		}
	default:
		if before != nil {
			f.notice("worker %s is used again", w.Name)
		}
		w.failures, w.due = 0, f.now().Add(lookEvery)
	}
	changed = !seen || (before == nil) != (err == nil) || !slices.Equal(w.platforms, platforms)
	w.platforms = platforms
	f.schedule()
	return changed
}

// seen reports whether it is known of each worker whether it can be used.
func (f *fleet) seen() bool {
	return !f.stale && !slices.ContainsFunc(f.order, func(w *worker) bool { return !w.seen })
}

// patience is until when engines are waited for that have not answered yet; zero is that none
// is.
func (f *fleet) patience() time.Time {
	if f.seen() {
		return time.Time{}
	}
	if f.first.IsZero() {
		return f.now().Add(patience)
	}
	return f.first.Add(patience)
}

// ended notes how a job ended on a worker, and reports whether that is not used any more: one
// that loses a job rests, for longer each time, and then has to answer first. Of several jobs
// that it loses at once only one counts.
func (f *fleet) ended(name string, r build.Result) (changed bool) {
	w := f.known[name]
	switch lost := r.Lost; {
	case w == nil:
	case lost == nil:
		w.losses = 0
	case lost.Mistaken || len(lost.Spoiled) > 0 || w.err != nil: // it is not the worker's fault, or known
	default:
		w.losses++
		pause := reconcile.Pause(w.losses)
		w.err, w.due = fmt.Errorf("it lost a job: %s", lost.Cause), f.now().Add(pause)
		w.stale = w.looking
		f.notice("worker %s rests for %s: %v", name, pause, w.err)
		f.schedule()
		return true
	}
	return false
}

// choose returns the least busy worker that serves a place and has room, "" when there is
// none. load is how many jobs are being done on a host.
func (f *fleet) choose(p record.Place, load func(host string) int) (name string) {
	ring := f.servers(p)
	least, chosen := 1.0, 0
	for i := range ring.workers {
		at := (ring.turn + i) % len(ring.workers)
		w := ring.workers[at]
		if w.err != nil || !w.seen {
			continue
		}
		busy := float64(load(w.Name)) / float64(max(1, w.Slots))
		if busy < least {
			least, name, chosen = busy, w.Name, at
		}
		if busy == 0 {
			break
		}
	}
	if name != "" {
		ring.turn = (chosen + 1) % len(ring.workers)
	}
	return name
}

// hoped reports whether there is a worker that serves a place, or would if it answered,
// unless that is hopeless.
func (f *fleet) hoped(p record.Place) bool {
	return slices.ContainsFunc(f.servers(p).workers, func(w *worker) bool { return w.failures < hopeless })
}

// servers are the workers that serve a place, as far as that is known.
func (f *fleet) servers(p record.Place) *servers {
	if known := f.serving[p]; known != nil {
		return known
	}
	found := &servers{}
	order := f.order
	if f.foreign(p) {
		f.leave(p.Inventory)
		order = nil
	}
	for _, w := range order {
		h := w.Host
		if len(h.Platforms) == 0 {
			h.Platforms = w.platforms
		}
		if Serves(h, p) {
			found.workers = append(found.workers, w)
		}
	}
	if f.serving == nil {
		f.serving = map[record.Place]*servers{}
	}
	f.serving[p] = found
	return found
}

// foreign reports whether a place is of another inventory: hosts of one are not those of
// another, also where they have the same names.
func (f *fleet) foreign(p record.Place) bool { return p.Inventory != "" && p.Inventory != f.of }

// leave notifies of that the groups of another inventory are left to who has that.
func (f *fleet) leave(inventory string) {
	if f.others[inventory] {
		return
	}
	if f.others == nil {
		f.others = map[string]bool{}
	}
	f.others[inventory] = true
	f.notice("build groups whose workers are of the inventory %s are left alone: %s; what helps is deployster build run with that inventory, which begins when this one has nothing of its own to do", inventory, f.here())
}

// here says which inventory is here.
func (f *fleet) here() string {
	if f.of == "" {
		return "there is none here"
	}
	return "the one here is " + f.of
}

// Serves reports whether a host, whose platforms are known, may do the jobs of a place: no
// host does those of a query that cannot be read. A variant that a job does not say is any.
func Serves(h inventory.Host, p record.Place) bool {
	if p.Workers != "" {
		if q, err := inventory.ParseQuery(p.Workers); err != nil || !q.Match(h) {
			return false
		}
	}
	return slices.ContainsFunc(h.Platforms, func(has string) bool { return has == p.Platform || strings.HasPrefix(has, p.Platform+"/") })
}
