package env

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/view"
)

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
			o.name = args[0]
			return runUpdate(c.Context(), a, o)
		},
	}
	c.Flags().IntVar(&o.base, "base", 0, "revision to change, which must be the newest")
	c.Flags().StringVarP(&o.file, "file", "f", "", "another definition")
	c.Flags().StringArrayVar(&o.set, "set", nil, "a value of the definition, as KEY=VALUE (repeatable)")
	o.work.Register(c)
	return c
}

func runUpdate(ctx context.Context, a *app.App, o updateOptions) error {
	return withEnvironment(ctx, a, o.name, func(e *environmentSet) error {
		base, err := e.revision(o.name, o.base)
		if err != nil {
			return err
		}
		d, text, err := updated(a, o.name, base.Definition, o)
		if err != nil {
			return err
		}
		hosts, err := work.NewHosts(o.work.Inventory).Selected(d.InstanceGroup.Query)
		if err != nil {
			return exit.Invalid(err)
		}
		if err := e.Overlaps(o.name, d.Task.Manifest, hosts); err != nil {
			return err
		}
		changes := environment.Diff(base.Definition, d)
		if slices.ContainsFunc(changes, func(c environment.Difference) bool { return strings.HasPrefix(c.Path, "task.") }) {
			err := checkTask(ctx, a, e.log, d, text, hosts, o.work)
			if errors.Is(err, work.ErrNoHostAnswers) && d.Task.Digest == base.Definition.Task.Digest {
				fmt.Fprintf(a.Err, "note: %s\n", view.Clean(err.Error())) // it could be, when the base was made
				err = nil
			}
			if err != nil {
				return err
			}
		}
		if _, err := work.ManifestsBelow(a.Workspace).Keep(text); err != nil {
			return err
		}
		events, err := e.Command(ctx, o.name, environment.Update{Base: o.base, Definition: d, By: app.Whoami()}, hosts...)
		if err != nil {
			return exit.Refused(err)
		}
		noticeSurprises(a, d, hosts)
		if !a.JSON() {
			if err := view.RevisionDifferences(a.Out, differences(base.Definition, d), "", a.PlanOptions(a.Out)); err != nil {
				return err
			}
		}
		number := o.base + 1
		return a.Recorded(map[string]any{"environment": o.name, "revision": number, "differences": changes}, events,
			fmt.Sprintf("environment %s has revision %d", o.name, number), fmt.Sprintf("; nothing happens yet: deployster env deploy %s --revision %d", o.name, number))
	})
}

// updated is a definition made of another as the flags say, with the text of its
// manifest.
func updated(a *app.App, name string, base *environment.Definition, o updateOptions) (d *environment.Definition, text []byte, err error) {
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
			text, err = work.ManifestsBelow(a.Workspace).Load(d.Task.Digest)
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
