package apply

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/deployster-go/deployster/control/managed"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/report"
)

// maxNews is how much is kept of what is observed of a run and is not in the log, such as what
// containers print, in bytes: of more, the oldest is not shown to who begins to follow later.
const maxNews = 4 << 20

// newsSize is what keeping one event takes beside its texts.
const newsSize = 400

// Outcome is how a run ended.
type Outcome string

// The outcomes of runs.
const (
	Succeeded   Outcome = "succeeded"
	Failed      Outcome = "failed"
	Refused     Outcome = "refused"     // before anything was touched
	Interrupted Outcome = "interrupted" // it was stopped
	Nothing     Outcome = "nothing"     // there is nothing that it can do
)

// Observed is an event of a run, or a sentence that it has for people, with its number among those of this run.
type Observed struct {
	N      int64
	Event  report.Event
	Notice string // "" of an event
}

// Served is a run that is carried out for others. It is an Observer of it.
type Served struct {
	ID, Target string
	Command    string        // apply, destroy or plan
	Took       time.Duration // until it ended, which it has

	began    time.Time
	stopping sync.Once
	stop     chan struct{}
	begun    chan struct{} // closed when the log has its first event
	over     chan struct{} // closed when it has ended

	mu     sync.Mutex
	events []Observed
	n      int64
	news   int           // bytes of what is not in the log
	more   chan struct{} // closed when there is more
	err    error         // how it ended
	plan   *planned      // what it has planned; nil is nothing
}

func newServed(id, target string, stop chan struct{}) *Served {
	return &Served{ID: id, Target: target, stop: stop, begun: make(chan struct{}), over: make(chan struct{}), more: make(chan struct{})}
}

// Stop has the run begin nothing new: it ends when what is running is finished.
func (s *Served) Stop() { s.stopping.Do(func() { close(s.stop) }) }

// Observe implements runner.Observer.
func (s *Served) Observe(e report.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(Observed{Event: e})
	if e.Kind == report.RunStarted {
		close(s.begun)
	}
}

// Notice has those who follow the run told something.
func (s *Served) Notice(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(Observed{Notice: text})
}

func (s *Served) add(o Observed) {
	s.n++
	o.N = s.n
	s.events = append(s.events, o)
	if !o.recorded() {
		s.news += o.size()
		s.forget()
	}
	close(s.more)
	s.more = make(chan struct{})
}

func (o Observed) recorded() bool { return o.Notice == "" && o.Event.Kind.Recorded() }

func (o Observed) size() int {
	return newsSize + len(o.Notice) + len(o.Event.Text) + len(o.Event.Image)
}

// forget forgets the older half of what is not in the log, where it is too much.
func (s *Served) forget() {
	if s.news <= maxNews {
		return
	}
	s.events = slices.DeleteFunc(s.events, func(o Observed) bool {
		if o.recorded() || s.news <= maxNews/2 {
			return false
		}
		s.news -= o.size()
		return true
	})
}

// After are the events behind one, by its number, and whether the run has ended: then they are
// all. more is closed when there are others, or the run has ended.
func (s *Served) After(n int64) (events []Observed, more <-chan struct{}, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.events, n+1, func(o Observed, n int64) int { return int(o.N - n) })
	return slices.Clone(s.events[i:]), s.more, isClosed(s.over)
}

func (s *Served) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	close(s.over)
	close(s.more)
}

func (s *Served) hasEnded() bool { return isClosed(s.over) }

// Result is how a run ended.
type Result struct {
	Outcome  Outcome
	Why      string             // where its events do not say it
	Problems []manifest.Problem // the same of what is wrong with the manifests
}

// Result is how the run ended. Nothing is known before over is closed.
func (s *Served) Result() Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed *failure.Error
	var invalid *manifest.Error
	var unknown *managed.UnknownTargetError
	r := Result{Outcome: Failed}
	switch {
	case s.err == nil:
		return Result{Outcome: Succeeded}
	case errors.Is(s.err, ErrNoOrphans):
		return Result{Outcome: Nothing, Why: s.err.Error()}
	case errors.As(s.err, &unknown):
		return Result{Outcome: Refused, Why: s.err.Error()}
	case errors.Is(s.err, runner.ErrInterrupted):
		r.Outcome = Interrupted
	case !errors.As(s.err, &failed) && errors.As(s.err, &invalid):
		r.Outcome = Refused
	}
	switch recorded := isClosed(s.begun); {
	case Told(s.err) && (recorded || s.plan != nil):
	case r.Outcome == Refused:
		r.Problems = invalid.Problems
	case r.Outcome != Interrupted:
		r.Why = s.err.Error()
	}
	return r
}

// isClosed reports whether a channel on which nothing is sent is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
