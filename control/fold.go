package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// machine is what is folded from the events of one name.
type machine interface {
	Apply(e deploylog.Event)
	Head() int64
}

// species is what machines of one kind have in common.
type species[S machine] struct {
	one, many string                                // what people call them; many is the gate, too
	nameOf    func(deploylog.Target) (string, bool) // whose event it is
	begins    string                                // the event that begins one
	begin     func(name string) S
	missing   error  // wrapped where nothing has a name
	remedy    string // the command that makes the first
}

// fold is all machines of a kind, folded from the events of a log. It is safe for
// concurrent use.
//
// They change under a lock of the log, the gate, whoever changes them: what is
// decided under it from the newest events still holds when it is appended.
type fold[S machine] struct {
	species[S]
	log deploylog.Log
	now func() time.Time

	mu     sync.Mutex
	states map[string]S
	head   int64
	told   []func(deploylog.Event)
}

func newFold[S machine](of species[S], log deploylog.Log, now func() time.Time, told []func(deploylog.Event)) *fold[S] {
	return &fold[S]{species: of, log: log, now: now, states: map[string]S{}, told: told}
}

// Follow takes note of what was appended since the last time, up to an event;
// 0 is all. Nothing changes in any other way.
func (f *fold[S]) Follow(ctx context.Context, until int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.follow(ctx, until)
}

func (f *fold[S]) follow(ctx context.Context, until int64) error {
	for e, err := range f.log.Read(ctx, deploylog.Filter{After: f.head, Until: until}) {
		if err != nil {
			return fmt.Errorf("reading the %s' events: %w", f.many, err)
		}
		f.note(e)
	}
	return nil
}

func (f *fold[S]) note(e deploylog.Event) {
	f.head = e.Seq
	f.apply(e)
	for _, tell := range f.told {
		tell(e)
	}
}

func (f *fold[S]) apply(e deploylog.Event) {
	name, ok := f.nameOf(e.Target)
	if !ok {
		return
	}
	s, ok := f.states[name]
	if !ok {
		if e.Name != f.begins {
			return
		}
		s = f.begin(name)
		f.states[name] = s
	}
	s.Apply(e)
}

// Head is the last event that was taken note of.
func (f *fold[S]) Head() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.head
}

// Names are those that there ever were, sorted.
func (f *fold[S]) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.states))
}

// Ask calls ask with the state that has the name, which it must not keep.
func (f *fold[S]) Ask(name string, ask func(S) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.states[name]
	if !ok {
		return f.unknown(name)
	}
	return ask(s)
}

// unknown is the error about a name that nothing has. It tells the names there
// are, of many those that begin most like it.
func (f *fold[S]) unknown(name string) error {
	const many = 10
	names, others := slices.Sorted(maps.Keys(f.states)), ""
	if len(names) == 0 {
		return fmt.Errorf("%w: %q; there is none yet: %s", f.missing, name, f.remedy)
	}
	if n := len(names); n > many {
		slices.SortStableFunc(names, func(a, b string) int { return alike(b, name) - alike(a, name) })
		names, others = names[:many], fmt.Sprintf(" and %d others", n-many)
	}
	return fmt.Errorf("%w: %q; there are %s%s", f.missing, name, strings.Join(names, ", "), others)
}

// alike is how many bytes two names begin with.
func alike(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Change appends what change makes of the newest state, and returns it. Nothing
// else of the kind changes meanwhile, so change must neither wait for people nor
// call back. create lets it begin a name that there is not yet.
func (f *fold[S]) Change(ctx context.Context, name string, create bool, change func(S) ([]deploylog.Event, error)) (written []deploylog.Event, err error) {
	err = f.hold(ctx, func() error {
		s, ok := f.states[name]
		if !ok {
			if !create {
				return f.unknown(name)
			}
			s = f.begin(name)
		}
		events, err := change(s)
		if err != nil || len(events) == 0 {
			return err
		}
		written, err = f.append(ctx, events)
		return err
	})
	return written, err
}

// hold calls do with the newest states, which nobody else changes meanwhile.
func (f *fold[S]) hold(ctx context.Context, do func() error) error {
	unlock, err := f.log.Lock(ctx, f.many)
	if err != nil {
		return fmt.Errorf("locking the %s: %w", f.many, err)
	}
	defer unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.follow(ctx, 0); err != nil {
		return err
	}
	return do()
}

// append appends, and takes note of it. It need not be read back, but for what
// others appended in between.
func (f *fold[S]) append(ctx context.Context, events []deploylog.Event) ([]deploylog.Event, error) {
	written, err := f.log.Append(ctx, events...)
	if err != nil {
		return nil, fmt.Errorf("deployment log: %s of %s: %w", events[0].Name, events[0].Target, err)
	}
	if before := written[0].Seq - 1; before > f.head {
		if err := f.follow(ctx, before); err != nil {
			return written, err
		}
	}
	for _, e := range written {
		f.note(e)
	}
	return written, nil
}

// refusals are those that are left out, none yet.
func (f *fold[S]) refusals() refusals {
	return refusals{what: f.one, head: func(name string) int64 { return f.states[name].Head() }, all: map[string]refusal{}}
}
