package env

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/view"
)

type statusOptions struct {
	names        []string
	at           int64
	hosts, watch bool
}

func newStatusCommand(a *app.App) *cobra.Command {
	var o statusOptions
	c := &cobra.Command{
		Use:   "status [NAME…]",
		Short: "Show the status of environments",
		Long: `Show the status of environments: of every revision, how many tasks are desired and
current. Of the active revision, healthy tasks count. Below is whether it is
paused, why it is stuck, and which hosts are unhealthy; or all hosts (--hosts).

  Created      nothing of it was deployed yet
  Deploying    its tasks are being started
  Active       all its tasks run and are healthy; a host that joins gets one, too
  Undeploying  its tasks are being stopped, because another revision is deployed
  Inactive     its tasks are stopped
  Stuck        its deployment made no progress for too long; it is retried
  Reverting    its tasks are being stopped by a rollback to an earlier revision
  Reverted     its tasks are stopped`,
		Example: "  deployster env status shop/prod\n  deployster env status --watch\n  deployster env status shop/prod --at 812 --hosts",
		RunE: func(c *cobra.Command, names []string) error {
			o.names = names
			return runStatus(c.Context(), a, o)
		},
	}
	arguments.RegisterAt(c, &o.at)
	c.Flags().BoolVar(&o.hosts, "hosts", false, "show every host with its tasks")
	c.Flags().BoolVar(&o.watch, "watch", false, "show the status again whenever it changes, until interrupted")
	return c
}

func runStatus(ctx context.Context, a *app.App, o statusOptions) error {
	if !o.watch {
		return withEnvironments(ctx, a, o.names, o.at, func(e *environmentSet) error {
			reports := []environment.Report{}
			for _, name := range e.names {
				reports = append(reports, e.report(name))
			}
			return a.Show(map[string]any{"environments": reports}, func() error { return printReports(a, reports, o.hosts) })
		})
	}
	if err := a.CanWatch(o.at); err != nil {
		return err
	}
	return withEnvironments(ctx, a, o.names, 0, func(e *environmentSet) error {
		return a.Watch(ctx, e, func() error {
			if len(o.names) == 0 {
				e.names = e.present()
			}
			reports := []environment.Report{}
			for _, name := range e.names {
				reports = append(reports, e.report(name))
			}
			return printReports(a, reports, o.hosts)
		})
	})
}

func printReports(a *app.App, reports []environment.Report, hosts bool) error {
	if len(reports) == 0 {
		return a.Printf("no environments\n")
	}
	for i, r := range reports {
		if i > 0 {
			if err := a.Printf("\n"); err != nil {
				return err
			}
		}
		if err := view.Environment(a.Out, r, hosts, a.PlanOptions(a.Out)); err != nil {
			return err
		}
	}
	return nil
}
