// Package reconcile is the one loop that every controller runs.
//
// The deployment log is folded into entities of a kind, each a pure state machine. What
// may be done about one is derived from its state, never stored. A Loop follows the log
// and puts into its queue whatever has changed: an entity of which there is an event, for
// which time has passed, a slot is free, or something was observed outside the log. A
// pass takes the decide lock of the kind, reads what is new, decides about the queued
// entities, and appends what it decided; only then the work begins. So what is in the log
// was decided from all that is before it, and whoever comes after a crash finds what had
// begun. How work ended is a fact, and recorded in any case.
//
// A loop controls the entities whose lock it holds. It takes the locks of its Scope, and
// stands by for those that another process holds. Locks are the kernel's, or those of a
// session with a database: a process that dies leaves none. Loops of all entities, on
// several machines perhaps, share them, see share.go.
//
// A Tenant supplies what is particular to a kind: what it observes, decides and does. The
// one in loop_test.go is the smallest, and shows what every loop stands.
//
// All of a loop is done by one goroutine, that of Run. Work and other jobs have their
// own, and come back as functions that the loop calls.
package reconcile

import (
	"context"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Tenant is what the loop serves: entities of one kind, each with a state machine.
// All methods are called by the goroutine of the loop; none may wait.
type Tenant[S Machine, K comparable] interface {
	// Acquired and Released tell that the loop controls an entity from now on, or no
	// more.
	Acquired(name string)
	Released(name string)

	// Received is called with an event of an entity that the loop controls, and reports
	// whether more may be possible by it.
	Received(name string, e deploylog.Event) (more bool)

	// Tick is called each second, and before anything else.
	Tick()

	// Observe looks at the world outside the log, for a share of a second at most, and
	// reports whether there is something to record. No lock is held, so it may take
	// long where it must.
	Observe() (found bool)

	// Observed returns what is to be recorded of that, in about so many events, and
	// whether there is more. The decide lock is held. Nothing is decided before all is
	// recorded, but others may have the lock in between.
	Observed(most int) (some []Observation, more bool)

	// Decide adds what may be done about an entity now. The decide lock is held.
	Decide(name string, s S, d *Decision[K])

	// Declines is why an entity is not to be controlled here, "" if it may be. What is
	// declined another loop may control. Reconsider has it asked again.
	Declines(s S) string

	// Idle reports whether nothing is under way as far as the log goes.
	Idle(s S) bool

	// Probe begins the probes that are due (see Loop.Go). It returns when there is
	// more to observe or to probe, zero is never, and whether all is seen that is to be
	// before anything can be called idle.
	Probe() (next time.Time, seen bool)
}

// Observation is what is to be recorded of something that was observed.
type Observation struct {
	Entity string
	Events []deploylog.Event
}

// Bare is embedded by tenants that need less: it observes and probes nothing.
type Bare struct{}

// Acquired implements Tenant.
func (Bare) Acquired(string) {}

// Released implements Tenant.
func (Bare) Released(string) {}

// Received implements Tenant.
func (Bare) Received(string, deploylog.Event) bool { return true }

// Tick implements Tenant.
func (Bare) Tick() {}

// Observe implements Tenant.
func (Bare) Observe() bool { return false }

// Observed implements Tenant.
func (Bare) Observed(int) ([]Observation, bool) { return nil, false }

// Probe implements Tenant.
func (Bare) Probe() (time.Time, bool) { return never, true }

// Observer is notified of what a loop does, one call at a time, in the order in which it
// happened. The loop goes on when the call returns, and holds no lock until then.
type Observer interface {
	Recorded(e deploylog.Event)
	Notice(text string)
}

// Informed is an Observer that is told apart what is as it is to be.
type Informed interface {
	Inform(text string)
}

// Inform tells an observer what is as it is to be, as a notice where it takes that alone.
func Inform(o Observer, text string) {
	if informed, can := o.(Informed); can {
		informed.Inform(text)
	} else {
		o.Notice(text)
	}
}

// Options are those of every loop. All fields are required but where it says otherwise.
type Options struct {
	Log         deploylog.Log
	Scope       *Scope      // what it is to control; nil is all
	Name        string      // what it is known as among loops that share all entities, see share; "" takes none while there are such
	Parallelism int         // work that is done at once; also, so many probes are
	MaxEntities int         // controlled at once, each of which keeps a file open; 0 is any number
	UntilIdle   bool        // end when no progress is possible
	Drain       Drain       // may be nil
	Commands    *Precedence // commands of this process that it gives way to; may be nil
	Now         func() time.Time
}

// Setup is what makes a loop that of a tenant.
type Setup[S Machine, K comparable] struct {
	Options
	Fold        *Fold[S] // of nobody else
	Tenant      Tenant[S, K]
	Observer    Observer
	Role        string                // what people call the process: controller
	Slots       func(host string) int // how much work may be done on a host at once
	Interrupted error                 // what work fails with that gave up because of a drain

	// Conditional has Result called with the decide lock held and the log followed, for a
	// tenant whose results have consequences that depend on the newest commands.
	Conditional bool

	// Together has how work ended, what was observed, and what is decided then, made durable at
	// once, with the decide lock held.
	Together bool
}

// Drain is closed when nothing new may begin and what runs may finish; nil never is.
// To end at once is what a context is for.
type Drain <-chan struct{}

// Started reports whether the drain has started.
func (d Drain) Started() bool {
	select {
	case <-d:
		return true
	default:
		return false
	}
}

// Context returns a context that also ends when the drain starts, for what is only
// waited for.
func (d Drain) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-d:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
