package env

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
)

type cleanOptions struct {
	name, reason string
	yes, wait    bool
	work         workFlags
}

func newCleanCommand(a *app.App) *cobra.Command {
	var o cleanOptions
	c := &cobra.Command{
		Use:   "clean NAME",
		Short: "Terminate the tasks that a deleted environment left running",
		Long: `Terminate the tasks that an environment left running when it was deleted;
"env list --orphans" lists them. "env run" terminates them, or this command when it
waits for the end (--wait). What has not ended when nothing has for the progress
deadline of the environment, and what runs on hosts that the inventory no longer
lists, is left running and stays listed. What another environment makes by now is
left to that.`,
		Example: "  deployster env list --orphans\n  deployster env clean shop/old --yes --wait",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = args[0]
			return runClean(c.Context(), a, o)
		},
	}
	arguments.RegisterYes(c, &o.yes)
	c.Flags().BoolVar(&o.wait, "wait", false, "follow it until the tasks are stopped, and run a controller where none is at work")
	arguments.RegisterReason(c, &o.reason)
	o.work.registerWatch(c)
	return c
}

func runClean(ctx context.Context, a *app.App, o cleanOptions) error {
	return withEnvironments(ctx, a, []string{o.name}, 0, func(e *query.Environments) error {
		report, err := reconcile.Get(e.Fold, o.name, (*environment.State).Report)
		if err != nil {
			return err
		}
		if _, err := session.Hosts(ctx, a, o.work.Inventory).Inventory(); err != nil {
			return exit.Invalid(err)
		}
		cleaning := environment.Clean{By: app.Whoami(), Reason: o.reason}
		n := len(report.Orphans)
		if report.Deleted && n > 0 {
			what := phrase.Count(n, "task") + " left running"
			if err := prompt.Agree(ctx, a, o.yes, fmt.Sprintf("what environment %s left would be terminated (%s)", o.name, what), "Terminate what environment %s left (%s)?", o.name, what); err != nil {
				return err
			}
		}
		if o.wait {
			return deployAndWait(ctx, "env clean", &follower{app: a, environments: e, name: o.name}, cleaning, o.work)
		}
		events, err := recordWanted(ctx, a, e, o.name, cleaning, o.work)
		if err != nil {
			return err
		}
		taken := 0
		for _, event := range events {
			taken += len(record.Taken(event))
		}
		if taken > 0 {
			fmt.Fprintf(a.Err, "note: %s left running: another environment makes the same on its host by now\n", phrase.Count(taken, "task"))
		}
		defer noticeIdle(a, e, o.name)
		return a.Recorded(map[string]any{"environment": o.name, "tasks": n - taken, "taken": taken}, events,
			fmt.Sprintf("%s terminated of what environment %s left", areTasks(n-taken), o.name), "")
	})
}
