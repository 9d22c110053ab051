// Package runs is the run of a manifest in the deployment log. A Run holds the run's
// lock, turns what the runner reports into events, keeps two runs from working on one
// resource at once, and clears up after runs whose process died: their containers are
// waited for or removed, and their open entries in the log are closed with what can
// still be known. Locks are held by the kernel for a living process, so there never is
// a stale one to break by hand.
package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// Containers is what a Run needs of an engine to deal with what dead runs left.
type Containers interface {
	Containers(ctx context.Context, labels map[string]string) ([]engine.Container, error)
	Wait(ctx context.Context, id string) (engine.Exit, error)
	Remove(ctx context.Context, id string) error
}

// Options describes a run to Begin. All fields are required unless they say
// otherwise.
type Options struct {
	Log      deploylog.Log
	Engine   Containers
	Engines  Engines          // may be nil: every run on this log uses Engine
	ID       string           // ULID of the run
	Target   deploylog.Target // see RunTarget
	Revision string           // of what is applied; "" of a run that destroys, for that leaves none
	Notice   func(string)     // receives in a sentence what was found of dead runs
	Pasts    *Pasts           // of the log, which may be those of other runs, too; may be nil: each question reads it
	Sweeps   *Sweeps          // may be nil: this run looks for what all dead runs left on the engine
	Place    string           // where the resources are, of a manifest that is applied in several places; "" is none
	Ended    func()           // called at the end; may be nil

	Protected *protected.Store // of what is kept of resources and may be secret; may be nil where no resource is worked on

	// Step is the step of a pipeline on a host that the run is of. It records what it makes, which the last
	// step there removes when no step declares it any more. The zero Step is none.
	Step Step

	// Manifest are the files of the manifest, sorted, of a run that records what it makes, so that it can be
	// removed when the manifest no longer declares it; nil is one that does not, as of what is applied in places,
	// but for instances that are found out in the run.
	Manifest     []string
	Whole        bool                          // the run is of all that the manifest declares
	ManifestName string                        // that the manifest says it has; "" is none
	Workspace    string                        // where the manifest is
	Machine      string                        // tells this machine from others that have the log; "" is not known
	Moved        func(string) string           // the name of a resource by the one that it had before; may be nil
	Identify     func(Making) *report.Identity // of what former versions recorded; may be nil
	History      *History                      // of the log; may be nil: the run reads it

	Planned *Planned // that the run does, of which Read has looked; nil is none

	Request json.RawMessage   // of its first event: the request that the run is for; nil is none
	Carries map[string]string // of its first event: digests of what is applied, by path; nil is what lies in the workspace

	// OrphanTimeout is how long a run waits for an action that a dead run left
	// running, before it stops that action.
	OrphanTimeout time.Duration

	// Meaning identifies what the manifest and the variables make of a resource,
	// for it may be another thing with others; "" is not known. It goes into the
	// log of a run that destroys, so each salt is to give another one. May be nil:
	// then Gone proves nothing.
	Meaning func(salt, resource string) string
}

// Run is one run's place in the deployment log. It is a runner.Recorder and a
// runner.Guard.
type Run struct {
	o         Options
	unlock    func()
	recovered atomic.Bool // it closed a run whose process died

	mu      sync.Mutex
	history *History                     // of Options.Manifest
	opened  map[EngineUsed]*openedEngine // of dead runs
	lost    map[string]bool              // resources of this run of whose action the end is not known
}

// Watch begins a run that observes and records nothing: it only holds the
// run's lock, so that its containers are known to have an owner.
func Watch(o Options) (*Run, error) {
	unlock, err := o.Log.TryLock(runLock(o.ID))
	if err != nil {
		return nil, fmt.Errorf("locking run %s: %w", o.ID, err)
	}
	if o.Meaning == nil {
		o.Meaning = func(string, string) string { return "" }
	}
	if o.Place != "" {
		o.Manifest = nil
	}
	return &Run{o: o, unlock: unlock, opened: map[EngineUsed]*openedEngine{}, lost: map[string]bool{}}, nil
}

// Begin begins a run that changes things: it holds the run's lock and closes
// what earlier runs of the same target left open because their process died.
func Begin(ctx context.Context, o Options) (*Run, error) {
	r, err := Watch(o)
	if err != nil {
		return nil, err
	}
	if err := r.closeOrphanedRuns(ctx); err != nil {
		r.recovered.Store(false) // the next run looks once more, too
		r.End()
		return nil, err
	}
	if r.history = o.History; o.Manifest != nil && r.history == nil {
		if r.history, err = ReadHistory(ctx, o.Log, o.Identify); err != nil {
			r.End()
			return nil, err
		}
	}
	return r, nil
}

// End gives the run's lock back. No other method may be called any more.
func (r *Run) End() {
	if r.recovered.Load() {
		// An engine may have taken until now to make a container for which a run asked
		// as it died. Where it does not answer, the next run removes that container.
		ctx, cancel := context.WithTimeout(context.Background(), confirmTimeout)
		_ = r.removeOrphans(ctx, r.o.Engine)
		cancel()
	}
	for _, e := range r.opened {
		if e.done != nil {
			e.done()
		}
	}
	r.unlock()
	if r.o.Ended != nil {
		r.o.Ended()
	}
	forgetLock(r.o.Log, r.o.ID)
}

// forgetLock removes what is left of the lock of a run that is over. Each run has a lock
// of its own, so that they would become ever more. At worst it stays.
func forgetLock(log deploylog.Log, run string) {
	if p, leaves := log.(deploylog.LockPruner); leaves {
		_ = p.PruneLock(runLock(run))
	}
}

// Enter waits until no other run works on the resource and nothing that a dead
// run started for it still runs, on whichever engine. It fails with a *HeldError
// where that cannot be found out.
func (r *Run) Enter(ctx context.Context, resource string, waiting func(string)) (leave func(), err error) {
	resource = invoke.Placed(resource, r.o.Place)
	if leave, err = r.lock(ctx, string(resourceTarget(resource)), func(err error) {
		waiting(fmt.Sprintf("waits for another run to finish with it (%v)", err))
	}); err != nil {
		return nil, fmt.Errorf("locking resource %s: %w", resource, err)
	}
	if err = r.clearResource(ctx, resource, waiting); err == nil {
		err = r.asPlanned(ctx, resource)
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// EnterThing implements runner.Guard.
func (r *Run) EnterThing(ctx context.Context, key, called string, waiting func(string)) (leave func(), err error) {
	name := "thing/" + key
	said := func(err error) string { // the name of the lock says nothing to people
		return strings.ReplaceAll(err.Error(), strconv.Quote(name), "of "+called)
	}
	leave, err = r.lock(ctx, name, func(err error) {
		waiting(fmt.Sprintf("waits for a run that changes, takes over or removes the same thing, %s (%s)", called, said(err)))
	})
	if err != nil {
		return nil, &lockError{"locking " + called + ": " + said(err), err}
	}
	return leave, nil
}

// lockError is why a lock could not be had, in words for people.
type lockError struct {
	text  string
	cause error
}

func (e *lockError) Error() string { return e.text }
func (e *lockError) Unwrap() error { return e.cause }

func (r *Run) lock(ctx context.Context, name string, waiting func(error)) (leave func(), err error) {
	leave, err = r.o.Log.TryLock(name)
	if errors.Is(err, deploylog.ErrLocked) {
		waiting(err)
		leave, err = r.o.Log.Lock(ctx, name)
	}
	return leave, err
}

func runLock(id string) string { return "run/" + id }

// Alive reports whether the process of a run is there: then it holds its lock.
func Alive(log deploylog.Log, run string) bool {
	held, err := log.Locked(runLock(run))
	return held || err != nil
}
