package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Machine is what is folded from the events of one name.
type Machine interface {
	Apply(e deploylog.Event)
	Head() int64
}

// Kind is what machines of one kind have in common.
type Kind[S Machine] struct {
	One, Many string                                // what people call them; many names the decide lock, too
	NameOf    func(deploylog.Target) (string, bool) // whose event it is
	Begins    string                                // the event that begins one
	Begin     func(name string) S
	Exists    func(S) bool // it is not deleted
	Missing   error        // wrapped where nothing has a name
	Remedy    string       // the command that makes the first
}

// Fold is all machines of a kind, folded from the events of a log. It is safe for
// concurrent use.
//
// They change under a lock of the log, the decide lock, whoever changes them: what is
// decided under it from the newest events still holds when it is appended.
type Fold[S Machine] struct {
	Kind[S]
	Now         func() time.Time
	Subscribers []func(deploylog.Event) // receive every event of the log, one at a time
	States      map[string]S

	log      deploylog.Log
	mu       sync.Mutex
	head     int64
	newest   time.Time    // of the event at head
	own      bool         // what is applied was appended by this fold
	snapshot *snapshot[S] // nil is none
	ahead    error        // why the log lacks what was folded, so that nothing is of use any more
}

// NewFold returns a fold that knows nothing until it Follows.
func NewFold[S Machine](of Kind[S], log deploylog.Log, now func() time.Time, subscribers []func(deploylog.Event)) *Fold[S] {
	return &Fold[S]{Kind: of, log: log, Now: now, States: map[string]S{}, Subscribers: subscribers}
}

// Follow folds what was appended since the last time, up to an event; 0 is all.
// Nothing changes in any other way.
func (f *Fold[S]) Follow(ctx context.Context, until int64) (err error) {
	f.Locked(func() {
		f.restore(ctx, until)
		err = f.catchUp(ctx, until)
	})
	if err == nil && until == 0 {
		f.keep(ctx)
	}
	return err
}

// catchUp is Follow for who Holds.
func (f *Fold[S]) catchUp(ctx context.Context, until int64) error {
	if f.ahead != nil || until > 0 && until <= f.head {
		return f.ahead
	}
	for e, err := range f.log.Read(ctx, deploylog.Filter{After: f.head, Until: until}) {
		if err != nil {
			return fmt.Errorf("reading the %s' events: %w", f.Many, err)
		}
		f.apply(e)
	}
	return nil
}

func (f *Fold[S]) apply(e deploylog.Event) {
	f.head, f.newest = e.Seq, e.CreatedAt
	if name, ok := f.NameOf(e.Target); ok {
		s, known := f.States[name]
		if !known && e.Name == f.Begins {
			s, known = f.Begin(name), true
			f.States[name] = s
		}
		if known {
			s.Apply(e)
			f.note(e)
		}
	}
	for _, notify := range f.Subscribers {
		notify(e)
	}
}

// Locked calls do while nothing is followed.
func (f *Fold[S]) Locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// Head is the last event that was folded.
func (f *Fold[S]) Head() (head int64) {
	f.Locked(func() { head = f.head })
	return head
}

// All yields those that there ever were, sorted by name. Nothing is followed until the
// last was yielded, and a state must not be kept.
func (f *Fold[S]) All() iter.Seq2[string, S] {
	return func(yield func(string, S) bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(f.States)) {
			if !yield(name, f.States[name]) {
				return
			}
		}
	}
}

// Present are the names of those that are not deleted, sorted.
func (f *Fold[S]) Present() (names []string) {
	for name, s := range f.All() {
		if f.Exists(s) {
			names = append(names, name)
		}
	}
	return names
}

// Get is what a function makes of the state that has the name, which it must not keep.
func Get[S Machine, T any](f *Fold[S], name string, of func(S) T) (value T, err error) {
	err = f.Ask(name, func(s S) error {
		value = of(s)
		return nil
	})
	return value, err
}

// Ask calls ask with the state that has the name, which it must not keep.
func (f *Fold[S]) Ask(name string, ask func(S) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.Find(name)
	if err != nil {
		return err
	}
	return ask(s)
}

// Find is the state that has the name, for who is called by Ask, Change, Hold or Locked: it
// sees all states as of the same event.
func (f *Fold[S]) Find(name string) (S, error) {
	s, ok := f.States[name]
	if !ok {
		return s, f.unknown(name)
	}
	return s, nil
}

// unknown is the error about a name that nothing has. It tells the names there
// are, of many those that begin most like it.
func (f *Fold[S]) unknown(name string) error {
	const many = 10
	names, others := slices.Sorted(maps.Keys(f.States)), ""
	if len(names) == 0 {
		return fmt.Errorf("%w: %q; there is none yet: %s", f.Missing, name, f.Remedy)
	}
	if n := len(names); n > many {
		slices.SortStableFunc(names, func(a, b string) int { return alike(b, name) - alike(a, name) })
		names, others = names[:many], fmt.Sprintf(" and %d others", n-many)
	}
	return fmt.Errorf("%w: %q; there are %s%s", f.Missing, name, strings.Join(names, ", "), others)
}

// alike is how many bytes two names begin with.
func alike(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Change appends what change makes of the newest state, and returns it. Nothing
// else of the kind changes until change returns, so it must neither wait for people nor
// call back. create lets it begin a name that there is not yet.
func (f *Fold[S]) Change(ctx context.Context, name string, create bool, change func(S) ([]deploylog.Event, error)) (written []deploylog.Event, err error) {
	err = f.Hold(ctx, func() error {
		s, ok := f.States[name]
		if !ok {
			if !create {
				return f.unknown(name)
			}
			s = f.Begin(name)
		}
		events, err := change(s)
		if err != nil || len(events) == 0 {
			return err
		}
		written, err = f.Append(ctx, events)
		return err
	})
	return written, err
}

// Commanded is a log that records no events for others, but has commands sent to who decides
// what they come to.
type Commanded interface {
	// Command sends a command for what has a name of a kind. It fails with ErrMoved where
	// asOf is not 0 and what it was made for has changed since that event.
	Command(ctx context.Context, kind, name string, command any, asOf int64) ([]deploylog.Event, error)
}

// ErrMoved is wrapped where a command was made for what has changed since.
var ErrMoved = errors.New("it has changed since")

// Send sends a command, and follows what comes of it, where the log takes commands. sent is
// false where it takes events.
func (f *Fold[S]) Send(ctx context.Context, name string, command any, asOf int64) (written []deploylog.Event, sent bool, err error) {
	to, sends := f.log.(Commanded)
	if !sends {
		return nil, false, nil
	}
	written, err = to.Command(ctx, f.Many, name, command, asOf)
	if err == nil {
		err = f.Follow(ctx, 0)
	}
	return written, true, err
}

// Hold calls do with the newest states, which nobody else changes until it returns.
func (f *Fold[S]) Hold(ctx context.Context, do func() error) error {
	unlock, err := f.log.Lock(ctx, f.Many)
	if err != nil {
		return fmt.Errorf("locking the %s: %w", f.Many, err)
	}
	defer unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restore(ctx, 0)
	if err := f.catchUp(ctx, 0); err != nil {
		return err
	}
	return do()
}

// Append appends, and folds that. It need not be read back, but for what others
// appended in between.
func (f *Fold[S]) Append(ctx context.Context, events []deploylog.Event) ([]deploylog.Event, error) {
	written, err := f.log.Append(ctx, events...)
	if err != nil {
		return nil, refusedError(events, err)
	}
	if before := written[0].Seq - 1; before > f.head {
		if err := f.catchUp(ctx, before); err != nil {
			return written, err
		}
	}
	f.applyOwn(written)
	return written, nil
}

// applyOwn applies what this fold has appended.
func (f *Fold[S]) applyOwn(events []deploylog.Event) {
	f.own = true
	defer func() { f.own = false }()
	for _, e := range events {
		f.apply(e)
	}
}

// refusedError says which events were not appended.
func refusedError(events []deploylog.Event, err error) error {
	return fmt.Errorf("deployment log: %s of %s: %w", events[0].Name, events[0].Target, err)
}

// AppendThen appends events and what decide makes of the states that these lead to, and of those that
// that leads to, until it makes nothing: at once, where the log can do that. Where what decide returns is
// refused, it returns what is before that and an error. Where all is lost, the states are of no use any
// more, and whatever depends on them fails.
func (f *Fold[S]) AppendThen(ctx context.Context, events []deploylog.Event, decide func() []deploylog.Event) ([]deploylog.Event, error) {
	log, can := f.log.(deploylog.ThenAppender)
	if !can {
		return f.appendEach(ctx, events, decide)
	}
	newest := events // of what this appends
	var unread error // why it could not be decided
	folded := false
	written, err := log.AppendThen(ctx, events, func(placed []deploylog.Event) []deploylog.Event {
		if unread = f.catchUp(ctx, placed[0].Seq-1); unread != nil {
			return nil
		}
		folded = true
		others := len(placed) - len(newest)
		for _, e := range placed[:others] {
			if e.Seq > f.head {
				f.apply(e)
			}
		}
		f.applyOwn(placed[others:])
		newest = decide()
		return newest
	})
	switch {
	case len(written) == 0 && folded:
		f.ahead = refusedError(events, err)
		return nil, f.ahead
	case len(written) == 0:
		return nil, refusedError(events, err)
	case unread != nil:
		return written, unread
	case err != nil:
		return written, refusedError(newest, err)
	}
	return written, nil
}

// appendEach is AppendThen where the log takes only what is decided already.
func (f *Fold[S]) appendEach(ctx context.Context, events []deploylog.Event, decide func() []deploylog.Event) (all []deploylog.Event, err error) {
	for len(events) > 0 {
		written, err := f.Append(ctx, events)
		if all = append(all, written...); err != nil {
			return all, err
		}
		events = decide()
	}
	return all, nil
}
