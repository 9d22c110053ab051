package env

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/view"
)

func newStatusCommand(a *app.App) *cobra.Command {
	return a.ShowsStatus(&cobra.Command{
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
	}, "show every host with its tasks", func(ctx context.Context, names []string, o output.StatusFlags) error {
		return withEnvironments(ctx, a, names, o.At, func(e *environmentSet) error {
			return a.Status(ctx, o, e, func() error {
				if len(names) == 0 {
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
	})
}
