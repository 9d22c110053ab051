// Package runner plans and applies a manifest on a container engine.
//
// A run has three parts (seed "Deployment lifecycle & resource protocol"). All
// resource types are initialized at once; what can be refused without touching
// anything is refused then. The resources are walked in parallel, each as soon
// as what it depends on is verified: its expressions are resolved, its state
// is discovered, and, when applying, its actions run and the state is
// discovered again, which must now be VALID.
//
// The runner owns the meaning of the protocol and nothing else: containers are
// the Engine's, durable facts the Recorder's, what people see the Observer's,
// what a person answers the Confirmer's, and exclusion between runs the
// Guard's.
package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/manifest"
)

// DefaultTimeout bounds one container of a resource that sets no timeout, so
// that an image that hangs ends a run rather than a night.
const DefaultTimeout = 30 * time.Minute

// Spec is what a run does. Fields are required unless they say otherwise.
type Spec struct {
	Manifest    *manifest.Manifest
	Variables   map[string]any
	Expressions *expression.Evaluator
	KeepGoing   bool      // after a failure, go on with what does not depend on it
	InitCache   InitCache // may be nil: each type is asked
	Version     string    // Deployster's, which types are given
	Verbose     bool      // which types are given

	// Saved plans. A Fingerprint identifies a JSON-like value: equal ones have the
	// same, others another. With Bound, by name of resource, each one is refused
	// with a *DeviationError where it is not as the plan found it.
	Fingerprint func(any) (string, error) // may be nil: a Plan has no hashes, and Bound is nil
	Bound       map[string]ResourcePlan   // of Apply; may be nil: whatever is needed is done

	// Remove names what Destroy and PlanDestroy remove, and must hold all that
	// depends on any of it; nil is everything.
	Remove []string
}

// Containers is how a run runs its containers. Fields are required unless they say
// otherwise.
type Containers struct {
	Engine Engine
	Images Images

	Parallelism int               // how many resources are worked on at once, at least 1; so many containers may also wait for their turn
	Pull        engine.PullPolicy // when an image is fetched
	Network     string            // of every container; "" is the engine's default
	Memory      int64             // bytes of every container; 0 is the engine's default
	Pids        int64             // processes and threads of every container; 0 is the engine's default
	Remote      bool              // the engine does not see this machine's files: no workspace, no work directory
	Stop        <-chan struct{}   // may be nil; closed: start nothing new, let running actions finish
	Now         func() time.Time  // the clock

	Run       string // ULID of this run
	Log       string // id of the deployment log, put on every container
	Place     string // where the resources are, of a manifest that is applied in several places; "" is none
	Workspace string // absolute; mounted read-only into every container
	Work      string // absolute; below it each invocation has a directory
}

// Caller is who asks for a Plan, an Apply and the like, and is asked and notified
// while it lasts. The zero Caller observes nothing, records nothing and agrees.
type Caller struct {
	Observer  Observer           // may be nil
	Recorder  Recorder           // of Apply and Destroy; may be nil: nothing is recorded
	Guard     Guard              // may be nil: nobody else works on these resources
	Details   map[string]string  // what else identifies the run; goes into RunStarted
	Confirm   ConfirmMode        // "" is ConfirmNo
	Confirmer Confirmer          // may be nil when Confirm is ConfirmNo or ConfirmOnce
	Crashed   func(*crash.Error) // may be nil; is told of each panic at once, also of those that the run can not tell of

	// Gone tells Destroy and PlanDestroy what is known of a resource that can not
	// be asked; may be nil: nothing is.
	Gone func(ctx context.Context, resource string) (Absence, error)
}

// Runner does one run of one manifest. It does one thing at a time.
type Runner struct {
	spec       Spec
	containers Containers
	caller     Caller // of what is being done
	resources  []*resource
	byName     map[string]*resource
	images     imageCache
	inits      initAnswers
	servers    servers
	secrets    secrets
	observing  sync.Mutex
	asking     sync.Mutex

	room       chan struct{}  // for containers that wait for their turn
	background sync.WaitGroup // of them

	prepared bool
	applying bool                  // only an Apply is recorded; set before anything runs at once
	broken   atomic.Pointer[error] // a failed Recorder
	crash    atomic.Pointer[crash.Error]
}

// ErrInterrupted is returned, wrapped, when a run ended because of Stop or a
// cancelled context.
var ErrInterrupted = errors.New("interrupted")

// New prepares a run; nothing is started yet.
func New(spec Spec, containers Containers) *Runner {
	containers.Parallelism = max(1, containers.Parallelism)
	r := &Runner{spec: spec, containers: containers, byName: map[string]*resource{}, room: make(chan struct{}, containers.Parallelism)}
	for _, m := range spec.Manifest.Resources {
		res := &resource{Resource: m, dependsOn: spec.Manifest.Dependencies(m.Name), dir: filepath.Join(containers.Work, m.Name)}
		r.resources = append(r.resources, res)
		r.byName[m.Name] = res
	}
	return r
}

func (r *Runner) now() time.Time { return r.containers.Now() }

// State is what a resource was last seen to be: VALID by an Apply, and as it was
// found by a Drift. It is nil while that is not known, and where there is nothing.
func (r *Runner) State(resource string) map[string]any {
	if res := r.byName[resource]; res != nil {
		return res.state
	}
	return nil
}

// Placed tells the resources of several places apart, as labels and the log name
// them: "db@host1".
func Placed(resource, place string) string {
	if place == "" {
		return resource
	}
	return resource + "@" + place
}

// headers describes the resources of the run in graph order.
func (r *Runner) headers() []ResourceHeader {
	headers := make([]ResourceHeader, 0, len(r.byName))
	for _, m := range r.spec.Manifest.Resources {
		if res := r.byName[m.Name]; !res.apart {
			headers = append(headers, ResourceHeader{Name: res.Name, Type: res.Type, DependsOn: res.dependsOn})
		}
	}
	return headers
}

// emit stamps and masks an event, has it recorded where its kind asks for it,
// and shows it. It fails when recording fails, and from then on always.
func (r *Runner) emit(ctx context.Context, e Event) (err error) {
	defer r.caught(&err, "telling of "+string(e.Kind))
	e.Time = r.now()
	r.secrets.maskEvent(&e)
	if broken := r.broken.Load(); broken != nil {
		return *broken
	}
	if e.Kind.Recorded() && r.applying && r.caller.Recorder != nil {
		// A cancelled run still tells the truth about how it ended.
		if err := r.caller.Recorder.Record(context.WithoutCancel(ctx), e); err != nil {
			err = fmt.Errorf("recording %s: %w", e.Kind, err)
			r.broken.CompareAndSwap(nil, &err)
			return err
		}
	}
	r.show(e)
	return nil
}

// show tells the Observer of something that is not recorded.
func (r *Runner) show(e Event) {
	if r.caller.Observer == nil {
		return
	}
	r.observing.Lock()
	defer r.observing.Unlock()
	r.caller.Observer.Observe(e)
}

// tell shows a piece of news about a resource.
func (r *Runner) tell(kind EventKind, resource, action, text string) {
	r.show(Event{Kind: kind, Time: r.now(), Resource: resource, Action: action, Text: r.secrets.mask(text)})
}

func (r *Runner) stopped() bool {
	select {
	case <-r.containers.Stop:
		return true
	default:
		return false
	}
}

// stoppable returns a context that also ends when Stop is closed: for waiting,
// pulling and observing, which change nothing and can be cut short.
func (r *Runner) stoppable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if r.containers.Stop == nil {
		return ctx, func() { cancel(nil) }
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-r.containers.Stop:
			cancel(ErrInterrupted)
		case <-done:
		}
	}()
	return ctx, func() { close(done); cancel(nil) }
}

// interrupted turns the error of something that was cut short by Stop or by
// the context into ErrInterrupted.
func (r *Runner) interrupted(ctx context.Context, err error) error {
	if err != nil && (r.stopped() || ctx.Err() != nil) && !errors.Is(err, ErrInterrupted) {
		return fmt.Errorf("%w (%w)", ErrInterrupted, err)
	}
	return err
}
