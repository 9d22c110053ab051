package sqlite

import (
	"context"
	"errors"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/deployster-go/deployster/deploylog"
)

// watchPause is how often a watch looks for what other processes appended while they do;
// appends of this process wake it at once.
const watchPause = 50 * time.Millisecond

// lookPause is how often a watch looks into the log although its file is not written. It goes on looking
// for as long after a write, which is not there for others before it is synced, and the time of a file is coarse.
const lookPause = time.Second

// writes tells when the write-ahead log was written, which costs less than a look into the log.
type writes struct {
	file string
	info os.FileInfo // of the file; nil is none
	at   time.Time   // when that was looked at
	look time.Time   // the last time that the log was to be looked into

	notify   *fsnotify.Watcher // nil if the system does not tell of writes
	notified os.FileInfo       // the file of which it tells; nil is none
}

func newWrites(file string) *writes {
	w := &writes{file: file}
	w.notify, _ = fsnotify.NewWatcher() // without one the file is looked at all the time
	return w
}

func (w *writes) close() {
	if w.notify != nil {
		_ = w.notify.Close()
	}
}

// again reports whether the log is to be looked into: it may have been written since the last time.
func (w *writes) again(now time.Time) bool {
	before, at := w.info, w.at
	w.info, w.at = nil, now
	if info, err := os.Stat(w.file); err == nil {
		w.info = info
	}
	if before != nil && same(w.info, before) && w.info.Size() == before.Size() && w.info.ModTime().Equal(before.ModTime()) &&
		at.Sub(before.ModTime()) > lookPause && now.Sub(w.look) < lookPause {
		return false
	}
	w.look = now
	return true
}

func same(a, b os.FileInfo) bool { return a != nil && b != nil && os.SameFile(a, b) }

// rests reports whether the system tells of the next write of the file, which nobody has written for a
// while. What was written before the system was asked to tell it does not tell: another look finds that.
func (w *writes) rests() bool {
	if w.notify == nil || w.info == nil || w.at.Sub(w.info.ModTime()) <= lookPause {
		return false
	}
	if same(w.notified, w.info) {
		return true
	}
	_ = w.notify.Remove(w.file) // another one that was there, and may be gone
	if w.notified = nil; w.notify.Add(w.file) == nil {
		w.notified = w.info
	}
	return false
}

// wait returns when the file is to be looked at again, and false if end is closed.
func (w *writes) wait(end <-chan struct{}) bool {
	pause := time.NewTimer(watchPause)
	defer pause.Stop()
	var told <-chan fsnotify.Event
	var failed <-chan error
	if w.rests() {
		told, failed = w.notify.Events, w.notify.Errors
		pause.Reset(lookPause)
	}
	select {
	case <-end:
		return false
	case <-pause.C:
	case <-told:
	case <-failed: //nolint:errcheck // that it may have missed a write is enough to know
	}
	return true
}

// elsewhere tells all watches of a log when other processes may have appended to it. Its zero value is
// ready, and it is safe for concurrent use.
type elsewhere struct {
	mu      sync.Mutex
	watches int
	end     chan struct{} // is closed when there is no watch any more
	news    chan struct{} // is closed when the log is to be looked into
}

// begin begins a watch, which ends with end.
func (e *elsewhere) begin(file string) (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watches++; e.watches == 1 {
		e.end, e.news = make(chan struct{}), make(chan struct{})
		go e.look(file, e.end)
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.watches--; e.watches == 0 {
			close(e.end)
		}
	}
}

// next is closed when the log is to be looked into from now on.
func (e *elsewhere) next() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.news
}

func (e *elsewhere) look(file string, end <-chan struct{}) {
	w := newWrites(file)
	defer w.close()
	for w.wait(end) {
		if !w.again(time.Now()) {
			continue
		}
		e.mu.Lock()
		if e.end == end { // else all watches have ended, and others have begun
			close(e.news)
			e.news = make(chan struct{})
		}
		e.mu.Unlock()
	}
}

// growth is what one batch of this process has appended. Who waits for it need not read that.
type growth struct {
	after         int64 // the last event of the batch before; -1 is not known
	over          chan struct{}
	from, through int64             // once over is closed: it is (from, through]
	events        []deploylog.Event // all of these, or none of so much that it is not kept
}

func growthAfter(seq int64) *growth { return &growth{after: seq, over: make(chan struct{})} }

const keptEvents, keptBytes = 2048, 1 << 20 // of a batch, at most

// copied returns the events of the batch, unless there is too much of them.
func (b *batch) copied() (events []deploylog.Event) {
	if len(b.marks) > keptEvents {
		return nil
	}
	events = make([]deploylog.Event, 0, len(b.marks))
	size := 0
	for _, m := range b.marks {
		if size += len(m.event.Data); size > keptBytes {
			return nil
		}
		e := *m.event
		e.Data = slices.Clone(e.Data)
		events = append(events, e)
	}
	return events
}

// Watch implements deploylog.Log.
func (l *Log) Watch(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		if f.Until != 0 {
			yield(deploylog.Event{}, errors.New("watch deployment log: a watch has no end, do not set Until"))
			return
		}
		parent := ctx
		ctx, cancel := l.whileOpen(ctx)
		defer cancel()
		quiet := func(e deploylog.Event, err error) bool {
			if err != nil && parent.Err() != nil {
				return false // the caller has gone, which is no error
			}
			return yield(e, err)
		}
		defer l.elsewhere.begin(l.path + "-wal")()
		grown, elsewhere := l.writer.growth(), l.elsewhere.next() // taken before looking, so that nothing is missed
		after, until, err := l.span(ctx, f)
		s := newSelection(f)
		for {
			if err != nil {
				quiet(deploylog.Event{}, l.readError(ctx, err))
				return
			}
			if until > after && !l.deliver(ctx, s, after, until, quiet) {
				return
			}
			after = max(after, until)
			looks := true
			select {
			case <-grown.over:
				if grown.from == after && grown.events != nil && ctx.Err() == nil {
					for _, e := range grown.events {
						if f.Selects(e) && !quiet(e, nil) {
							return
						}
					}
					after, looks = grown.through, false
				}
			case <-elsewhere:
			case <-ctx.Done():
				err = ctx.Err()
				continue
			}
			if grown = l.writer.growth(); !looks && grown.after == after {
				continue
			}
			elsewhere = l.elsewhere.next()
			until, err = l.newest(ctx)
		}
	}
}
