package env

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

type createOptions struct {
	file string
	work workFlags
}

func newCreateCommand(a *app.App) *cobra.Command {
	var o createOptions
	c := &cobra.Command{
		Use:   "create -f FILE",
		Short: "Create an environment with its first revision",
		Long: `Create an environment with its first revision. Nothing happens on any host until a
revision is deployed.

The manifest of its task is looked for beside the definition. The revision carries
it with all that it includes as they are now, whatever becomes of the files.`,
		Example: "  deployster env create -f prod.yaml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.file == "" {
				return exit.Usage("which definition? say -f FILE")
			}
			return runCreate(c.Context(), a, o)
		},
	}
	c.Flags().StringVarP(&o.file, "file", "f", "", "the definition")
	o.work.registerDrafting(c)
	return c
}

func runCreate(ctx context.Context, a *app.App, o createOptions) error {
	d, err := readDefinition(a, o.file)
	if err != nil {
		return err
	}
	files, err := collect(a, d)
	if err != nil {
		return err
	}
	hosts, err := work.NewHosts(o.work.Inventory).Selected(d.InstanceGroup.Query)
	if err != nil {
		return exit.Invalid(err)
	}
	return a.WithNewLog(ctx, func(log deploylog.Log) error {
		e := query.NewEnvironments(log, a.Now)
		if err := e.Follow(ctx, 0); err != nil {
			return err
		}
		events, err := record(ctx, a, e, environment.Create{Definition: d, By: app.Whoami()}, draft{d, files, hosts}, nil, o.work)
		if err != nil {
			return err
		}
		number, err := strconv.Atoi(events[0].Revision) // not 1, where one of that name was deleted
		if err != nil {
			return fmt.Errorf("reading the number of the revision: %w", err)
		}
		return a.Recorded(map[string]any{"environment": d.Name, "revision": number}, events,
			fmt.Sprintf("environment %s is created, revision %d", d.Name, number), fmt.Sprintf("; nothing runs yet: deployster env deploy %s --revision %d", d.Name, number))
	})
}

type updateOptions struct {
	name string
	base int
	file string
	set  []string
	work workFlags
}

func newUpdateCommand(a *app.App) *cobra.Command {
	var o updateOptions
	c := &cobra.Command{
		Use:   "update NAME --base N [-f FILE | --set KEY=VALUE…]",
		Short: "Create a revision of an environment from its newest one",
		Long: `Create a revision of an environment from its newest one, which has to be named: a
revision that somebody else created in between is refused as a base, so nothing is
overwritten. Nothing happens on any host until the revision is deployed.

The change is one of these:
  -f FILE          another definition, with its manifest as it is now
  --set KEY=VALUE  some values; the manifest, and what it includes, stay as they were
                   in the base, unless task.manifest is set (a path below the workspace)
  neither          only the manifest of the base and what it includes, as they are now`,
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
			o.name = args[0]
			return runUpdate(c.Context(), a, o)
		},
	}
	c.Flags().IntVar(&o.base, "base", 0, "revision to change, which must be the newest")
	c.Flags().StringVarP(&o.file, "file", "f", "", "another definition")
	c.Flags().StringArrayVar(&o.set, "set", nil, "a value of the definition, as KEY=VALUE (repeatable)")
	o.work.registerDrafting(c)
	return c
}

func runUpdate(ctx context.Context, a *app.App, o updateOptions) error {
	return withEnvironment(ctx, a, o.name, func(e *query.Environments) error {
		base, err := e.Revision(o.name, o.base)
		if err != nil {
			return err
		}
		d, files, err := updated(a, base.Definition, o)
		if err != nil {
			return err
		}
		hosts, err := work.NewHosts(o.work.Inventory).Selected(d.InstanceGroup.Query)
		if err != nil {
			return exit.Invalid(err)
		}
		events, err := record(ctx, a, e, environment.Update{Base: o.base, Definition: d, By: app.Whoami()}, draft{d, files, hosts}, base.Definition, o.work)
		if err != nil {
			return err
		}
		if !a.JSON() {
			if err := view.RevisionDifferences(a.Out, base.Definition, d, "", a.PlanOptions(a.Out)); err != nil {
				return err
			}
		}
		number := o.base + 1
		return a.Recorded(map[string]any{"environment": o.name, "revision": number, "differences": definition.Diff(base.Definition, d)}, events,
			fmt.Sprintf("environment %s has revision %d", o.name, number), fmt.Sprintf("; nothing happens yet: deployster env deploy %s --revision %d", o.name, number))
	})
}

// updated is a definition made of another as the flags say, with the files that it is to
// carry.
func updated(a *app.App, base *definition.Definition, o updateOptions) (d *definition.Definition, files work.Carried, err error) {
	switch {
	case o.file != "":
		if d, err = readDefinition(a, o.file); err != nil {
			return nil, nil, err
		}
		if d.Name != o.name {
			return nil, nil, exit.Usage("%s is of environment %s, not of %s", o.file, d.Name, o.name)
		}
		files, err = collect(a, d)
		return d, files, err
	case len(o.set) > 0:
		if d, err = base.Set(o.set, inventory.CheckQuery); err != nil {
			return nil, nil, exit.Invalid(err)
		}
		if d.Name != o.name {
			return nil, nil, exit.Usage("--set name=%s: an environment keeps its name", d.Name)
		}
		if d.Task.Digest != "" { // another manifest was not set
			files, err = carried(a, d)
			return d, files, err
		}
	default:
		same := *base
		d = &same
	}
	if err := place(a, d, "", "task.manifest "); err != nil {
		return nil, nil, err
	}
	files, err = collect(a, d)
	return d, files, err
}

// readDefinition reads a definition. The manifest that it names is looked for
// beside it, and known by its path below the workspace.
func readDefinition(a *app.App, file string) (*definition.Definition, error) {
	text, err := work.ReadFile(file)
	if err != nil {
		return nil, exit.Invalid(err)
	}
	d, err := definition.Parse(file, text, inventory.CheckQuery)
	if err != nil {
		return nil, exit.Invalid(err)
	}
	return d, place(a, d, filepath.Dir(file), file+": task.manifest ")
}

// place makes the path of a definition's manifest, which is relative to a
// directory, one below the workspace.
func place(a *app.App, d *definition.Definition, dir, where string) error {
	at := filepath.Join(dir, filepath.FromSlash(d.Task.Manifest))
	below, err := session.ManifestBelow(a.Workspace, at)
	if err != nil {
		return exit.Usage("%s%s: %w", where, at, err)
	}
	d.Task.Manifest = below
	return nil
}

// collect makes a definition one of the present texts of its manifest and of all that
// this includes, which it returns.
func collect(a *app.App, d *definition.Definition) (work.Carried, error) {
	text, err := work.ReadFile(filepath.Join(a.Workspace, filepath.FromSlash(d.Task.Manifest)))
	if err != nil {
		return nil, exit.Invalid(err)
	}
	return pin(a, d, text)
}

// pin makes a definition one of a text of its manifest, and of the present texts of all
// that this includes.
func pin(a *app.App, d *definition.Definition, text []byte) (work.Carried, error) {
	files, err := work.Collect(a.Workspace, manifest.Source{Name: d.Task.Manifest, Data: text})
	if err != nil {
		return nil, err
	}
	d.Task.Includes = files.Digests()
	d.Task.Digest = d.Task.Includes[d.Task.Manifest]
	delete(d.Task.Includes, d.Task.Manifest)
	return files, nil
}

// carried are the files of a definition that a revision carries. One of a former version
// carries its manifest only: what that includes is taken as it is now.
func carried(a *app.App, d *definition.Definition) (work.Carried, error) {
	texts, err := a.Texts()
	if err != nil {
		return nil, err
	}
	files, err := texts.LoadAll(work.TaskFiles(d.Task))
	if err == nil && d.Task.Includes == nil {
		return pin(a, d, files[d.Task.Manifest])
	}
	return files, err
}

// draft is a definition that is to be a revision, with the files that it is to carry and
// the hosts that it selects at present.
type draft struct {
	*definition.Definition
	files work.Carried
	hosts []string
}

// record has a draft recorded by a command. base is the revision that it is made from,
// nil of the first.
func record(
	ctx context.Context, a *app.App, e *query.Environments, c environment.Command, d draft, base *definition.Definition, flags workFlags,
) ([]deploylog.Event, error) {
	things, err := session.Things(a, flags.WorkerFlags, d.files)
	if err != nil {
		return nil, err
	}
	e.Identify(things)
	if err := e.Overlaps(d.Definition, d.hosts); err != nil {
		return nil, err
	}
	ofTask := func(c definition.Difference) bool { return strings.HasPrefix(c.Path, "task.") }
	if base == nil || slices.ContainsFunc(definition.Diff(base, d.Definition), ofTask) {
		err := checkTask(ctx, a, e.Log, d, base, flags)
		if errors.Is(err, work.ErrNoHostAnswers) && base != nil && sameFiles(base, d.Definition) && !addsVariables(base, d.Definition) {
			fmt.Fprintf(a.Err, "note: %s\n", view.Clean(err.Error())) // it could be, when the base was made
		} else if err != nil {
			return nil, err
		}
	}
	texts, err := a.Texts()
	if err == nil {
		err = texts.KeepAll(d.files)
	}
	if err != nil {
		return nil, err
	}
	events, err := e.Command(ctx, d.Name, c, d.hosts...)
	if err == nil {
		noticeSurprises(a, d)
	}
	return events, err
}

// checkTask makes sure that the manifest of a draft is sound, and what it makes can be
// removed again.
func checkTask(ctx context.Context, a *app.App, log deploylog.Log, d draft, base *definition.Definition, flags workFlags) (err error) {
	ctx, signals := interrupt.Handle(ctx, func(string) {})
	defer signals.Done()
	workers, err := session.OpenWorkers(ctx, a, log, flags.WorkerFlags, a.Err)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workers.Close(ctx)) }()
	asking, cancel := signals.Context(ctx)
	defer cancel()
	err = workers.Tasks.Removable(asking, d.Definition, d.files, d.hosts, func(unread []manifest.Problem) error {
		return session.WarnUnread(a, unread, flags.Input.Strict)
	}, func(uses []runner.SecretUse) error { return flags.refuseLogged(uses, d, base) })
	if signals.Interrupted() {
		return exit.Reported(runner.ErrInterrupted)
	}
	return err
}

// neverStops reports whether no running task may ever be stopped.
func neverStops(c definition.Configuration, hosts int) bool {
	return c.Method == definition.Replace && hosts > 0 && c.Minimum(hosts) == hosts
}

// noticeSurprises says what may be meant, but surprises.
func noticeSurprises(a *app.App, d draft) {
	switch hosts := len(d.hosts); {
	case hosts == 0:
		fmt.Fprintf(a.Err, "note: the query %s selects no hosts at present: desired 0\n", view.Clean(d.InstanceGroup.Query))
	case neverStops(d.Deployment, hosts):
		fmt.Fprintf(a.Err, "note: with Replace and a %s no running task of %s may ever be stopped: a later revision needs env deploy --min-healthy-percent, or the method Surge\n",
			strings.Replace(d.Deployment.MinimumSetting(), " ", " of ", 1), phrase.Count(hosts, "host"))
	}
}
