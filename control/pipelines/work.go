package pipelines

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/runner"
)

// stepKey knows a step whatever its attempt is: work that was begun before a
// retry is not begun again beside it.
type stepKey struct {
	deployment string
	target     deploylog.Target
	event      string
}

func keyOf(s pipeline.Step) stepKey { return stepKey{s.Deployment, s.Target, s.Event} }

// errOver is why work does not begin whose deployment, or whose scheduler, has
// come to its end.
var errOver = errors.New("it is too late to begin")

// ask is the question of a worker whether to begin.
type ask struct {
	step   pipeline.Step
	answer chan error
	known  chan struct{} // closed when it is known that the work has begun
}

// outcome is how one try at the work of a step ended.
type outcome struct {
	step pipeline.Step
	made map[string]string
	err  error
	late bool // it was too late to begin
}

// failure is what is remembered of a step between two tries.
type failure struct {
	attempt int
	tries   int
	until   time.Time // it rests
}

// work does the work of a step, once. It is the only code that does not run in
// the goroutine of Run.
func (s *Scheduler) work(ctx context.Context, step pipeline.Step, artifacts map[string]string) {
	o := outcome{step: step, err: errors.New("the worker did not return")}
	defer func() {
		if p := recover(); p != nil {
			o.err = crash.New(p, "working on "+string(step.Target))
		}
		s.outcomes <- o
	}()
	o.made, o.err = s.Worker.Work(ctx, step, artifacts, func(known func() error) error {
		a := ask{step: step, answer: make(chan error, 1), known: make(chan struct{})}
		s.asks <- a
		if err := <-a.answer; err != nil {
			o.late = true
			return err
		}
		defer close(a.known)
		return known()
	})
}

// ended records how work ended. That is a fact, whatever became of its pipeline
// and of the scheduler.
func (s *Scheduler) ended(ctx context.Context, all []outcome) error {
	var events [][]deploylog.Event
	for _, o := range all {
		delete(s.working, keyOf(o.step))
		if o.step.Environment != "" {
			s.promoting--
		}
		if s.busy[o.step.Host]--; s.busy[o.step.Host] <= 0 {
			delete(s.busy, o.step.Host)
		}
		events = append(events, s.judge(ctx, o))
	}
	return s.record(context.WithoutCancel(ctx), events)
}

// judge returns what is recorded of an outcome: nothing of work that did not
// come to its end, or that is tried again.
func (s *Scheduler) judge(ctx context.Context, o outcome) []deploylog.Event {
	if o.late {
		return nil
	}
	key, err := keyOf(o.step), o.err
	if err == nil {
		var events []deploylog.Event
		if events, err = o.step.Completed(o.made); err == nil {
			delete(s.failures, key)
			return events
		}
	}
	ending := ctx.Err() != nil || s.seat.Stopped()
	if ctx.Err() != nil || ending && errors.Is(err, runner.ErrInterrupted) {
		return nil // it is done again by the next scheduler
	}
	f := s.failures[key]
	if f.attempt != o.step.Attempt {
		f = failure{attempt: o.step.Attempt}
	}
	f.tries++
	if f.tries > o.step.Retries || !s.active(key, o.step.Attempt) || errors.Is(err, deploylog.ErrPoisoned) {
		delete(s.failures, key)
		return []deploylog.Event{o.step.Failed(err.Error())}
	}
	pause := retryPause(f.tries)
	f.until = s.Now().Add(pause)
	s.failures[key] = f
	if !ending {
		s.tell(func(to Spectator) { to.Again(o.step, err, pause) })
	}
	return nil
}

// retryPause is how long work rests that failed so many times: a second at
// first, then double, up to a minute.
func retryPause(tries int) time.Duration {
	const doublings = 6
	return min(time.Second<<min(tries-1, doublings), time.Minute)
}

// forget drops the failures of steps whose deployment ended meanwhile.
func (s *Scheduler) forget() {
	maps.DeleteFunc(s.failures, func(key stepKey, f failure) bool {
		return !s.active(key, f.attempt)
	})
}

// active tells whether the attempt of a step's deployment is under way, as far
// as is known.
func (s *Scheduler) active(key stepKey, attempt int) bool {
	name, _ := PipelineOf(key.target)
	state := s.pipelines.States[name]
	return state != nil && state.Active(key.deployment, attempt)
}

// due tells whether the work of a step is still to be done, as far as is known.
func (s *Scheduler) due(step pipeline.Step) bool {
	name, _ := PipelineOf(step.Target)
	state := s.pipelines.States[name]
	return state != nil && state.Due(step)
}

// record appends the events of things that happened, those of one together. One
// that is there already, because somebody else came that far, is left out; what
// the log can not take is of a pipeline that can not go on.
func (s *Scheduler) record(ctx context.Context, happened [][]deploylog.Event) error {
	events := slices.Concat(happened...)
	if len(events) == 0 {
		return nil
	}
	_, err := s.pipelines.Record(ctx, events)
	duplicate, invalid := errors.Is(err, deploylog.ErrDuplicate), errors.Is(err, deploylog.ErrInvalid)
	switch {
	case !duplicate && !invalid:
		return err
	case len(happened) > 1:
	case invalid:
		name, _ := PipelineOf(events[0].Target)
		s.leaveOut(name, err)
		return nil
	case len(events) == 1:
		return nil
	default:
		happened = slices.Collect(slices.Chunk(events, 1))
	}
	for i := range happened {
		if err := s.record(ctx, happened[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}
