package env

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
)

type adoptOptions struct {
	name, reason string
	revision     int // 0 is the one that was deployed last
	wait         bool
	work         workFlags
}

func newAdoptCommand(a *app.App) *cobra.Command {
	var o adoptOptions
	c := &cobra.Command{
		Use:   "adopt NAME",
		Short: "Have a deleted environment exist again, with the tasks that it left running",
		Long: `Have a deleted environment exist again, with the tasks that it left running when it
was deleted: "env list --orphans" lists them. It is deployed at the revision that was
deployed last, or at --revision: tasks of that which are healthy are not touched,
others are started or terminated as by any deployment. What another environment makes
by now is left to that.`,
		Example: "  deployster env list --orphans\n  deployster env adopt shop/prod --wait --reason 'deleted by mistake'",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("revision") && o.revision < 1 {
				return exit.Usage("--revision %d: revisions are numbered from 1", o.revision)
			}
			o.name = args[0]
			return runAdopt(c.Context(), a, o)
		},
	}
	c.Flags().IntVar(&o.revision, "revision", 0, "revision to deploy (default: the one that was deployed last)")
	c.Flags().BoolVar(&o.wait, "wait", false, "follow the deployment to its end, and run a controller where none is at work")
	arguments.RegisterReason(c, &o.reason)
	o.work.registerWatch(c)
	return c
}

func runAdopt(ctx context.Context, a *app.App, o adoptOptions) error {
	return withEnvironments(ctx, a, []string{o.name}, 0, func(e *query.Environments) error {
		var r report.Revision
		err := e.Ask(o.name, func(s *environment.State) (err error) {
			if o.revision > 0 {
				r, err = s.Revision(o.revision)
			} else {
				r, err = s.LastDeployed()
			}
			return err
		})
		if err != nil {
			return err
		}
		report, err := reconcile.Get(e.Fold, o.name, (*environment.State).Report)
		if err != nil {
			return err
		}
		hosts, identity, err := deployable(a, r, o.work.Inventory)
		if err != nil {
			return err
		}
		adoption := environment.Adopt{Revision: r.Number, Hosts: hosts, Inventory: identity, By: app.Whoami(), Reason: o.reason}
		if o.wait {
			return deployAndWait(ctx, a, "env adopt", e, o.name, adoption, o.work)
		}
		events, err := recordWanted(ctx, a, e, o.name, adoption, o.work)
		if err != nil {
			return err
		}
		defer noticeIdle(a, e, o.name)
		return a.Recorded(map[string]any{"environment": o.name, "deployment_id": startedBy(events), "revision": r.Number, "tasks": len(report.Orphans)}, events,
			fmt.Sprintf("environment %s exists again at revision %d, with %s that it left", o.name, r.Number, phrase.Count(len(report.Orphans), "task")), "")
	})
}
