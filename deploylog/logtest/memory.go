package logtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deployster-go/deployster/deploylog"
)

// Memory is a store that passes the suite and needs neither files nor polls, for
// tests of what stands on a log. It lasts as long as the test that made it.
type Memory struct {
	id string

	appending sync.Mutex // is held by who appends, and longer than mu

	mu         sync.Mutex
	entropy    *ulid.MonotonicEntropy
	events     []deploylog.Event // only ever appended to, so a prefix is a snapshot
	known      map[key]bool
	registered map[string]int64         // the first event of each deployment
	grown      chan struct{}            // closed when there are more events
	locks      map[string]chan struct{} // of those that are held; closed when released
}

// NewMemory returns a store without events.
func NewMemory() *Memory {
	return &Memory{
		id: ulid.Make().String(), entropy: ulid.Monotonic(rand.Reader, 0),
		known: map[key]bool{}, registered: map[string]int64{}, grown: make(chan struct{}), locks: map[string]chan struct{}{},
	}
}

// elsewhere is how long a handle takes to notice what another one has appended,
// as a store does that has to look for it.
const elsewhere = 50 * time.Millisecond

// MemoryLog is a handle of a Memory. It implements deploylog.Log.
type MemoryLog struct {
	*Memory
	grown   chan struct{} // closed when this handle has appended; guarded by Memory.mu
	closing sync.Once
	closed  chan struct{}
	many    sync.Map // how to unlock what TryLocks took, by name
}

var (
	_ deploylog.Log          = (*MemoryLog)(nil)
	_ deploylog.ThenAppender = (*MemoryLog)(nil)
	_ deploylog.LockLister   = (*MemoryLog)(nil)
	_ deploylog.ManyLocker   = (*MemoryLog)(nil)

	errClosed = errors.New("log is closed")
)

// Open opens the store as another process would.
func (m *Memory) Open() *MemoryLog {
	return &MemoryLog{Memory: m, grown: make(chan struct{}), closed: make(chan struct{})}
}

// ID implements deploylog.Log.
func (l *MemoryLog) ID() string { return l.id }

// Close implements deploylog.Log.
func (l *MemoryLog) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return nil
}

// usable fails when the caller has gone or the handle is closed.
func (l *MemoryLog) usable(ctx context.Context) error {
	select {
	case <-l.closed:
		return errClosed
	default:
		return ctx.Err()
	}
}

// Append implements deploylog.Log.
func (l *MemoryLog) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	return l.AppendThen(ctx, events, func([]deploylog.Event) []deploylog.Event { return nil })
}

// AppendThen implements deploylog.ThenAppender.
func (l *MemoryLog) AppendThen(ctx context.Context, events []deploylog.Event, then func([]deploylog.Event) []deploylog.Event) ([]deploylog.Event, error) {
	if err := l.usable(ctx); err != nil || len(events) == 0 {
		return nil, err
	}
	l.appending.Lock()
	defer l.appending.Unlock()
	added, err := l.place(nil, events)
	if err != nil {
		return nil, err
	}
	for more := added; len(more) > 0 && err == nil; {
		more, err = l.place(added, then(slices.Clone(added)))
		added = append(added, more...)
	}
	l.add(added)
	return slices.Clone(added), err
}

// place completes events that are to follow others which are not there yet, and refuses all where
// one is refused.
func (l *MemoryLog) place(before, events []deploylog.Event) ([]deploylog.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	added := slices.Clone(events)
	fresh := map[key]bool{}
	for _, e := range before {
		fresh[keyOf(e)] = true
	}
	for i := range added {
		e := &added[i]
		if err := l.complete(e, now); err != nil {
			return nil, fmt.Errorf("append %s of %s: %w", e.Name, e.Target, err)
		}
		if k := keyOf(*e); l.known[k] || fresh[k] {
			return nil, fmt.Errorf("append %s of %s, attempt %d: %w", e.Name, e.Target, e.Attempt, deploylog.ErrDuplicate)
		}
		fresh[keyOf(*e)] = true
		e.Seq = int64(len(l.events) + len(before) + i + 1)
	}
	return added, nil
}

// add adds events that have their places.
func (l *MemoryLog) add(added []deploylog.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range added {
		l.known[keyOf(e)] = true
		if l.registered[e.Deployment] == 0 {
			l.registered[e.Deployment] = e.Seq
		}
	}
	l.events = append(l.events, added...)
	close(l.grown)
	close(l.Memory.grown)
	l.grown, l.Memory.grown = make(chan struct{}), make(chan struct{})
}

// complete assigns what is missing of an event, and checks it.
func (m *Memory) complete(e *deploylog.Event, now time.Time) error {
	if e.Attempt == 0 {
		e.Attempt = 1
	}
	if e.CreatedAt.IsZero() {
		e.CreatedAt = now
	}
	e.CreatedAt = e.CreatedAt.Round(0).UTC()
	if e.Data = slices.Clone(e.Data); len(e.Data) == 0 {
		e.Data = nil
	}
	if err := e.Validate(); err != nil {
		return err
	}
	if e.ID == "" {
		id, err := ulid.New(ulid.Timestamp(now), m.entropy)
		if err != nil {
			return err
		}
		e.ID = id.String()
	}
	return nil
}

// snapshot returns all events there are.
func (m *Memory) snapshot() []deploylog.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.events[:len(m.events):len(m.events)]
}

// Read implements deploylog.Log.
func (l *MemoryLog) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		l.deliver(ctx, chosen(l.snapshot(), f), yield)
	}
}

// deliver yields events, and reports whether there is any use in going on.
func (l *MemoryLog) deliver(ctx context.Context, events []deploylog.Event, yield func(deploylog.Event, error) bool) bool {
	for _, e := range events {
		if err := l.usable(ctx); err != nil {
			yield(deploylog.Event{}, fmt.Errorf("read deployment log: %w", err))
			return false
		}
		if !yield(e, nil) {
			return false
		}
	}
	if err := l.usable(ctx); err != nil {
		yield(deploylog.Event{}, fmt.Errorf("read deployment log: %w", err))
		return false
	}
	return true
}

// chosen are the events that a filter selects.
func chosen(events []deploylog.Event, f deploylog.Filter) (all []deploylog.Event) {
	until := int64(len(events))
	if f.Until > 0 {
		until = min(until, f.Until)
	}
	for _, e := range events[min(max(f.After, 0), until):until] {
		of := string(f.Target)
		at := of == "" || string(e.Target) == of || strings.HasSuffix(of, "/") && strings.HasPrefix(string(e.Target), of)
		if at && (f.Deployment == "" || e.Deployment == f.Deployment) && (f.Name == "" || e.Name == f.Name) && !e.CreatedAt.Before(f.Since) {
			all = append(all, e)
		}
	}
	if f.Last > 0 {
		all = all[max(len(all)-f.Last, 0):]
	}
	return all
}

// Watch implements deploylog.Log.
func (l *MemoryLog) Watch(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		if f.Until != 0 {
			yield(deploylog.Event{}, errors.New("watch deployment log: a watch has no end, do not set Until"))
			return
		}
		quiet := func(e deploylog.Event, err error) bool {
			return (err == nil || ctx.Err() == nil) && yield(e, err) // that the caller has gone is no error
		}
		for {
			l.mu.Lock()
			own, anybody := l.grown, l.Memory.grown
			l.mu.Unlock()
			events := l.snapshot()
			if !l.deliver(ctx, chosen(events, f), quiet) {
				return
			}
			f.After, f.Last = max(f.After, int64(len(events))), 0
			select {
			case <-own:
			case <-anybody:
				select {
				case <-own:
				case <-time.After(elsewhere):
				case <-ctx.Done():
				case <-l.closed:
				}
			case <-ctx.Done():
			case <-l.closed:
			}
		}
	}
}

// Latest implements deploylog.Log.
func (l *MemoryLog) Latest(ctx context.Context, t deploylog.Target, o deploylog.Outcome) (latest deploylog.Event, ok bool, err error) {
	name, err := t.Ended(o)
	if err != nil {
		return deploylog.Event{}, false, err
	}
	if err := l.usable(ctx); err != nil {
		return deploylog.Event{}, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Target == t && e.Name == name && (!ok || l.registered[e.Deployment] >= l.registered[latest.Deployment]) {
			latest, ok = e, true
		}
	}
	return latest, ok, nil
}

// InProgress implements deploylog.Log.
func (l *MemoryLog) InProgress(ctx context.Context, t deploylog.Target) (open []deploylog.Event, err error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := map[string]int{} // by deployment, the last attempt that has
	for _, e := range l.events {
		if e.Target == t && (e.Name == t.Succeeded() || e.Name == t.Failed()) {
			ended[e.Deployment] = max(ended[e.Deployment], e.Attempt)
		}
	}
	for _, e := range l.events {
		if e.Target == t && e.Name == t.Started() && e.Attempt > ended[e.Deployment] {
			open = append(open, e)
		}
	}
	slices.SortStableFunc(open, func(a, b deploylog.Event) int {
		return int(l.registered[a.Deployment] - l.registered[b.Deployment])
	})
	return open, nil
}

// Lock implements deploylog.Log.
func (l *MemoryLog) Lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		unlock, released, err := l.take(name)
		if !errors.Is(err, deploylog.ErrLocked) {
			return unlock, err
		}
		select {
		case <-released:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a lock: %w: %w", ctx.Err(), err)
		case <-l.closed:
			return nil, fmt.Errorf("wait for lock %q: %w", name, errClosed)
		}
	}
}

// TryLock implements deploylog.Log.
func (l *MemoryLog) TryLock(name string) (unlock func(), err error) {
	unlock, _, err = l.take(name)
	return unlock, err
}

// TryLocks implements deploylog.ManyLocker.
func (l *MemoryLog) TryLocks(names ...string) []deploylog.TriedLock {
	all := make([]deploylog.TriedLock, len(names))
	for i, name := range names {
		if all[i].Unlock, all[i].Err = l.TryLock(name); all[i].Err == nil {
			l.many.Store(name, all[i].Unlock)
		}
	}
	return all
}

// UnlockAll implements deploylog.ManyLocker.
func (l *MemoryLog) UnlockAll(names ...string) {
	for _, name := range names {
		if unlock, has := l.many.LoadAndDelete(name); has {
			unlock.(func())()
		}
	}
}

// Locked implements deploylog.Log.
func (l *MemoryLog) Locked(name string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, held := l.locks[name]
	return held, nil
}

// LocksHeld implements deploylog.LockLister.
func (l *MemoryLog) LocksHeld(_ context.Context, prefix string) (held []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.locks {
		if strings.HasPrefix(name, prefix) {
			held = append(held, name)
		}
	}
	slices.Sort(held)
	return held, nil
}

// take takes a lock, or returns what is closed when its holder releases it.
func (m *Memory) take(name string) (unlock func(), released <-chan struct{}, err error) {
	if name == "" {
		return nil, nil, errors.New("lock: the name must not be empty")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if held, ok := m.locks[name]; ok {
		return nil, held, fmt.Errorf("lock %q: %w", name, deploylog.ErrLocked)
	}
	mine := make(chan struct{})
	m.locks[name] = mine
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.locks, name)
		close(mine)
	}), nil, nil
}

// Verify implements deploylog.Log.
func (l *MemoryLog) Verify(ctx context.Context, known ...deploylog.Head) (deploylog.Verification, error) {
	if err := l.usable(ctx); err != nil {
		return deploylog.Verification{}, err
	}
	events, hash := l.snapshot(), sha256.New()
	unknown := slices.Clone(known)
	for i := 0; ; i++ {
		seq, sum := int64(i), hex.EncodeToString(hash.Sum(nil))
		unknown = slices.DeleteFunc(unknown, func(h deploylog.Head) bool { return h.Hash == sum && (h.Seq == 0 || h.Seq == seq) })
		if i == len(events) {
			if len(unknown) > 0 {
				return deploylog.Verification{}, fmt.Errorf("the log never stood at %s: %w", unknown[0], deploylog.ErrCorrupt)
			}
			return deploylog.Verification{Events: seq, Head: sum}, nil
		}
		if err := json.NewEncoder(hash).Encode(events[i]); err != nil {
			return deploylog.Verification{}, fmt.Errorf("verify event %d: %w", events[i].Seq, err)
		}
	}
}
