package pipelines

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
)

// Worker does what steps of pipelines ask for.
type Worker interface {
	// Work applies the manifest of a step. What it does must be safe to do
	// again, for a scheduler that died may have had it done before. It calls
	// begin before it changes anything, with what makes it known that it has
	// begun, and gives up with the error that begin returns. It returns the
	// references of the artifacts that were made. It is waited for, also when
	// ctx ends.
	Work(ctx context.Context, s pipeline.Step, artifacts map[string]string, begin func(known func() error) error) (made map[string]string, err error)
}

// Spectator is told what a scheduler does, one call at a time, in the order in
// which it happened. The scheduler goes on when the call returns; it holds no
// lock meanwhile.
type Spectator interface {
	Recorded(e deploylog.Event)
	Began(s pipeline.Step) // its work, at each try
	Again(s pipeline.Step, cause error, after time.Duration)
	Notice(text string)
}

// Hosts tells which hosts there are.
type Hosts interface {
	// Members are the hosts of each group of a definition at present.
	Members(d *pipeline.Definition) (map[string][]string, error)

	// Slots is how many steps may run on a host at once.
	Slots(host string) int
}

// SchedulerOptions describes a Scheduler. All fields are required but where it
// says otherwise.
type SchedulerOptions struct {
	Log         deploylog.Log
	Pipelines   []string // none is all there are
	Worker      Worker
	Hosts       Hosts
	Spectator   Spectator
	Parallelism int             // steps that are worked on at once
	UntilIdle   bool            // end when nothing moves any more
	Stop        <-chan struct{} // when closed nothing new begins; may be nil
	NewID       func() string   // of fresh deployments
	Now         func() time.Time
}

// Scheduler carries revisions through pipelines: it looks at the log, does what
// may be done, records that, and looks again (seed "Deployment Log"). All that it
// knows is in the log, so one that dies is replaced by another.
//
// One goroutine, that of Run, decides, records and tells. Each step that is
// worked on has a goroutine of its own, which asks it whether to begin and
// brings it the outcome.
type Scheduler struct {
	SchedulerOptions
	pipelines *Pipelines

	working   map[stepKey]bool
	promoting int                 // of them, those that wait for an environment
	busy      map[string]int      // steps that are worked on, by host
	failures  map[stepKey]failure // of steps that are to be tried again
	asks      chan ask
	outcomes  chan outcome
	asked     []ask // not answered yet

	looked  map[string]look    // by pipeline
	noticed map[string]string  // the last trouble with the hosts of a pipeline
	refused reconcile.Refusals // pipelines that can not go on
	newest  atomic.Int64       // event that the watch has seen
	wake    time.Time          // when the next step is to be tried again; zero is never
	scan    scan
	tidings reconcile.Deferred[Spectator]
	seat    reconcile.Seat
}

// scan tells how thoroughly to look for what may be done, see decide.
type scan struct {
	whole bool          // the next one must be
	last  time.Time     // when the last whole one ended
	took  time.Duration // and how long it took
}

// NewScheduler prepares a scheduler; Run starts it.
func NewScheduler(o SchedulerOptions) *Scheduler {
	o.Parallelism = max(1, o.Parallelism)
	s := &Scheduler{
		SchedulerOptions: o, working: map[stepKey]bool{}, busy: map[string]int{}, failures: map[stepKey]failure{},
		asks: make(chan ask, o.Parallelism), outcomes: make(chan outcome, o.Parallelism),
		looked: map[string]look{}, noticed: map[string]string{},
		seat: reconcile.Seat{Log: o.Log, Lock: lockScheduler, Who: "scheduler", Stop: o.Stop, Notice: func(text string) { o.Spectator.Notice(text) }},
	}
	s.pipelines = NewPipelines(o.Log, o.Now)
	s.refused = s.pipelines.Refusals()
	return s
}

// lockScheduler is held by the one scheduler of a log that does anything.
const lockScheduler = "scheduler"

// Run schedules until the context or Stop ends it, or, with UntilIdle, until
// nothing moves. While another scheduler is at work on the log it stands by. It
// returns when everything that it began has ended. A pipeline whose events the
// log refuses is left out until something new of it is in the log; with
// UntilIdle the error tells. It is called once.
func (s *Scheduler) Run(ctx context.Context) error {
	if err := s.pipelines.Follow(ctx, 0); err != nil { // now, so that a standby has little left to read
		return err
	}
	for _, name := range s.Pipelines {
		if err := s.pipelines.Ask(name, func(*pipeline.State) error { return nil }); err != nil {
			return err
		}
	}
	unlock, err := s.seat.Take(ctx)
	if unlock == nil {
		return err
	}
	defer unlock()
	if err := s.pipelines.Follow(ctx, 0); err != nil {
		return err
	}
	s.pipelines.Told = append(s.pipelines.Told, func(e deploylog.Event) {
		if s.mine(e.Target) {
			s.tell(func(to Spectator) { to.Recorded(e) })
		}
	})
	return s.loop(ctx)
}

func (s *Scheduler) mine(t deploylog.Target) bool {
	name, ok := PipelineOf(t)
	return ok && s.schedules(name)
}

func (s *Scheduler) schedules(name string) bool {
	return len(s.Pipelines) == 0 || slices.Contains(s.Pipelines, name)
}

func (s *Scheduler) tell(what func(Spectator)) { s.tidings.Add(what) }

func (s *Scheduler) flush() { s.tidings.Flush(s.Spectator) }

func (s *Scheduler) loop(ctx context.Context) (err error) {
	watching, cancel := context.WithCancel(ctx)
	news := reconcile.Watch(watching, s.Log, s.pipelines.Head(), s.mine, &s.newest)
	tick := time.NewTicker(reconcile.InventoryPause)
	defer func() {
		tick.Stop()
		cancel()
		for range news { // until the watch has ended
		}
		if err != nil && ctx.Err() == nil && len(s.working) > 0 {
			s.Spectator.Notice(fmt.Sprintf("the scheduler ends when what it has begun is done: %v", err))
		}
		if failed := s.finish(ctx); err == nil {
			err = failed
		}
		s.flush()
	}()
	for {
		s.flush()
		moves, err := s.advance(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case s.seat.Stopped():
			return nil
		case s.UntilIdle && !moves:
			return s.refused.Err()
		}
		if err := s.wait(ctx, news, tick.C); err != nil {
			return err
		}
	}
}

// wait returns when there may be something to do.
func (s *Scheduler) wait(ctx context.Context, news <-chan error, tick <-chan time.Time) error {
	var rested <-chan time.Time
	if !s.wake.IsZero() {
		timer := time.NewTimer(s.wake.Sub(s.Now()))
		defer timer.Stop()
		rested = timer.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.Stop:
			return nil
		case <-rested:
			return nil
		case <-tick:
			clear(s.looked)
			s.forget()
			s.scan.whole = true
			return nil
		case err, ok := <-news:
			if err := reconcile.Heard(ctx, err, ok); err != nil || !ok {
				return err
			}
			if s.newest.Load() > s.pipelines.Head() { // else it is what was recorded here
				s.scan.whole = true
				return nil
			}
		case a := <-s.asks:
			s.asked = append(s.asked, a)
			return s.take(ctx)
		case o := <-s.outcomes:
			return s.take(ctx, o)
		}
	}
}

// take takes what workers ask and bring, as far as it is there, and records it.
func (s *Scheduler) take(ctx context.Context, brought ...outcome) error {
	for {
		select {
		case a := <-s.asks:
			s.asked = append(s.asked, a)
		case o := <-s.outcomes:
			brought = append(brought, o)
		default:
			return s.ended(ctx, brought)
		}
	}
}

// leaveOut leaves a pipeline out, see refusals.
func (s *Scheduler) leaveOut(name string, cause error) {
	if text := s.refused.Add(name, cause); text != "" {
		s.tell(func(to Spectator) { to.Notice(text) })
	}
}

// finish lets end what is being worked on. Nothing of it that has not begun does.
func (s *Scheduler) finish(ctx context.Context) (err error) {
	for {
		for _, a := range s.asked {
			a.answer <- errOver
		}
		s.asked = nil
		s.flush()
		if len(s.working) == 0 {
			return err
		}
		var failed error
		select {
		case a := <-s.asks:
			s.asked = append(s.asked, a)
		case o := <-s.outcomes:
			failed = s.take(ctx, o)
		}
		if err == nil {
			err = failed
		}
	}
}

// advance records what needs no work and begins what does, until nothing of
// either is left. It tells whether anything moves: is worked on, or will be.
func (s *Scheduler) advance(ctx context.Context) (moves bool, err error) {
	for !s.seat.Stopped() {
		s.look()
		begin, more, err := s.round(ctx)
		s.flush()
		for _, b := range begin {
			go s.work(ctx, b.step, b.artifacts)
		}
		if err != nil {
			return true, err
		}
		if !more {
			break
		}
	}
	return len(s.working) > 0 || !s.wake.IsZero(), nil
}
