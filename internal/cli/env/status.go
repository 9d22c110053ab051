package env

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/view"
)

type environmentStatusOptions struct {
	at           int64
	hosts, watch bool
}

func newStatusCommand(a *app.App) *cobra.Command {
	var o environmentStatusOptions
	c := &cobra.Command{
		Use:   "status [NAME…]",
		Short: "Show of every revision how many tasks are wanted, and are there",
		Long: `Show of every revision how many tasks are wanted, and are there. Of the revision
that is in force, healthy tasks count. Below is what there is to say: that it is
paused, why it is stuck, and which hosts are in trouble; or all hosts (--hosts).

  Created      nothing of it was deployed yet
  Deploying    its tasks come to their hosts
  Active       they are all there, and healthy; a host that comes gets one, too
  Undeploying  its tasks go, for another revision is deployed
  Inactive     they are gone
  Stuck        its deployment had no progress for too long; it is tried further
  Reverting    its tasks go, for an earlier revision is brought back
  Reverted     they are gone`,
		Example: "  deployster env status shop/prod\n  deployster env status --watch\n  deployster env status shop/prod --at 812 --hosts",
		RunE: func(c *cobra.Command, names []string) error {
			if o.watch {
				return watchEnvironments(c.Context(), a, names, o)
			}
			return environmentStatus(c.Context(), a, names, o)
		},
	}
	arguments.RegisterAt(c, &o.at)
	c.Flags().BoolVar(&o.hosts, "hosts", false, "show every host with its tasks")
	c.Flags().BoolVar(&o.watch, "watch", false, "show it again whenever it changes, until interrupted")
	return c
}

func environmentStatus(ctx context.Context, a *app.App, names []string, o environmentStatusOptions) (err error) {
	asJSON, err := a.AsJSON()
	if err != nil {
		return err
	}
	e, err := environmentsAt(ctx, a, names, o.at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.log.Close()) }()
	if asJSON {
		reports := []environment.Report{}
		for _, name := range e.names {
			reports = append(reports, e.report(name))
		}
		return a.Document(map[string]any{"environments": reports})
	}
	return printEnvironments(a, e, o.hosts)
}

func printEnvironments(a *app.App, e *environmentSet, hosts bool) error {
	if len(e.names) == 0 {
		return a.Printf("no environments\n")
	}
	for i, name := range e.names {
		if i > 0 {
			if err := a.Printf("\n"); err != nil {
				return err
			}
		}
		if err := view.Environment(a.Out, e.report(name), hosts, a.PlanOptions(a.Out)); err != nil {
			return err
		}
	}
	return nil
}

func watchEnvironments(ctx context.Context, a *app.App, names []string, o environmentStatusOptions) (err error) {
	if err := a.CanWatch(o.at); err != nil {
		return err
	}
	e, err := environmentsAt(ctx, a, names, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.log.Close()) }()
	return a.Watch(ctx, e, func() error {
		if len(names) == 0 {
			e.names = e.present()
		}
		return printEnvironments(a, e, o.hosts)
	})
}
