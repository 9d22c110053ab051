package clusters

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// askAgain is the pause after a commit could not be read.
const askAgain = 30 * time.Second

// mostCommits is of how many commits a stage keeps the values.
const mostCommits = 100

// watching is what the objects of a stage say. Where the revision is the value that a commit has, that
// is read once for each commit; until it is known, an object is what it was before.
type watching struct {
	stage   *Stage
	changed chan struct{} // something was said; has room for one
	asking  sync.WaitGroup

	mu     sync.Mutex
	shown  []steady
	said   []object.Reading // the last of each object
	values map[string]value // by commit
}

// value is what a commit has. It is asked for where it has neither text nor error.
type value struct {
	text string
	err  error
}

func newWatching(s *Stage) *watching {
	w := &watching{stage: s, changed: make(chan struct{}, 1), shown: make([]steady, len(s.Objects)), said: make([]object.Reading, len(s.Objects)), values: map[string]value{}}
	for i := range w.shown {
		w.shown[i].settle = s.Settle
	}
	return w
}

// says notes what an object says from now on.
func (w *watching) says(ctx context.Context, i int, r object.Reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said[i] = r
	w.shows(ctx, i)
}

// shows has an object be what it said last.
func (w *watching) shows(ctx context.Context, i int) {
	r := w.said[i]
	if w.stage.Objects[i].Part == object.Path && r.Revision != "" {
		commit := r.Revision
		v, known := w.values[commit]
		switch {
		case !known:
			w.ask(ctx, commit)
			return
		case v.err != nil:
			r = object.Unseen(v.err)
		case v.text == "":
			return // it is asked for
		default:
			r.Revision = v.text
		}
	}
	w.shown[i].says(r, time.Now())
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// ask has the value of a commit read, again and again while that fails and an object is at it.
func (w *watching) ask(ctx context.Context, commit string) {
	if len(w.values) >= mostCommits {
		clear(w.values) // what is still asked for is asked for again
	}
	w.values[commit] = value{}
	w.asking.Go(func() {
		for {
			text, err := w.stage.ValueIn(ctx, commit)
			if err == nil && !object.IsRevision(text) {
				err = fmt.Errorf("what commit %.10s has at %s of %s is no text or number that can be a revision", commit, w.stage.Source.Value, w.stage.Source.File)
			}
			if ctx.Err() != nil || !w.knows(ctx, commit, value{text, err}) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(askAgain):
			}
		}
	})
}

// knows notes what a commit has, and reports whether it is to be asked for again.
func (w *watching) knows(ctx context.Context, commit string, v value) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.values[commit] = v
	at := false
	for i := range w.said {
		if w.stage.Objects[i].Part == object.Path && w.said[i].Revision == commit {
			at = true
			w.shows(ctx, i)
		}
	}
	if v.err != nil && !at {
		delete(w.values, commit)
	}
	return v.err != nil && at
}

// at is what the objects are taken to be now, and when that may be something else without their saying
// so.
func (w *watching) at(now time.Time) (all []*object.Reading, again time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.shown {
		r, at := w.shown[i].at(now)
		all, again = append(all, r), sooner(again, at)
	}
	return all, again
}
