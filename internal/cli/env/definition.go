package env

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/inventory"
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
it with all that it includes, and the variables that these read, as they are now,
whatever becomes of the files. Of secret variables it carries only which file they are
in, and a hash: there their values must stay the same. It also carries which content the
images have of resource types, and those that configurations of types that ship name.`,
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
	collected, err := collect(a, d, o.work)
	if err != nil {
		return err
	}
	among := session.Hosts(ctx, a, o.work.Inventory)
	hosts, err := among.Selected(d.InstanceGroup.Query)
	if err != nil {
		return exit.Invalid(err)
	}
	return a.WithNewLog(ctx, func(log deploylog.Log) error {
		e := query.NewEnvironments(log, a.Now)
		if err := e.Follow(ctx, 0); err != nil {
			return err
		}
		drafted := &draft{Definition: d, files: collected.Files, collected: collected, hosts: hosts}
		events, err := recordDraft(ctx, a, e, environment.Create{Definition: d, Inventory: among.Identity(), By: app.Whoami()}, drafted, nil, o.work)
		if err != nil {
			return err
		}
		number, err := strconv.Atoi(events[0].Revision) // not 1, where one of that name was deleted
		if err != nil {
			return fmt.Errorf("reading the number of the revision: %w", err)
		}
		return a.Recorded(drafted.document(map[string]any{"environment": d.Name, "revision": number}), events,
			fmt.Sprintf("environment %s is created, revision %d", d.Name, number), fmt.Sprintf("; nothing runs yet: deployster env deploy %s --revision %d", d.Name, number))
	})
}

type updateOptions struct {
	name    string
	base    int
	file    string
	set     []string
	pending bool
	work    workFlags
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
  --set KEY=VALUE  some values; the manifest, what it includes, and the variables stay as
                   they were in the base, unless task.manifest is set (a path below the
                   workspace); with --var or --var-file the variables are those of now
  neither          only the manifest of the base, what it includes and the variables, as
                   they are now

Through a server, an operator of this environment alone brings what its definition names
and allows. With --pending a revision that brings more is asked for: it is made once an
operator of everything accepts it ("env accept").`,
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
	c.Flags().BoolVar(&o.pending, "pending", false, "ask for it if you may not make it as it is")
	o.work.registerDrafting(c)
	return c
}

func runUpdate(ctx context.Context, a *app.App, o updateOptions) error {
	return withEnvironment(ctx, a, o.name, func(e *query.Environments) error {
		base, err := e.Revision(o.name, o.base)
		if err != nil {
			return err
		}
		d, err := updated(a, base.Definition, o)
		if err != nil {
			return err
		}
		among := session.Hosts(ctx, a, o.work.Inventory)
		if d.hosts, err = among.Selected(d.InstanceGroup.Query); err != nil {
			return exit.Invalid(err)
		}
		events, err := recordDraft(ctx, a, e, environment.Update{Base: o.base, Definition: d.Definition, Inventory: among.Identity(), Pending: o.pending, By: app.Whoami()}, &d, base.Definition, o.work)
		if err != nil {
			return err
		}
		if !a.JSON() {
			opts := a.PlanOptions(a.Out)
			opts.Height = 0 // what is recorded is shown whole
			if err := view.RevisionDifferences(a.Out, base.Definition, d.Definition, "", opts); err != nil {
				return err
			}
		}
		number := o.base + 1
		if asks := record.Read(events[0].Data).Asks; asks != nil {
			return a.Recorded(d.document(map[string]any{"environment": o.name}), events,
				fmt.Sprintf("revision %d of environment %s is asked for, and made once an operator of everything accepts it", number, o.name),
				fmt.Sprintf("\n  deployster env accept %s %d --content %s", o.name, number, asks.Content))
		}
		return a.Recorded(d.document(map[string]any{"environment": o.name, "revision": number, "differences": definition.Diff(base.Definition, d.Definition)}), events,
			fmt.Sprintf("environment %s has revision %d", o.name, number), fmt.Sprintf("; nothing happens yet: deployster env deploy %s --revision %d", o.name, number))
	})
}

// updated is a draft made of another definition as the flags say.
func updated(a *app.App, base *definition.Definition, o updateOptions) (d draft, err error) {
	switch {
	case o.file != "":
		if d.Definition, err = readDefinition(a, o.file); err != nil {
			return d, err
		}
		if d.Name != o.name {
			return d, exit.Usage("%s is of environment %s, not of %s", o.file, d.Name, o.name)
		}
	case len(o.set) > 0:
		if d.Definition, err = base.Set(o.set, inventory.CheckQuery); err != nil {
			return d, exit.Invalid(err)
		}
		if d.Name != o.name {
			return d, exit.Usage("--set name=%s: an environment keeps its name", d.Name)
		}
		if d.Deployment.VerifyFiles == nil { // the steps were set
			if err := placeVerifying(a, d.Definition, "", "--set"); err != nil {
				return d, err
			}
		}
		if d.Task.Digest != "" { // another manifest was not set
			err = carried(a, &d, o.work)
			return d, err
		}
	default:
		same := *base
		same.Deployment.VerifyFiles = nil // they are those of now
		d.Definition = &same
	}
	if o.file == "" {
		if err := place(a, d.Definition, "", "task.manifest "); err != nil {
			return d, err
		}
	}
	if d.collected, err = collect(a, d.Definition, o.work); err != nil {
		return d, err
	}
	d.files = d.collected.Files
	return d, nil
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
	return d, errors.Join(place(a, d, filepath.Dir(file), file+": task.manifest "), placeVerifying(a, d, filepath.Dir(file), file))
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

// neverStops reports whether no running task may ever be stopped.
func neverStops(c definition.Configuration, hosts int) bool {
	return c.Method == definition.Replace && hosts > 0 && c.Minimum(hosts) == hosts
}

// noticeSurprises says what may be meant, but surprises.
func noticeSurprises(a *app.App, d draft, among *work.Hosts) {
	if note := unordered(d, among); note != "" {
		fmt.Fprintf(a.Err, "note: %s\n", view.Clean(note))
	}
	switch hosts := len(d.hosts); {
	case hosts == 0:
		fmt.Fprintf(a.Err, "note: the query %s selects no hosts at present: desired 0\n", view.Clean(d.InstanceGroup.Query))
	case neverStops(d.Deployment, hosts):
		fmt.Fprintf(a.Err, "note: with Replace and a %s no running task of %s may ever be stopped: a later revision needs env deploy --min-healthy-percent, or the method Surge\n",
			strings.Replace(d.Deployment.MinimumSetting(), " ", " of ", 1), phrase.Count(hosts, "host"))
	}
}

// unordered says that no host that is selected has the attribute by which they are to be
// ordered, "" where one has. The name is then probably misspelt.
func unordered(d draft, among *work.Hosts) string {
	by := d.Deployment.OrderBy
	all, err := among.Inventory()
	if by == "" || err != nil || len(d.hosts) == 0 {
		return ""
	}
	known := map[string]bool{}
	for _, h := range all.Hosts {
		if slices.Contains(d.hosts, h.Name) {
			for name := range h.Attributes {
				known[name] = true
			}
		}
	}
	if known[by] {
		return ""
	}
	meant := ""
	if near := suggest.Closest(by, slices.Sorted(maps.Keys(known))); near != "" {
		meant = fmt.Sprintf(", did you mean %s?", near)
	}
	return fmt.Sprintf("order_by: none of %s has an attribute %s, so nothing orders them%s", phrase.Count(len(d.hosts), "host"), by, meant)
}
