package env

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

func checkQuery(query string) error {
	_, err := inventory.ParseQuery(query)
	return err
}

// readEnvironment reads a definition. The manifest that it names is looked for
// beside it, and known by its path below the workspace.
func readEnvironment(a *app.App, file string) (*environment.Definition, error) {
	text, err := work.ReadFile(file)
	if err != nil {
		return nil, exit.Invalid(err)
	}
	d, err := environment.Parse(file, text, checkQuery)
	if err != nil {
		return nil, exit.Invalid(err)
	}
	return d, place(a, d, filepath.Dir(file), file+": task.manifest ")
}

// place makes the path of a definition's manifest, which is relative to a
// directory, one below the workspace.
func place(a *app.App, d *environment.Definition, dir, where string) error {
	at := filepath.Join(dir, filepath.FromSlash(d.Task.Manifest))
	below, err := session.ManifestBelow(a.Workspace, at)
	if err != nil {
		return exit.Usage("%s%s: %w", where, at, err)
	}
	d.Task.Manifest = below
	return nil
}

// pin makes a definition one of its manifest's present text, which it returns.
func pin(a *app.App, d *environment.Definition) ([]byte, error) {
	text, err := work.ReadFile(filepath.Join(a.Workspace, filepath.FromSlash(d.Task.Manifest)))
	if err != nil {
		return nil, exit.Invalid(err)
	}
	d.Task.Digest = work.ManifestDigest(text)
	return text, nil
}

// checkTask makes sure that the manifest of a definition is sound, and what it
// makes can be removed again.
func checkTask(ctx context.Context, a *app.App, log deploylog.Log, d *environment.Definition, text []byte, selected []string, flags workFlags) (err error) {
	workers, err := session.OpenWorkers(a, log, flags.WorkerFlags, a.Err)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workers.Close()) }()
	ctx, signals := interrupt.Handle(ctx, func(string) {})
	defer signals.Done()
	asking, cancel := signals.Context(ctx)
	defer cancel()
	err = workers.Tasks.Removable(asking, d, text, selected, func(unread []manifest.Problem) error { return session.WarnUnread(a, unread, flags.Input.Strict) })
	if signals.Count.Load() > 0 {
		return exit.Reported(runner.ErrInterrupted)
	}
	return err
}

// neverStops reports whether no running task may ever be stopped.
func neverStops(c environment.Configuration, hosts int) bool {
	return c.Method == environment.Replace && hosts > 0 && c.Minimum(hosts) == hosts
}

// noticeSurprises says what may be meant, but surprises.
func noticeSurprises(a *app.App, d *environment.Definition, hosts []string) {
	switch {
	case len(hosts) == 0:
		fmt.Fprintf(a.Err, "note: the query %s selects no hosts at present: desired 0\n", view.Clean(d.InstanceGroup.Query))
	case neverStops(d.Deployment, len(hosts)):
		fmt.Fprintf(a.Err, "note: with Replace and a min_healthy_percent of %d no running task of %s may ever be stopped: a later revision needs env deploy --min-healthy-percent, or the method Surge\n",
			d.Deployment.MinHealthyPercent, phrase.Count(len(hosts), "host"))
	}
}
