package session

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/deployster-go/deployster/control/locked"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// AskActions asks types which images they name for their own actions, as the runs of workers
// with these flags will. Nothing of it is recorded.
func AskActions(a *app.App, f WorkerFlags) (work.AskActions, error) {
	return askActions(a, f, ofRevision)
}

// AskLockedActions is AskActions with the contents that a lock has, which is being written.
func AskLockedActions(a *app.App, f WorkerFlags) (work.AskActions, error) {
	return askActions(a, f, locked.Pinned)
}

// carrying makes images available with the contents that something carries.
type carrying func([]revision.Image, revision.Holder) revision.Pinned

func ofRevision(carried []revision.Image, holder revision.Holder) revision.Pinned {
	return revision.Pinned{Holder: holder, Carried: carried, Carrier: "the revision", Anew: "make it again"}
}

func askActions(a *app.App, f WorkerFlags, pinned carrying) (work.AskActions, error) {
	c, err := config(a, nil, f.Input, f.Engine)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, on *work.Connection, m *manifest.Manifest, resources []string, carried []revision.Image) (map[string][]string, map[string]error) {
		r, end := asking(a, c, on, &work.Input{Manifest: m, Expressions: expression.New(a.Workspace)}, pinned(carried, on.Images))
		defer end()
		return r.ActionImages(ctx, runner.Caller{Crashed: c.Crashed}, resources)
	}, nil
}

// Accepted asks the types of an input, with the contents that are carried, whether they
// accept it, and shows what they warn of. Nothing of it is recorded.
func Accepted(ctx context.Context, a *app.App, f WorkerFlags, on *work.Connection, in *work.Input, carried []revision.Image) error {
	c, err := config(a, nil, f.Input, f.Engine)
	if err != nil {
		return err
	}
	r, end := asking(a, c, on, in, ofRevision(carried, on.Images))
	defer end()
	return r.Accepted(ctx, runner.Caller{Crashed: c.Crashed, Observer: warnings{a}})
}

// warnings shows the warnings of types, and nothing else.
type warnings struct{ app *app.App }

func (w warnings) Observe(e report.Event) {
	if e.Kind == report.Warning {
		fmt.Fprintf(w.app.Err, "warning: %s\n", view.Clean(e.Resource+": "+e.Text))
	}
}

// asking is a runner that only asks types, and what removes its files.
func asking(a *app.App, c work.Config, on *work.Connection, in *work.Input, images revision.Pinned) (r *runner.Runner, end func()) {
	id := a.NewID()
	dir := filepath.Join(a.Workspace, engine.StateDir, "work", id)
	return runner.New(runner.Spec{
		Manifest: in.Manifest, Variables: in.Variables, Secrets: in.Secrets, Expressions: in.Expressions, InitCache: c.InitCache, InitAnswers: c.InitAnswers, Version: c.Version, Verbose: c.Verbose,
	}, runner.Containers{
		Engine: on.Engine, Images: images, Parallelism: c.Parallelism, Pull: c.Pull,
		Network: c.Network, Memory: c.Memory, Pids: c.Pids, MaxWork: c.MaxWork, Remote: on.Info.Remote, Copies: on.Info.Copies, Works: on.Info.Works, Pins: on.Info.Pins, Run: id, Workspace: a.Workspace, Work: dir, Now: c.Now, Forget: true,
	}), func() { _ = os.RemoveAll(dir) } // at worst they stay
}
