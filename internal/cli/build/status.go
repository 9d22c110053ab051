package build

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view/groups"
)

func newListCommand(a *app.App) *cobra.Command {
	var wanted []string
	return session.Asked(a, &cobra.Command{
		Use:   "list",
		Short: "List the build groups, oldest first",
		Example: `  deployster build list
  deployster build list --state Failed,Canceled --last 20`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, a *app.App, q session.Question) error {
		states, err := states(wanted, transition.AllGroups())
		if err != nil {
			return err
		}
		return runList(ctx, a, q, states)
	}, (*session.Question).RegisterLast, func(_ *session.Question, c *cobra.Command) {
		a.RegisterWhole(c)
		registerState(c, &wanted, "groups", transition.AllGroups())
	})
}

// registerState adds the flag that selects by state.
func registerState[S fmt.Stringer](c *cobra.Command, into *[]string, what string, known []S) {
	var names []string
	for _, s := range known {
		names = append(names, s.String())
	}
	c.Flags().StringSliceVar(into, "state", nil, "only "+what+" in one of these states: "+phrase.List(names))
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

func runList(ctx context.Context, a *app.App, q session.Question, states []transition.Group) error {
	return withGroups(ctx, a, nil, q.At, func(b *query.Builds) error {
		list := arguments.Last(b.Groups(states...), q.Last)
		rows := [][]string{{"GROUP", "STATE", "BUILT", "RUNNING", "FAILED", "CREATED", "TOOK", "BY"}}
		for _, g := range list {
			t := groups.TallyOf(g)
			rows = append(rows, []string{
				g.ID, g.State.String(), fmt.Sprintf("%d/%d", t.Built, g.Jobs), fmt.Sprint(t.Running), fmt.Sprint(t.Failed),
				phrase.Moment(g.Created), output.Dash(groups.Took(g, a.Now())), output.Dash(output.InLine(g.By)),
			})
		}
		none := "no build groups"
		if len(states) > 0 {
			none = "no build group is like that"
		}
		return a.History(map[string]any{"groups": list}, none, rows, 7, 5)
	})
}

func newStatusCommand(a *app.App) *cobra.Command {
	check := false
	return session.Asked(a, &cobra.Command{
		Use:   "status [ID…]",
		Short: "Show how far build groups are, and why they failed",
		Long: `Show how far build groups are: how many of their jobs are in which state, which failed
first and how many are not built because of that, what runs and where, what keeps the rest,
and when it is expected to end. Without an ID, of the groups that have not ended; where all
have, of the newest. The name of what is built means the newest group of that name.

  Triggered       what is to be built is known
  Created         the plan is made
  Queued          it waits for workers that have nothing else to do
  Dispatching     its jobs are being built
  Complete        all were built
  FailureCleanup  it has failed, and some of its jobs still run
  Failed          some of its jobs were not built
  Canceling       it was canceled, and some of its jobs still run
  Canceled        it was canceled

With --check the command exits with 2 unless all these groups are Complete.`,
		Example: "  deployster build status base-7\n  deployster build status base --watch\n  deployster build status base --check && deploy",
	}, func(ctx context.Context, a *app.App, q session.Question) error { return runStatus(ctx, a, q, check) },
		session.RegisterWatch(a), func(_ *session.Question, c *cobra.Command) {
			c.Flags().BoolVar(&check, "check", false, "exit with 2 unless the groups are Complete")
			c.MarkFlagsMutuallyExclusive("check", "watch")
		})
}

func runStatus(ctx context.Context, a *app.App, q session.Question, check bool) error {
	if err := checkListed(q.Inventory, q.Listed); err != nil {
		return err
	}
	return withGroups(ctx, a, q.Names, q.At, func(b *query.Builds) error {
		workers := present(ctx, a, b, q)
		return q.Status(ctx, a, b, func() error {
			names := q.Names
			if len(names) == 0 {
				names = b.Current()
			}
			all := []query.BuildStatus{}
			for _, name := range names {
				s, err := b.BuildStatus(name, workers)
				if err != nil {
					return err
				}
				all = append(all, s)
			}
			now := b.Moment(workers)
			err := a.Show(map[string]any{"groups": all}, func() error {
				return a.Sections("no build groups", len(all), func(i int) error {
					return groups.Status(a.Out, all[i], now, a.All, viewOptions(a))
				})
			})
			if err == nil && check && slices.ContainsFunc(all, func(s query.BuildStatus) bool { return s.State != transition.Complete }) {
				return exit.Reported(exit.ErrIncomplete)
			}
			return err
		})
	})
}

func newJobsCommand(a *app.App) *cobra.Command {
	var wanted []string
	var o page
	return session.Asked(a, &cobra.Command{
		Use:   "jobs ID",
		Short: "List the jobs of a build group",
		Long: `List the jobs of a build group, with their states:

  Pending           its group has not started
  Schedulable       it waits for other jobs
  Eligible          it waits for a worker
  Dispatched        a worker has it
  Built             its artifact is there
  JobFailed         it could not be built
  DependencyFailed  what it needs was not built
  JobLost           its worker, or something that it uses, is gone; it is tried again
  CancelPending     it was canceled, and still runs
  CancelComplete    it was canceled

On a terminal the list takes a screen, with what failed or runs first, unless --all is given.
--first and --after page through the jobs of a large group, in the order of their numbers.`,
		Example: "  deployster build jobs base-7\n  deployster build jobs base-7 --after 1000 --first 500 --output json\n  deployster build jobs base-7 --state JobFailed,DependencyFailed --output json",
		Args:    arguments.Named("a build group"),
	}, func(ctx context.Context, a *app.App, q session.Question) error {
		states, err := states(wanted, transition.AllJobs())
		if err != nil {
			return err
		}
		if err := o.check(); err != nil {
			return err
		}
		return runJobs(ctx, a, q, states, o)
	}, func(_ *session.Question, c *cobra.Command) {
		a.RegisterWhole(c)
		registerState(c, &wanted, "jobs", transition.AllJobs())
		o.register(c)
	})
}

func runJobs(ctx context.Context, a *app.App, q session.Question, states []transition.Job, o page) error {
	return withGroups(ctx, a, q.Names, q.At, func(b *query.Builds) error {
		summary, jobs, err := b.Jobs(q.Names[0], states...)
		if err != nil {
			return err
		}
		jobs, left := o.of(jobs)
		now := b.Now()
		if q.At != 0 {
			now = b.Moment(nil)
		}
		document := map[string]any{"group": summary.ID, "counts": summary.Counts, "jobs": jobs}
		if left > 0 {
			document["more"] = left
		}
		return a.Show(document, func() error {
			fit := 0
			if height := viewOptions(a).Height; height > 0 {
				fit = max(1, height-5) // beside the head, the notes and the prompt
			}
			rows, more := groups.JobRows(jobs, fit, now)
			if err := a.Table("no job is like that", rows, 2, 4); err != nil {
				return err
			}
			if more > 0 {
				if err := a.Printf("… and %d more: --all shows them\n", more); err != nil {
					return err
				}
			}
			if left > 0 {
				if err := a.Printf("… and %d more: --after %d shows them\n", left, jobs[len(jobs)-1].Number); err != nil {
					return err
				}
			}
			return a.Printf("\n%s\n", groups.ByState(summary))
		})
	})
}
