package logs

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
)

func newLatestCommand(a *app.App) *cobra.Command {
	var utc bool
	c := &cobra.Command{
		Use:   "latest TARGET",
		Short: "Show what of a target succeeded last, failed last, and is in progress",
		Long: `Show what of a target succeeded last, failed last, and is in progress.
Targets are run/MANIFEST, resource/NAME and action/RESOURCE/ACTION. "Last" is by
the order in which deployments were begun; of a stage, host group or host that a
rollback has come to, by when they came there. What a destroy did has no revision.

What was started of an environment or a task is no longer in progress once the
environment is deleted or the task terminated; nor is what a deployment of a
pipeline had started, once that has ended, was cancelled, or the pipeline deleted.`,
		Example: "  deployster log latest resource/db\n  deployster log latest run/web.yaml --output json",
		Args: cobra.MatchAll(func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !strings.Contains(args[0], "/") {
				return exit.Usage(`latest takes one target, such as resource/db or run/web.yaml`)
			}
			return nil
		}),
		RunE: func(c *cobra.Command, args []string) error {
			return runLatest(c.Context(), a, deploylog.Target(args[0]), utc)
		},
	}
	registerUTC(c, &utc)
	a.RegisterWhole(c)
	return c
}

func runLatest(ctx context.Context, a *app.App, target deploylog.Target, utc bool) error {
	return a.WithLog(ctx, func(log deploylog.Log, path string) error {
		latest, err := query.LatestOf(ctx, log, target)
		if err != nil {
			return err
		}
		if a.JSON() {
			return a.Line(latest)
		}
		if !latest.Known {
			names, err := query.NamesIn(ctx, log)
			if err != nil {
				return err
			}
			return fmt.Errorf("the log at %s knows nothing of %s%s", path, target, cmp.Or(didYouMean(names.LikeTarget(target)), "; `deployster log list` shows what it knows"))
		}
		if err := a.Printf("%s", view.Latest(latest, utc, a.PlanOptions(a.Out))); err != nil || len(latest.InProgress) == 0 {
			return err
		}
		return printDead(ctx, a, log, target)
	})
}

// printDead says how it stands with runs of a target that have no end, nor a
// process.
func printDead(ctx context.Context, a *app.App, log deploylog.Log, t deploylog.Target) error {
	unfinished, err := runs.UnfinishedRuns(ctx, log, t)
	if err != nil {
		return err
	}
	for _, u := range unfinished {
		if !u.Alive && u.Target.Kind() == "run" {
			if err := a.Printf("%-12s %s\n", "", view.Clean(u.String())); err != nil {
				return err
			}
		}
	}
	return nil
}
