package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// environmentWork are the flags of what looks at and works on tasks.
type environmentWork struct {
	inventory  string
	checkEvery time.Duration
	input      session.Flags
	engine     engines.Flags
}

func (w *environmentWork) register(c *cobra.Command) {
	arguments.RegisterInventory(c, &w.inventory)
	w.input.RegisterVariables(c)
	w.engine.Register(c)
	w.engine.RegisterCache(c)
}

// registerWatch adds the flags of what keeps watch, too.
func (w *environmentWork) registerWatch(c *cobra.Command) {
	w.register(c)
	w.engine.RegisterAbandon(c)
	c.Flags().DurationVar(&w.checkEvery, "check-every", environments.DefaultCheckEvery, "how often to look at every task, besides what engines tell")
}

func (w *environmentWork) check() error {
	if w.checkEvery < time.Second {
		return exit.Usage("--check-every %s: it must be at least 1s", w.checkEvery)
	}
	own := work.TaskVariables(environment.Task{}, work.NewHosts(w.inventory))
	for _, v := range w.input.Variables {
		if _, taken := own[v.Name]; taken {
			return exit.Usage("--var %s: every task has its own", v.Name)
		}
		if v.File == "" {
			continue
		}
		switch info, err := os.Stat(v.File); {
		case err != nil:
			return exit.Usage("--var-file: %w", err)
		case !info.Mode().IsRegular():
			return exit.Usage("--var-file %s: it is read again for every task, and so must be a regular file", v.File)
		}
	}
	return nil
}

func newCreateCommand(a *app.App) *cobra.Command {
	var file string
	var flags environmentWork
	c := &cobra.Command{
		Use:   "create -f FILE",
		Short: "Make the first revision of an environment",
		Long: `Make the first revision of an environment. Nothing happens on any host until a
revision is deployed.

The manifest of its task is looked for beside the definition. The revision keeps
it as it is now, whatever becomes of the file.`,
		Example: "  deployster env create -f prod.yaml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return exit.Usage("which definition? say -f FILE")
			}
			return createEnvironment(c.Context(), a, file, flags)
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the definition")
	flags.register(c)
	return c
}

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
	workspace, err := a.Workspace()
	if err != nil {
		return err
	}
	at := filepath.Join(dir, filepath.FromSlash(d.Task.Manifest))
	if d.Task.Manifest, err = session.ManifestBelow(workspace, at); err != nil {
		return exit.Usage("%s%s: %w", where, at, err)
	}
	return nil
}

func createEnvironment(ctx context.Context, a *app.App, file string, flags environmentWork) (err error) {
	asJSON, err := a.AsJSON()
	if err != nil {
		return err
	}
	d, err := readEnvironment(a, file)
	if err != nil {
		return err
	}
	text, err := pin(a, d)
	if err != nil {
		return err
	}
	inv := work.NewHosts(flags.inventory)
	hosts, err := inv.Selected(d.InstanceGroup.Query)
	if err != nil {
		return exit.Invalid(err)
	}
	if len(hosts) == 1 && neverStops(d.Deployment, 1) {
		return exit.Usage("%s: Replace stops the task of a host before it starts another, and with a min_healthy_percent of %d the one task on %s may never be stopped: choose the method Surge, or a lower percentage",
			file, d.Deployment.MinHealthyPercent, hosts[0])
	}
	workspace, err := a.Workspace()
	if err != nil {
		return err
	}
	log, err := a.OpenLog(ctx, workspace, a.Err)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	e, err := environmentsOf(ctx, a, log, nil, 0)
	if err != nil {
		return err
	}
	if err := e.Overlaps(d.Name, d.Task.Manifest, hosts); err != nil {
		return err
	}
	if err := checkTask(ctx, a, log, d, text, hosts, inv, flags); err != nil {
		return err
	}
	if err := keepText(a, text); err != nil {
		return err
	}
	events, err := e.Command(ctx, d.Name, environment.Create{Definition: d, By: app.Whoami()}, hosts...)
	if err != nil {
		return exit.Refused(err)
	}
	tellRemarks(a, d, hosts)
	number, err := strconv.Atoi(events[0].Revision) // not 1, where one of that name was deleted
	if err != nil {
		return fmt.Errorf("reading the number of the revision: %w", err)
	}
	return a.Recorded(map[string]any{"environment": d.Name, "revision": number}, events, asJSON,
		fmt.Sprintf("environment %s is created, revision %d", d.Name, number), fmt.Sprintf("; nothing runs yet: deployster env deploy %s --revision %d", d.Name, number))
}

// pin makes a definition one of its manifest's present text, which it returns.
func pin(a *app.App, d *environment.Definition) ([]byte, error) {
	workspace, err := a.Workspace()
	if err != nil {
		return nil, err
	}
	text, err := work.ReadFile(filepath.Join(workspace, filepath.FromSlash(d.Task.Manifest)))
	if err != nil {
		return nil, exit.Invalid(err)
	}
	d.Task.Digest = work.ManifestDigest(text)
	return text, nil
}

// checkTask makes sure that the manifest of a definition is sound, and what it
// makes can be removed again.
func checkTask(ctx context.Context, a *app.App, log deploylog.Log, d *environment.Definition, text []byte, selected []string, hosts *work.Hosts, flags environmentWork) (err error) {
	workers, err := session.OpenWorkers(a, log, hosts, flags.input, flags.engine, a.Err)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workers.Close()) }()
	ctx, signals := interrupt.Interruptible(ctx, func(string) {})
	defer signals.Done()
	asking, cancel := signals.Stoppable(ctx)
	defer cancel()
	err = workers.Tasks.Removable(asking, d, text, selected, func(unread []manifest.Problem) error { return session.Heed(a, unread, flags.input.Strict) })
	if signals.Count.Load() > 0 {
		return exit.Told(runner.ErrInterrupted)
	}
	return err
}

// keepText keeps the text of a manifest for the revisions that apply it.
func keepText(a *app.App, text []byte) error {
	workspace, err := a.Workspace()
	if err != nil {
		return err
	}
	_, err = work.ManifestsBelow(workspace).Keep(text)
	return err
}

// neverStops tells whether no running task may ever be stopped.
func neverStops(c environment.Configuration, hosts int) bool {
	return c.Method == environment.Replace && hosts > 0 && c.Minimum(hosts) == hosts
}

// tellRemarks tells what may be meant, but surprises.
func tellRemarks(a *app.App, d *environment.Definition, hosts []string) {
	switch {
	case len(hosts) == 0:
		fmt.Fprintf(a.Err, "note: the query %s selects no hosts at present: desired 0\n", view.Clean(d.InstanceGroup.Query))
	case neverStops(d.Deployment, len(hosts)):
		fmt.Fprintf(a.Err, "note: with Replace and a min_healthy_percent of %d no running task of %s may ever be stopped: a later revision needs env deploy --min-healthy-percent, or the method Surge\n",
			d.Deployment.MinHealthyPercent, output.Count(len(hosts), "host"))
	}
}

// pinnedText is the text of a manifest as a revision has it.
func pinnedText(a *app.App, digest string) ([]byte, error) {
	workspace, err := a.Workspace()
	if err != nil {
		return nil, err
	}
	return work.ManifestsBelow(workspace).Load(digest)
}

type environmentUpdateOptions struct {
	base int
	file string
	set  []string
	work environmentWork
}

func newUpdateCommand(a *app.App) *cobra.Command {
	var o environmentUpdateOptions
	c := &cobra.Command{
		Use:   "update NAME --base N [-f FILE | --set KEY=VALUE…]",
		Short: "Make a revision of an environment from its newest one",
		Long: `Make a revision of an environment from its newest one, which is to be named: who
has changed the environment meanwhile is told, and nothing overwritten. Nothing
happens on any host until the revision is deployed.

The change is one of these:
  -f FILE          another definition, with its manifest as it is now
  --set KEY=VALUE  some values; the manifest stays as it was in the base, unless
                   task.manifest is set (a path below the workspace)
  neither          only the manifest of the base, as it is now`,
		Example: `  deployster env update shop/prod --base 1 --set task.vars.image=shop:2
  deployster env update shop/prod --base 2 --set deployment.method=Surge --set deployment.max_over=2
  deployster env update shop/prod --base 3 -f prod.yaml`,
		Args: arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case o.base < 1:
				return exit.Usage("which revision is it based on? say --base N: deployster env revisions %s lists them", args[0])
			case o.file != "" && len(o.set) > 0:
				return exit.Usage("say -f FILE, or --set KEY=VALUE, not both")
			}
			return updateEnvironment(c.Context(), a, args[0], o)
		},
	}
	c.Flags().IntVar(&o.base, "base", 0, "the revision that is changed: the newest")
	c.Flags().StringVarP(&o.file, "file", "f", "", "another definition")
	c.Flags().StringArrayVar(&o.set, "set", nil, "a value of the definition, as KEY=VALUE (repeatable)")
	o.work.register(c)
	return c
}

func updateEnvironment(ctx context.Context, a *app.App, name string, o environmentUpdateOptions) (err error) {
	asJSON, err := a.AsJSON()
	if err != nil {
		return err
	}
	e, err := environmentsAt(ctx, a, []string{name}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.log.Close()) }()
	if err := e.alive(name); err != nil {
		return err
	}
	base, err := e.revision(name, o.base)
	if err != nil {
		return err
	}
	d, text, err := updated(a, name, base.Definition, o)
	if err != nil {
		return err
	}
	inv := work.NewHosts(o.work.inventory)
	hosts, err := inv.Selected(d.InstanceGroup.Query)
	if err != nil {
		return exit.Invalid(err)
	}
	if err := e.Overlaps(name, d.Task.Manifest, hosts); err != nil {
		return err
	}
	changes := environment.Diff(base.Definition, d)
	if slices.ContainsFunc(changes, func(c environment.Difference) bool { return strings.HasPrefix(c.Path, "task.") }) {
		err := checkTask(ctx, a, e.log, d, text, hosts, inv, o.work)
		if errors.Is(err, work.ErrNoHostAnswers) && d.Task.Digest == base.Definition.Task.Digest {
			fmt.Fprintf(a.Err, "note: %s\n", view.Clean(err.Error())) // it could be, when the base was made
			err = nil
		}
		if err != nil {
			return err
		}
	}
	if err := keepText(a, text); err != nil {
		return err
	}
	events, err := e.Command(ctx, name, environment.Update{Base: o.base, Definition: d, By: app.Whoami()}, hosts...)
	if err != nil {
		return exit.Refused(err)
	}
	tellRemarks(a, d, hosts)
	if !asJSON {
		if err := view.RevisionDifferences(a.Out, differences(base.Definition, d), "", a.PlanOptions(a.Out)); err != nil {
			return err
		}
	}
	number := o.base + 1
	return a.Recorded(map[string]any{"environment": name, "revision": number, "differences": changes}, events, asJSON,
		fmt.Sprintf("environment %s has revision %d", name, number), fmt.Sprintf("; nothing happens yet: deployster env deploy %s --revision %d", name, number))
}

// updated is a definition made of another as the flags say, with the text of its
// manifest.
func updated(a *app.App, name string, base *environment.Definition, o environmentUpdateOptions) (d *environment.Definition, text []byte, err error) {
	switch {
	case o.file != "":
		if d, err = readEnvironment(a, o.file); err != nil {
			return nil, nil, err
		}
		if d.Name != name {
			return nil, nil, exit.Usage("%s is of environment %s, not of %s", o.file, d.Name, name)
		}
	case len(o.set) > 0:
		if d, err = base.Set(o.set, checkQuery); err != nil {
			return nil, nil, exit.Invalid(err)
		}
		if d.Name != name {
			return nil, nil, exit.Usage("--set name=%s: an environment keeps its name", d.Name)
		}
		if d.Task.Digest != "" { // another manifest was not set
			text, err = pinnedText(a, d.Task.Digest)
			return d, text, err
		}
		if err := place(a, d, "", "task.manifest "); err != nil {
			return nil, nil, err
		}
	default:
		same := *base
		d = &same
		if err := place(a, d, "", "task.manifest "); err != nil {
			return nil, nil, err
		}
	}
	text, err = pin(a, d)
	return d, text, err
}
