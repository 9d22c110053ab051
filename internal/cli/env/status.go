package env

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/view"
)

type statusOptions struct {
	output.StatusFlags
	names []string
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
	o.Register(c, "show every host with its tasks")
	return c
}

func runStatus(ctx context.Context, a *app.App, o statusOptions) error {
	if err := a.CanWatch(o.StatusFlags); err != nil {
		return err
	}
	return withEnvironments(ctx, a, o.names, o.At, func(e *environmentSet) error {
		return a.Status(ctx, o.StatusFlags, e, func() error {
			if len(o.names) == 0 {
				e.names = e.present()
			}
			reports := []environment.Report{}
			for _, name := range e.names {
				reports = append(reports, e.report(name))
			}
			return a.Show(map[string]any{"environments": reports}, func() error {
				return a.Sections("no environments", len(reports), func(i int) error {
					return view.Environment(a.Out, reports[i], o.Hosts, a.PlanOptions(a.Out))
				})
			})
		})
	})
}
