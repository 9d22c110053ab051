// Package apply carries out one run of manifests that somebody asks for: it applies what
// they declare, or destroys it, on one engine, and records that in the deployment log. The
// command line and a server call the same functions. Who is asked before something changes,
// and who is shown what happens, is theirs.
package apply

import (
	"context"
	"errors"

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
	only     []string // what is pruned, by name; nil is all that is no longer declared
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

// Bind has the run do what a saved plan says, and nothing else.
func (r *Run) Bind(f *planfile.File) {
	r.Spec.Fingerprint, r.Spec.Bound = f.Salt.Fingerprint, f.Bound()
	r.Caller.Details["plan"] = f.Digest
	r.only = append([]string{}, f.Pruned()...)
	r.prune = len(r.only) > 0
}

// Runner is what does the run. It knows what the manifests no longer declare.
func (r *Run) Runner(ctx context.Context) (*runner.Runner, error) {
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
