// Package feed reads the end of a log once for all who follow it.
//
// A store looks again and again for what other processes append, and whoever follows it reads
// and writes each event by himself. Here one reader does that for all, from when the first
// follows until the last has left, and keeps the newest events as they are sent. Who follows
// takes what comes after the last event that he has got, when he is ready for it, so nothing is
// kept for who is slow. What he comes too late for he reads in the log, and catches up.
package feed

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Options describe a Feed.
type Options struct {
	Log    deploylog.Log
	Encode func(deploylog.Event) ([]byte, error) // as it is sent

	Events, Bytes int // how much is kept at most; 0 is some thousands, and some MiB
}

// The bounds, where nothing else is said.
const (
	mostEvents = 4096
	mostBytes  = 4 << 20

	// batch is how many bytes are taken at once, about, and chunk how many events are looked
	// at by who reads on in the log.
	batch = 32 << 10
	chunk = 256

	// gather is for how long events are gathered for each who follows before he is told
	// again, so that very many are told less often of more, and longest for how long at most.
	gather  = 25 * time.Microsecond
	longest = 25 * time.Millisecond
)

// Feed is the end of a log. It is safe for concurrent use.
type Feed struct {
	Options

	mu     sync.Mutex
	reader *reader // nil while nobody follows
}

// New is a feed that nobody follows.
func New(o Options) *Feed {
	o.Events, o.Bytes = cmp.Or(o.Events, mostEvents), cmp.Or(o.Bytes, mostBytes)
	return &Feed{Options: o}
}

// Item is an event, and how it is sent.
type Item struct {
	Event deploylog.Event // without its data
	Text  []byte          // must not be changed
}

// reader reads the end of the log for all who follow. All of it is guarded by Feed.mu but for
// what is set before ready is closed.
type reader struct {
	ready     chan struct{} // closed when it has found the end of the log, or cannot
	stop      context.CancelFunc
	followers int

	kept  []Item // the newest, in order and without gaps; only ever appended to
	bytes int    // of these
	cut   int    // bytes that were cut off before them, and that their array still holds
	head  int64  // the newest event that it has read
	err   error  // why it reads no more

	grown  chan struct{} // closed when followers are to look again
	told   time.Time     // when they were told, the last time
	timing bool          // they will be told
}

// Follower is somebody who follows.
type Follower struct {
	feed   *Feed
	reader *reader
	leave  func()
}

// Follow begins to follow. head is the newest event now; those after it Take returns. Who
// follows must Leave.
func (f *Feed) Follow(ctx context.Context) (_ *Follower, head int64, err error) {
	f.mu.Lock()
	r := f.reader
	if r == nil {
		life, stop := context.WithCancel(context.WithoutCancel(ctx))
		r = &reader{ready: make(chan struct{}), stop: stop, grown: make(chan struct{})}
		f.reader = r
		go f.read(life, r)
	}
	r.followers++
	f.mu.Unlock()
	follower := &Follower{f, r, sync.OnceFunc(func() { f.left(r) })}
	select {
	case <-r.ready:
	case <-ctx.Done():
		follower.Leave()
		return nil, 0, context.Cause(ctx)
	}
	f.mu.Lock()
	head, err = r.head, r.err
	f.mu.Unlock()
	if err != nil {
		follower.Leave()
		return nil, 0, err
	}
	return follower, head, nil
}

// Leave ends following. The reader ends with the last who does.
func (f *Follower) Leave() { f.leave() }

func (f *Feed) left(r *reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.followers--; r.followers > 0 {
		return
	}
	r.stop()
	if f.reader == r {
		f.reader = nil
	}
}

// errEnded is why a reader ends whose log says that there is no more.
var errEnded = errors.New("the log is read no more")

// read reads the log until nobody follows it any more, or it cannot be read.
func (f *Feed) read(ctx context.Context, r *reader) {
	head, err := f.newest(ctx)
	f.mu.Lock()
	r.head = head
	f.mu.Unlock()
	if err == nil {
		close(r.ready)
		err = f.watch(ctx, r, head)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r.err = cmp.Or(err, errEnded)
	if f.reader == r {
		f.reader = nil // who comes next begins anew
	}
	select {
	case <-r.ready:
	default:
		close(r.ready)
	}
	r.tell()
}

func (f *Feed) newest(ctx context.Context) (head int64, err error) {
	for e, err := range f.Log.Read(ctx, deploylog.Filter{Last: 1}) {
		if err != nil {
			return 0, err
		}
		head = e.Seq
	}
	return head, nil
}

func (f *Feed) watch(ctx context.Context, r *reader, after int64) error {
	for e, err := range f.Log.Watch(ctx, deploylog.Filter{After: after}) {
		if err != nil {
			return err
		}
		item, err := f.item(e)
		if err != nil {
			return err
		}
		f.mu.Lock()
		r.add(item, f.Options)
		f.tellSoon(r)
		f.mu.Unlock()
	}
	return context.Cause(ctx)
}

func (f *Feed) item(e deploylog.Event) (Item, error) {
	text, err := f.Encode(e)
	e.Data = nil
	return Item{e, text}, err
}

// add keeps an event, and no more than it may.
func (r *reader) add(item Item, o Options) {
	r.kept, r.head = append(r.kept, item), item.Event.Seq
	r.bytes += len(item.Text)
	for len(r.kept) > 1 && (len(r.kept) > o.Events || r.bytes > o.Bytes) {
		r.bytes -= len(r.kept[0].Text)
		r.cut += len(r.kept[0].Text)
		r.kept = r.kept[1:]
	}
	if r.cut > o.Bytes { // the array still holds what was cut off, and others may be reading it
		r.kept, r.cut = slices.Clone(r.kept), 0
	}
}

// tell has all who follow look again.
func (r *reader) tell() {
	close(r.grown)
	r.grown, r.told = make(chan struct{}), time.Now()
}

// tellSoon tells them at once or, of many who were told a moment ago, together with what
// comes until they are told again.
func (f *Feed) tellSoon(r *reader) {
	if r.timing {
		return
	}
	rest := min(time.Duration(r.followers)*gather, longest) - time.Since(r.told)
	if rest <= 0 {
		r.tell()
		return
	}
	r.timing = true
	time.AfterFunc(rest, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		r.timing = false
		r.tell()
	})
}

// Take returns the events after one, some at a time: those that the filter selects may be
// among others. through is the last that was looked at. When there is none, more is closed
// as soon as there is.
func (f *Follower) Take(ctx context.Context, after int64, filter deploylog.Filter) (items []Item, through int64, more <-chan struct{}, err error) {
	f.feed.mu.Lock()
	r := f.reader
	head, kept := r.head, r.kept
	more, err = r.grown, r.err
	f.feed.mu.Unlock()
	switch {
	case after >= head:
		return nil, after, more, err
	case len(kept) > 0 && kept[0].Event.Seq <= after+1:
		items = part(kept, after)
		return items, items[len(items)-1].Event.Seq, more, nil
	}
	items, through, err = f.feed.behind(ctx, after, head, filter)
	return items, through, more, err
}

// part is what comes after an event, as much of it as is taken at once. It is a copy: whoever takes long
// to send it keeps no more than that alive.
func part(kept []Item, after int64) []Item {
	from, _ := slices.BinarySearchFunc(kept, after+1, func(i Item, seq int64) int { return cmp.Compare(i.Event.Seq, seq) })
	bytes := 0
	for i, item := range kept[from:] {
		if bytes += len(item.Text); bytes >= batch {
			return slices.Clone(kept[from : from+i+1])
		}
	}
	return slices.Clone(kept[from:])
}

// behind reads in the log what comes after an event.
func (f *Feed) behind(ctx context.Context, after, head int64, filter deploylog.Filter) (items []Item, through int64, err error) {
	filter.After, filter.Until, filter.Last = after, min(after+chunk, head), 0
	bytes := 0
	for e, err := range f.Log.Read(ctx, filter) {
		if err != nil {
			return nil, after, err
		}
		item, err := f.item(e)
		if err != nil {
			return nil, after, err
		}
		items = append(items, item)
		if bytes += len(item.Text); bytes >= batch {
			return items, e.Seq, nil
		}
	}
	return items, filter.Until, nil
}
