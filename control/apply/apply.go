// Package apply carries out one run of manifests that somebody asks for: it applies what
// they declare, or destroys it, on one engine, and records that in the deployment log. The
// command line and a server call the same functions. Who is asked before something changes,
// and who is shown what happens, is theirs.
package apply

import (
	"context"
	"errors"
	"slices"

	"github.com/deployster-go/deployster/control/managed"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/report"
)

// Order says what a run is to do.
type Order struct {
	Command  string            // as the log names it, such as "apply"
	Files    []string          // of the manifests
	Removing bool              // it destroys what the manifests declare, or those of it that the input says
	Prune    bool              // it removes what the manifests no longer declare
	Details  map[string]string // what else the log names of the run; may be nil
	Stop     <-chan struct{}   // closed when nothing new is to begin
}

// Run is a run that is ready to begin.
type Run struct {
	*work.Run
	removing bool
	prune    bool
	orphans  *managed.Orphans // that it removes; nil is none
	only     []string         // what is pruned, by name; nil is all that is no longer declared
}

// Prepare describes a run of an input on an engine. It asks nobody, and changes nothing.
func Prepare(c *work.Config, in *work.Input, on *work.Connection, o Order) *Run {
	r := &Run{Run: c.Prepare(in, on, work.Request{Command: o.Command, Files: o.Files, Details: o.Details}), removing: o.Removing, prune: o.Prune}
	r.Containers.Stop = o.Stop
	r.Records()
	if r.removing {
		r.Removes(in.Remove)
	}
	return r
}

// Place is where the containers of the run are, as saved plans say it.
func (r *Run) Place() planfile.Engine {
	return planfile.Engine{Name: r.Info.Name, Address: r.Info.Address, Network: r.Containers.Network, Remote: r.Info.Remote}
}

// LogNow is where the log is, as saved plans say it. It is found out before anything is planned.
func (r *Run) LogNow(ctx context.Context) (planfile.Log, error) {
	seq, err := runs.Position(ctx, r.Control.Log)
	return planfile.Log{ID: r.Control.Log.ID(), Event: seq}, err
}

// Bind has the run do what a saved plan says, and nothing else. again has it done from its beginning, whatever
// runs have done of it.
func (r *Run) Bind(f *planfile.File, again bool) {
	r.Spec.Fingerprint, r.Spec.Bound = f.Salt.Fingerprint, f.Bound()
	planned := runs.Planned{ID: f.Digest, Again: again, After: f.Log.Event, Resources: f.Resources}
	if f.Log.ID != r.Control.Log.ID() { // its events are none of this log
		planned.After, planned.Since = 0, f.Made()
	}
	r.does(planned)
	r.only = append([]string{}, f.Pruned()...)
	r.prune = len(r.only) > 0
}

// does has the run do a plan, and no other run at the same time.
func (r *Run) does(p runs.Planned) {
	r.Control.Planned = &p
	if r.Caller.Details["plan"] = p.ID; p.Again {
		r.Caller.Details["again"] = "true"
	}
}

// resume has the run do only what is left of the plan. It fails with a *runs.AppliedError where nothing is left, and
// with a *runs.OutdatedError where another run changed what the plan is of.
func (r *Run) resume(ctx context.Context) (unlock func(), err error) {
	if r.Control.Planned == nil {
		return func() {}, nil
	}
	waiting, cancel := r.Containers.Stop.Context(ctx)
	defer cancel()
	unlock, err = runs.LockPlan(waiting, r.Control.Log, r.Control.Planned.ID, r.Control.Notice)
	if err != nil {
		return nil, r.Containers.Stop.Interrupted(ctx, err)
	}
	done, err := r.Control.Planned.Read(ctx, r.Control.Log, r.Control.Target)
	if err != nil {
		unlock()
		return nil, err
	}
	for node, planned := range r.Spec.Bound {
		planned.DoneBy = done.Done[node]
		r.Spec.Bound[node] = planned
	}
	r.Spec.Replace = slices.DeleteFunc(slices.Clone(r.Spec.Replace), func(name string) bool { return done.Done[name] != "" || done.Removed[name] })
	return unlock, nil
}

// Runner is what does the run. It knows what the manifests no longer declare.
func (r *Run) Runner(ctx context.Context) (*runner.Runner, error) {
	if r.orphans != nil {
		if err := r.recallOrphans(ctx); err != nil {
			return nil, err
		}
		return runner.New(r.Spec, r.Containers), nil
	}
	if err := r.Recall(ctx, r.removing, r.prune, r.only); err != nil {
		return nil, err
	}
	return runner.New(r.Spec, r.Containers), nil
}

// Plan plans what the run would do.
func (r *Run) Plan(ctx context.Context, with *runner.Runner) (*report.Plan, error) {
	if r.removing {
		return with.PlanDestroy(ctx, r.Caller)
	}
	return with.Plan(ctx, r.Caller)
}

// Execute carries the run out. Before it changes anything, and when it has its place in the
// log, ask may show what it would do, complete the Caller, and refuse.
func (r *Run) Execute(ctx context.Context, mode runner.ConfirmMode, keepGoing bool, ask func(*runner.Runner) error) error {
	unlock, err := r.resume(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	held, err := r.Begin(ctx)
	if err != nil {
		return err
	}
	defer held.End()
	r.Caller.Confirm, r.Spec.KeepGoing = mode, keepGoing
	with, err := r.Runner(ctx)
	if err != nil {
		return err
	}
	if err := ask(with); err != nil {
		return err
	}
	if r.removing {
		_, err = with.Destroy(ctx, r.Caller)
	} else {
		_, err = with.Apply(ctx, r.Caller)
	}
	return err
}

// Told reports whether the events of a run have said why it failed.
func Told(err error) bool {
	var failed *failure.Error
	var invalid *manifest.Error
	return errors.As(err, &failed) || errors.As(err, &invalid) || errors.Is(err, runner.ErrInterrupted)
}
