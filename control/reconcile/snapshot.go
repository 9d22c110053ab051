package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
)

// Needs says what of the events of a log is still needed, so that folding these alone gives
// what folding all of them gave.
type Needs[S Machine] struct {
	// Of returns what is needed of an event that was applied to a machine, with less data
	// where not all of that is.
	Of func(s S, e deploylog.Event) (deploylog.Event, bool)

	// Others are those of other targets that the subscribers need, in any order; may be nil:
	// they need none.
	Others func() []deploylog.Event

	Name    string // of the snapshot; "" is that of the kind
	Version int    // of its form, which tells what is needed
	After   int    // new events for which a snapshot is made anew, at least; 0 is some thousands
}

// States says how machines are kept whole, of which it depends on all that ever happened how
// they are. Subscribers receive an event of each machine that is restored, whose time is that
// of the newest event of the log.
type States[S Machine] struct {
	Target func(name string) deploylog.Target

	// Copy copies a machine, while nothing is followed. What it returns encodes the copy, while
	// others follow again.
	Copy    func(S) (encode func() (json.RawMessage, error))
	Restore func(name string, data json.RawMessage) (S, error)

	Version int // of the form of what Copy encodes
	After   int // as of Needs
}

// restored is the event of a machine in a snapshot of whole machines. No log has it.
const restored = "restored"

// snapshot is what a fold needs of its log. It is kept beside the log, and the next fold
// begins with it, so that it costs what has changed since and not all that ever happened.
type snapshot[S Machine] struct {
	Needs[S]
	states *States[S] // nil where events are kept
	log    deploylog.SnapshotLog
	events []deploylog.Event // of machines, what is not needed any more among them
	most   int               // of those, before what is not needed is left out
	kept   int64             // up to which event the snapshot is that is kept
	size   int               // how many events that has, or are read in about the time in which it is written
	makes  bool              // one is being made
	failed error             // why the last one could not be kept
}

const (
	snapshotSpare = 8192 // events that are not needed any more and not left out yet
	snapshotAfter = 4096 // new events, which are read in less time than a program takes to start
	snapshotBytes = 512  // of a whole machine, which are written in about the time in which an event is read
)

// KeepSnapshots has the fold begin with a snapshot, and keep one, where its log can. It is
// called before the fold follows. Folds whose snapshots have the same name need the same.
func (f *Fold[S]) KeepSnapshots(needs Needs[S]) {
	if needs.After == 0 {
		needs.After = snapshotAfter
	}
	needs.Name = deploylog.SnapshotName(cmp.Or(needs.Name, f.Many), needs.Version)
	if log, ok := f.log.(deploylog.SnapshotLog); ok {
		f.snapshot = &snapshot[S]{Needs: needs, log: log, most: snapshotSpare}
	}
}

// KeepStates has the fold begin with a snapshot of whole machines, and keep one, where its log
// can. It is called before the fold follows.
func (f *Fold[S]) KeepStates(states States[S]) {
	f.KeepSnapshots(Needs[S]{Version: states.Version, After: states.After})
	if f.snapshot != nil {
		f.snapshot.states = &states
	}
}

// SpareSnapshots leaves it to others to keep snapshots, beside whom a fold is only one more
// that follows: it begins with one, and keeps none, which would take the time of its pass.
func (f *Fold[S]) SpareSnapshots() {
	if f.snapshot != nil {
		f.snapshot.After = math.MaxInt
	}
}

// restore has a fold that knows nothing begin with a snapshot, unless that is of a later
// time than is asked for.
func (f *Fold[S]) restore(ctx context.Context, until int64) {
	if f.snapshot == nil || f.head > 0 {
		return
	}
	s, ok := f.snapshot.log.Snapshot(ctx, f.snapshot.Name)
	if !ok || until > 0 && s.Seq > until {
		return
	}
	if f.snapshot.states != nil && !f.restoreStates(s.Events) {
		return
	} else if f.snapshot.states == nil {
		for _, e := range s.Events {
			f.apply(e)
		}
	}
	f.head, f.snapshot.kept, f.snapshot.size = s.Seq, s.Seq, sizeOf(s.Events)
}

// sizeOf is the size of a snapshot, see there.
func sizeOf(events []deploylog.Event) int {
	bytes := 0
	for _, e := range events {
		if e.Name == restored {
			bytes += len(e.Data)
		}
	}
	return len(events) + bytes/snapshotBytes
}

// restoreStates has the machines be as they were; ok is false where one cannot be read, and
// nothing has changed then.
func (f *Fold[S]) restoreStates(events []deploylog.Event) (ok bool) {
	all := map[string]S{}
	for _, e := range events {
		name, is := f.NameOf(e.Target)
		if !is || e.Name != restored {
			return false
		}
		s, err := f.snapshot.states.Restore(name, e.Data)
		if err != nil {
			return false
		}
		all[name] = s
	}
	for _, e := range events {
		name, _ := f.NameOf(e.Target)
		f.States[name], f.newest = all[name], e.CreatedAt
		for _, notify := range f.Subscribers {
			notify(e)
		}
	}
	return true
}

// copyStates copies the machines, and returns what encodes them as the events of a snapshot.
func (f *Fold[S]) copyStates() func() ([]deploylog.Event, error) {
	var encode []func() (json.RawMessage, error)
	var events []deploylog.Event
	for name, s := range f.States {
		encode = append(encode, f.snapshot.states.Copy(s))
		events = append(events, deploylog.Event{Seq: s.Head(), Target: f.snapshot.states.Target(name), Name: restored, CreatedAt: f.newest})
	}
	return func() (_ []deploylog.Event, err error) {
		for i := range events {
			if events[i].Data, err = encode[i](); err != nil {
				return nil, err
			}
			encode[i] = nil // the copy is not needed any more
		}
		return events, nil
	}
}

// copyEvents copies the events that are needed.
func (f *Fold[S]) copyEvents() func() ([]deploylog.Event, error) {
	f.leaveOut()
	events := slices.Clone(f.snapshot.events)
	if f.snapshot.Others != nil {
		events = append(events, f.snapshot.Others()...)
	}
	return func() ([]deploylog.Event, error) { return events, nil }
}

// note takes note of an event that a machine has applied.
func (f *Fold[S]) note(e deploylog.Event) {
	s := f.snapshot
	if s == nil || s.states != nil {
		return
	}
	if s.events = append(s.events, e); len(s.events) >= s.most {
		f.leaveOut()
	}
}

// leaveOut leaves out what is not needed any more.
func (f *Fold[S]) leaveOut() {
	needed := f.snapshot.events[:0]
	for _, e := range f.snapshot.events {
		name, _ := f.NameOf(e.Target)
		if e, ok := f.snapshot.Of(f.States[name], e); ok {
			needed = append(needed, e)
		}
	}
	clear(f.snapshot.events[len(needed):])
	f.snapshot.events, f.snapshot.most = needed, 2*len(needed)+snapshotSpare
}

// due returns what keeps a snapshot, of how all is now, where much has changed since the one that
// is kept; nil where that is not so. What it returns must be called, and without the lock: to
// encode a snapshot, and to write it, takes long. That it cannot be kept, such as beside a log
// that is only read, costs time alone.
func (f *Fold[S]) due() (keep func(ctx context.Context)) {
	s := f.snapshot
	if s == nil || s.makes || f.head-s.kept < int64(max(s.After, s.size/2)) {
		return nil
	}
	of := f.copyEvents
	if s.states != nil {
		of = f.copyStates
	}
	copied, head := of(), f.head
	s.makes, s.kept = true, head
	return func(ctx context.Context) {
		events, err := copied()
		if err == nil {
			slices.SortStableFunc(events, func(a, b deploylog.Event) int { return cmp.Compare(a.Seq, b.Seq) })
			events = slices.CompactFunc(events, func(a, b deploylog.Event) bool { return a.Seq == b.Seq })
			err = s.log.KeepSnapshot(ctx, s.Name, deploylog.Snapshot{Seq: head, Events: events})
		}
		if ctx.Err() != nil {
			err = nil // nobody waits for it any more, and nothing is wrong
		}
		size := sizeOf(events)
		f.Locked(func() { s.makes, s.size, s.failed = false, size, err })
	}
}

// keep keeps a snapshot if one is due.
func (f *Fold[S]) keep(ctx context.Context) {
	var keep func(context.Context)
	f.Locked(func() { keep = f.due() })
	if keep != nil {
		keep(ctx)
	}
}

// keepSnapshot has a snapshot be kept if one is due, for who comes after this process was killed.
// It says why none can be: once, until one is kept again.
func (l *Loop[S, K]) keepSnapshot() {
	var keep func(context.Context)
	var failed error
	l.Fold.Locked(func() {
		if keep = l.Fold.due(); l.Fold.snapshot != nil {
			failed = l.Fold.snapshot.failed
		}
	})
	if failed != nil && !l.unkept {
		l.notice("no snapshot of the %s can be kept, so that every process that begins reads all of the log: %v", l.Fold.Many, failed)
	}
	l.unkept = failed != nil
	if keep != nil {
		l.Go(func(ctx context.Context) func() {
			keep(ctx)
			return func() {}
		})
	}
}
