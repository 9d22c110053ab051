package clusters

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// askAgain is the pause after a commit could not be read.
const askAgain = 30 * time.Second

// mostCommits is the number of commits of which a stage keeps the values.
const mostCommits = 100

// watching is what the objects of a stage say. Where the revision is the value that a commit has, each
// commit is read once. Until it is known, an object runs what it ran before; that it is not well counts
// at once.
type watching struct {
	stage   *Stage
	changed func()        // something was said
	unread  chan struct{} // a commit is to be read; has room for one; nil if none are read

	mu    sync.Mutex
	shown []steady

	// If the revision is the value that a commit has; nil otherwise.
	said   []object.Reading // the last of each object
	waits  []time.Time      // since when the commit of an object is not known; zero where it is
	values map[string]value // by commit
}

// value is what a commit has.
type value struct {
	text string
	err  error
	at   time.Time // when it was read
}

func newWatching(s *Stage, changed func()) *watching {
	n := len(s.Objects)
	w := &watching{stage: s, changed: changed, shown: make([]steady, n)}
	if s.ValueIn != nil {
		w.unread, w.said, w.waits, w.values = make(chan struct{}, 1), make([]object.Reading, n), make([]time.Time, n), map[string]value{}
	}
	for i := range w.shown {
		w.shown[i].settle = s.Settle
	}
	return w
}

// says notes what an object says from now on.
func (w *watching) says(i int, r object.Reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.values == nil {
		w.shown[i].says(r, time.Now())
		w.changed()
		return
	}
	w.said[i] = r
	w.show(i)
}

// commit is the commit of which the value is the revision of an object, "" of others.
func (w *watching) commit(i int) string {
	if w.stage.Objects[i].Part != object.Path {
		return ""
	}
	return w.said[i].Revision
}

// show takes an object for what it said last.
func (w *watching) show(i int) {
	r, now := w.said[i], time.Now()
	if commit := w.commit(i); commit != "" {
		v, known := w.values[commit]
		switch before := w.shown[i].shown; {
		case known && v.err != nil:
			r = object.Unseen(v.err)
		case known:
			r.Revision = v.text
		default:
			signal(w.unread)
			if w.waits[i].IsZero() {
				w.waits[i] = now
			}
			if r.Healthy || r.Working || before == nil || before.Unknown {
				w.changed() // it is looked when that ends
				return
			}
			r.Revision = before.Revision
			w.shown[i].says(r, now)
			w.changed()
			return
		}
	}
	w.waits[i] = time.Time{}
	w.shown[i].says(r, now)
	w.changed()
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// read reads the commits of the objects, one after the other, until ctx ends.
func (w *watching) read(ctx context.Context) {
	for {
		commit, again := w.next(time.Now())
		if commit == "" {
			var due <-chan time.Time
			if !again.IsZero() {
				due = time.After(time.Until(again))
			}
			select {
			case <-ctx.Done():
				return
			case <-w.unread:
			case <-due:
			}
			continue
		}
		text, err := w.stage.ValueIn(ctx, commit)
		if ctx.Err() != nil {
			return
		}
		if err == nil && !object.IsRevision(text) {
			err = fmt.Errorf("what commit %.10s has at %s of %s is no text or number that can be a revision", commit, w.stage.Source.Value, w.stage.Source.File)
		}
		w.knows(commit, value{text, err, time.Now()})
	}
}

// next is a commit that is to be read, or else when one is to be read again; zero is never.
func (w *watching) next(now time.Time) (commit string, again time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.said {
		commit := w.commit(i)
		v, known := w.values[commit]
		switch {
		case commit == "" || known && v.err == nil:
		case !known || !now.Before(v.at.Add(askAgain)):
			return commit, again
		default:
			again = sooner(again, v.at.Add(askAgain))
		}
	}
	return "", again
}

// knows notes what a commit has.
func (w *watching) knows(commit string, v value) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.values) >= mostCommits {
		for old := range w.values {
			if !slices.ContainsFunc(w.said, func(r object.Reading) bool { return r.Revision == old }) {
				delete(w.values, old)
			}
		}
	}
	w.values[commit] = v
	for i := range w.said {
		if w.commit(i) == commit {
			w.show(i)
		}
	}
}

// at is what the objects are taken to be now, and when that may be something else without their saying
// so.
func (w *watching) at(now time.Time) (all []*object.Reading, again time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.shown {
		if w.values != nil && !w.waits[i].IsZero() {
			if end := w.waits[i].Add(mostWork); now.Before(end) {
				again = sooner(again, end)
			} else {
				w.shown[i].says(object.Unseen(fmt.Errorf("commit %.10s is not read yet", w.commit(i))), now)
			}
		}
		r, at := w.shown[i].at(now)
		all, again = append(all, r), sooner(again, at)
	}
	return all, again
}
