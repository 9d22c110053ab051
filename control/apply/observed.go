package apply

import (
	"errors"
	"slices"
	"sync"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
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
)

// Observed is an event of a run, with its number among those of this run.
type Observed struct {
	N     int64
	Event runner.Event
}

// Served is a run that is carried out for others. It is an Observer of it.
type Served struct {
	ID, Target string

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
}

func newServed(id, target string, stop chan struct{}) *Served {
	return &Served{ID: id, Target: target, stop: stop, begun: make(chan struct{}), over: make(chan struct{}), more: make(chan struct{})}
}

// Stop has the run begin nothing new: it ends when what is running is finished.
func (s *Served) Stop() { s.stopping.Do(func() { close(s.stop) }) }

// Observe implements runner.Observer.
func (s *Served) Observe(e runner.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.events = append(s.events, Observed{s.n, e})
	if !e.Kind.Recorded() {
		s.news += sizeOf(e)
		s.forget()
	}
	if e.Kind == runner.RunStarted {
		close(s.begun)
	}
	close(s.more)
	s.more = make(chan struct{})
}

func sizeOf(e runner.Event) int { return newsSize + len(e.Text) + len(e.Image) }

// forget forgets the older half of what is not in the log, where it is too much.
func (s *Served) forget() {
	if s.news <= maxNews {
		return
	}
	s.events = slices.DeleteFunc(s.events, func(o Observed) bool {
		if o.Event.Kind.Recorded() || s.news <= maxNews/2 {
			return false
		}
		s.news -= sizeOf(o.Event)
		return true
	})
}

// After are the events behind one, by its number; more is closed when there are others, and
// over when the run has ended.
func (s *Served) After(n int64) (events []Observed, more, over <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.events, n+1, func(o Observed, n int64) int { return int(o.N - n) })
	return slices.Clone(s.events[i:]), s.more, s.over
}

func (s *Served) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	close(s.over)
}

func (s *Served) hasEnded() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// Outcome is how the run ended, and why, where its events do not say it. Nothing is known
// before over is closed.
func (s *Served) Outcome() (o Outcome, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed *runner.FailedError
	var invalid *manifest.Error
	switch {
	case s.err == nil:
		return Succeeded, ""
	case errors.Is(s.err, runner.ErrInterrupted):
		o = Interrupted
	case !errors.As(s.err, &failed) && errors.As(s.err, &invalid):
		o = Refused
	default:
		o = Failed
	}
	if !Told(s.err) {
		why = s.err.Error()
	}
	return o, why
}
