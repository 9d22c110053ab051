package build

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view/groups"
)

func newExplainCommand(a *app.App) *cobra.Command {
	return session.Asked(a, &cobra.Command{
		Use:   "explain [ID [JOB]]",
		Short: "Explain why build groups or jobs are not built",
		Long: `Explain why all build groups, one of them, or one of its jobs does not move or has failed,
and what would change that. Of many jobs that wait for like reasons one is named, with the
numbers of the others (--all names each). JOB is a number, or what the job builds.

"deployster explain group/ID" and "deployster explain job/ID/NUMBER" say the same.`,
		Example: "  deployster build explain\n  deployster build explain base-7\n  deployster build explain base-7 gcc",
		Args:    arguments.NamedAtLeast(0, "a build group", "a job"),
	}, runExplain, func(q *session.Question, c *cobra.Command) {
		a.RegisterWhole(c)
		arguments.RegisterInventory(c, &q.Inventory)
	})
}

func runExplain(ctx context.Context, a *app.App, q session.Question) error {
	if err := checkListed(q.Inventory, q.Listed); err != nil {
		return err
	}
	return withGroups(ctx, a, q.Names[:min(1, len(q.Names))], q.At, func(b *query.Builds) error {
		var t deploylog.Target
		switch len(q.Names) {
		case 0:
		case 1:
			id, err := b.ID(q.Names[0])
			if err != nil {
				return err
			}
			t = record.Group(id)
		default:
			j, err := b.Job(q.Names[0], q.Names[1])
			if err != nil {
				return err
			}
			t = record.Job(j.Group, j.Number)
		}
		return explain(ctx, a, b, t, q)
	})
}

// Explain prints why a build group or a job is not built.
func Explain(ctx context.Context, a *app.App, t deploylog.Target, q session.Question) error {
	if err := checkListed(q.Inventory, q.Listed); err != nil {
		return err
	}
	return withGroups(ctx, a, nil, q.At, func(b *query.Builds) error { return explain(ctx, a, b, t, q) })
}

func explain(ctx context.Context, a *app.App, b *query.Builds, t deploylog.Target, q session.Question) error {
	workers := present(ctx, a, b, q)
	reasons, err := b.Explain(t, workers, a.All)
	if err != nil {
		return err
	}
	return a.Show(map[string]any{"target": t, "event": b.Head(), "reasons": reasons}, func() error {
		return groups.Reasons(a.Out, t, reasons, viewOptions(a))
	})
}

func newForecastCommand(a *app.App) *cobra.Command {
	var inventory string
	c := &cobra.Command{
		Use:   "forecast ID",
		Short: "Show when a build group is expected to end",
		Long: `Show when a build group is expected to end: if every job succeeds and takes as long as it
did when the package was built last, on the workers of the inventory; with the longest chain
of jobs that need each other, which no number of workers makes shorter.`,
		Example: "  deployster build forecast base-7\n  deployster build forecast base-7 --inventory larger.yaml",
		Args:    arguments.Named("a build group"),
		RunE: func(c *cobra.Command, args []string) error {
			q := session.Question{Inventory: inventory, Listed: c.Flags().Changed("inventory")}
			if err := checkListed(q.Inventory, q.Listed); err != nil {
				return err
			}
			return runForecast(c.Context(), a, args[0], q)
		},
	}
	arguments.RegisterInventory(c, &inventory)
	return c
}

func runForecast(ctx context.Context, a *app.App, group string, q session.Question) error {
	return withGroups(ctx, a, []string{group}, 0, func(b *query.Builds) error {
		workers := present(ctx, a, b, q)
		g, jobs, err := b.Jobs(group)
		if err != nil {
			return err
		}
		f, err := b.Forecast(g.ID, workers)
		if err != nil {
			return err
		}
		name := func(job int) string {
			if job < 1 || job > len(jobs) {
				return ""
			}
			return groups.Name(jobs[job-1])
		}
		return a.Show(map[string]any{"state": g.State, "forecast": f}, func() error {
			if err := groups.Forecast(a.Out, g, f, name, viewOptions(a)); err != nil {
				return err
			}
			if !g.State.Ended() && g.State != transition.Triggered && g.State != transition.Created { // these end by nobody's work
				noticeIdle(a, b)
			}
			return nil
		})
	})
}
