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
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/inits"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/pins"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/runner/taken"
)

// Spec is what a run does. Fields are required unless they say otherwise.
type Spec struct {
	Manifest    *manifest.Manifest
	Variables   map[string]any
	Secrets     []any // values, or parts of them, that are shown nowhere
	Expressions *expression.Evaluator
	Configure   Configure      // may be nil: configurations are what their expressions come to
	KeepGoing   bool           // after a failure, go on with what does not depend on it
	InitCache   inits.Cache    // may be nil: each type is asked
	InitAnswers *inits.Answers // shared with other runs; may be nil
	Version     string         // Deployster's, which types are given
	Verbose     bool           // which types are given

	// Saved plans. With Bound, by ResourcePlan.Node, each one is refused with a *deviation.Error where it
	// is not as the plan found it.
	Fingerprint pins.Fingerprint               // may be nil: a Plan has no hashes, and Bound is nil
	Bound       map[string]report.ResourcePlan // of Apply; may be nil: whatever is needed is done

	// Replace names resources that Apply removes first, and then makes again.
	Replace []string

	// Undeclared is what runs made and the manifest no longer declares: Plan and Drift list it. With
	// Prune, Apply removes it once all that is declared is as configured, Destroy before the rest, and plans say how.
	Undeclared []report.Undeclared
	Prune      bool

	// Instances is what runs made of the instances of late resources, which may still be declared. It
	// is all that there is where it is Recalled.
	Instances []report.Undeclared
	Recalled  bool

	// Managed is what runs made or adopted already. Adopt makes nothing of it a resource of another name.
	Managed []taken.Thing

	// Left is what a manifest made that is gone and may have been this one: it is listed, and stays.
	Left []report.Undeclared

	// Deposed is what resources were before they came to be another thing, and which is still there: an Apply
	// removes it last, a Destroy with the rest.
	Deposed []report.Undeclared

	// Orphans is what manifests made and nobody declares any more: a Destroy removes it. Each is prepared when it has
	// its turn, and fails for itself; one whose type cannot remove it is skipped. It has its Owner.
	Orphans []report.Undeclared

	// Thing identifies what a resource manages of which there is one, by its configuration; the zero Thing is
	// not known. What is declared is never removed under another name. May be nil: its type says it alone.
	Thing    func(m *manifest.Manifest, r *manifest.Resource, config map[string]any) Thing
	Where    string // the machine of the engine, where that is another one; "" is this one
	EngineID string // the id of that engine, by whichever address it is reached; "" is not known
	Machine  string // tells this machine from others whose runs are in the log; "" is that there are none

	// Key is the key of the hashes of secrets that identify things: of the log, and not in it. If it is nil or
	// fails, such things are not known.
	Key func() ([]byte, error)

	// Remove names what Destroy and PlanDestroy remove, and must hold all that
	// depends on any of it; nil is everything.
	Remove []string
}

// Configure returns what a resource is configured with of what its expressions came to,
// which it does not change. What it refuses is a *manifest.Error.
type Configure func(r *manifest.Resource, config map[string]any) (map[string]any, error)

// Containers is how a run runs its containers.
type Containers = invoke.Containers

// Caller is who asks for a Plan, an Apply and the like, and is asked and notified
// while it lasts. The zero Caller observes nothing, records nothing and agrees.
type Caller struct {
	Observer  Observer           // may be nil
	Recorder  Recorder           // of Apply and Destroy; may be nil: nothing is recorded
	Guard     Guard              // may be nil: nobody else works on these resources
	Details   map[string]string  // what else identifies the run; goes into RunStarted
	Confirm   ConfirmMode        // "" is ConfirmNo
	Confirmer Confirmer          // may be nil when Confirm is ConfirmNo or ConfirmOnce
	Crashed   func(*crash.Error) // may be nil; called for each panic at once, also for those that the run cannot report

	// Absence returns to Destroy and PlanDestroy what is known of a resource that cannot
	// be asked; may be nil: nothing is.
	Absence func(ctx context.Context, resource string) (Absence, error)

	// Past returns what earlier runs left of a resource; may be nil: nothing.
	Past PastFunc

	Owners Owners // may be nil: no other manifest manages anything

	// Stays returns why something undeclared is not to be removed any more when it has its turn, as a report.Skip
	// where nothing is wrong with that; nil is that it is. May be nil.
	Stays func(ctx context.Context, u report.Undeclared) error
}

// Runner does one run of one manifest. It does one thing at a time.
type Runner struct {
	spec       Spec
	containers Containers
	caller     Caller      // of what is being done
	resources  []*resource // in graph order, and behind them the orphans
	orphans    []*resource // that are to be removed, since the manifest no longer declares them
	byNode     map[string]*resource
	inits      *inits.Answers
	secrets    *invoke.Secrets
	hides      atomic.Bool // variables that may not be shown are among the secrets
	panics     *invoke.Panics
	invoker    *invoke.Invoker
	observing  sync.Mutex
	paths      sync.Map // paths of plugs, without links
	asking     sync.Mutex

	engineMentioned sync.Once // that it is another one

	former  bool // all of it was made by earlier runs, and is asked or removed
	nested  []manifest.Problem
	written []string // to which types of this run may write, once all of these have answered

	outputs   report.Outputs // what an Apply came to
	prepared  bool
	applying  bool                        // only an Apply is recorded; set before anything runs at once
	adoptions map[string]*report.Adoption // of an Adopt, by name
	room      *manifest.Room              // that the instances of late resources have together
	recalls   bool                        // what runs made of late resources counts, whatever these are now
	shown     bool                        // a Plan has warned of what an Apply would: one with changes is shown before
	closing   *report.Skip                // why nothing of an Apply begins any more; nil while it goes on
	broken    atomic.Pointer[error]       // a failed Recorder
}

// ErrInterrupted is returned, wrapped, when a run ended because of Stop or a
// cancelled context.
var ErrInterrupted = invoke.ErrInterrupted

// New prepares a run; nothing is started yet.
func New(spec Spec, containers Containers) *Runner {
	containers.Parallelism = max(1, containers.Parallelism)
	r := &Runner{spec: spec, containers: containers, byNode: map[string]*resource{}, secrets: &invoke.Secrets{}, room: spec.Manifest.Room()}
	r.inits = cmp.Or(spec.InitAnswers, &inits.Answers{})
	if len(spec.Secrets) > 0 {
		r.hide(spec.Secrets)
	}
	r.panics = invoke.NewPanics(r.secrets, r.reportPanic)
	r.invoker = invoke.New(containers, r.secrets, r.panics, callObserver{r})
	for _, m := range spec.Manifest.Resources {
		r.add(&resource{Resource: m, dependsOn: spec.Manifest.Dependencies(m.Name), manifest: spec.Manifest})
	}
	for _, u := range spec.Instances {
		if m := spec.Manifest.Stands(u.Name); m != nil {
			r.byNode[m.Name].made = append(r.byNode[m.Name].made, u)
		}
	}
	if spec.Prune {
		for _, u := range spec.Undeclared {
			if u.Deposed {
				r.addPrevious(u, false, nil)
			} else {
				r.orphan(orphan(u))
			}
		}
	}
	for _, u := range spec.Deposed {
		r.addPrevious(u, false, nil)
	}
	named := map[string]int{}
	for i, u := range spec.Orphans {
		named[u.Name]++
		r.addOrphan(u, i, named[u.Name])
	}
	return r
}

func (r *Runner) add(res *resource) {
	res.target, res.named = invoke.Target{Name: res.Name, Type: res.Type, Timeout: res.Timeout, Apart: res.apart()}, map[string]*resource{}
	r.resources = append(r.resources, res)
	r.byNode[res.node()] = res
}

// orphan adds what is no longer declared, to be removed.
func (r *Runner) orphan(res *resource) {
	if res.shadowed = r.byNode[res.Name] != nil; res.shadowed {
		res.unprepared = true // what is said of it is said when the late resource has made way for its instances
	}
	r.add(res)
	r.orphans = append(r.orphans, res)
}

// declared are the resources that the manifest declares, in graph order.
func (r *Runner) declared() []*resource { return r.resources[:len(r.resources)-len(r.orphans)] }

func (r *Runner) now() time.Time { return r.containers.Now() }

// Names are those of all that the manifest declares, with the instances that the run found, in graph
// order.
func (r *Runner) Names() (names []string) {
	for _, res := range each(r.declared()) {
		names = append(names, res.Name)
	}
	return names
}

// State is what a resource was last seen to be: VALID by an Apply, and as it was
// found by a Drift. It is nil while that is not known, and where there is nothing.
func (r *Runner) State(resource string) map[string]any {
	if res := r.find(resource); res != nil {
		return res.state
	}
	return nil
}

// headers describes the resources of the run in graph order.
func (r *Runner) headers() []report.ResourceHeader {
	headers := make([]report.ResourceHeader, 0, len(r.resources))
	for _, m := range r.spec.Manifest.Resources {
		if res := r.byNode[m.Name]; !res.excluded {
			headers = append(headers, res.header())
		}
	}
	for _, res := range r.orphans {
		if res.shadowed {
			continue
		}
		headers = append(headers, res.header())
	}
	return headers
}

func (r *Runner) reportPanic(c *crash.Error) {
	if r.caller.Crashed != nil {
		r.caller.Crashed(c)
	}
}

// guarded has a thing done to a resource; a panic is an error like any other.
func guarded[T any](ctx context.Context, r *Runner, res *resource, doing string, run func(context.Context, *resource) (T, error)) (got T, err error) {
	defer r.panics.Catch(&err, fmt.Sprintf("%s %s (%s)", doing, res.Name, res.Type))
	return run(ctx, res)
}
