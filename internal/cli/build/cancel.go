package build

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/internal/view/groups"
)

type cancelOptions struct {
	group  string
	reason string
	wait   bool
}

func newCancelCommand(a *app.App) *cobra.Command {
	var o cancelOptions
	c := &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a build group",
		Long: `Cancel a build group: none of its jobs is begun any more, and those that run are stopped
by whoever is at work on build groups. What is built stays, and "build retry" goes on with
it. Where it is only recorded, the command does not wait for what runs, unless told so
(--wait), also of a group that is being canceled already.`,
		Example: "  deployster build cancel base-7 --reason 'wrong branch'\n  deployster build cancel base --wait",
		Args:    arguments.Named("a build group"),
		RunE: func(c *cobra.Command, args []string) error {
			o.group = args[0]
			return interrupt.Within(c.Context(), func(ctx context.Context) error { return runCancel(ctx, a, o) })
		},
	}
	arguments.RegisterReason(c, &o.reason)
	c.Flags().BoolVar(&o.wait, "wait", false, "wait until all that ran is stopped")
	return c
}

func runCancel(ctx context.Context, a *app.App, o cancelOptions) error {
	return withGroups(ctx, a, []string{o.group}, 0, func(b *query.Builds) error {
		id, err := b.ID(o.group)
		if err != nil {
			return err
		}
		events, refused := b.Command(ctx, build.Cancel{Group: id, By: app.Whoami(), Reason: o.reason})
		g, _, err := b.Jobs(id)
		if err != nil {
			return errors.Join(refused, err)
		}
		if refused != nil {
			if !joins(refused, g, o.wait) {
				return refused
			}
			a.Notice(fmt.Sprintf("note: build group %s was canceled before", id))
		}
		if o.wait && !g.State.Ended() {
			if g, err = awaitEnd(ctx, b, id); err != nil {
				return err
			}
		}
		t := groups.TallyOf(g)
		done := fmt.Sprintf("build group %s is canceled: %s built, %d not", id, areJobs(t.Built), t.Canceled+t.Failed+t.NotBuilt)
		if !g.State.Ended() {
			done = fmt.Sprintf("build group %s is being canceled: %s stopped, %d not begun", id, areJobs(t.Running), t.Canceled)
			noticeIdle(a, b)
		}
		return a.Recorded(map[string]any{"group": g.ID, "state": g.State, "counts": g.Counts}, events, done, "")
	})
}

// joins reports whether a cancel that is refused asks for what is the case already: a group
// that is canceled, or is being canceled where that is waited for.
func joins(refused error, g build.Summary, wait bool) bool {
	var why *refusal.Error
	if !errors.As(refused, &why) {
		return false
	}
	return g.State == transition.Canceled && why.Code == build.HasEnded || wait && why.Code == build.AlreadyCanceling
}

// areJobs is how many jobs are something: "1 job is".
func areJobs(n int) string {
	if n == 1 {
		return "1 job is"
	}
	return phrase.Count(n, "job") + " are"
}

// awaitEnd waits until a group has ended, which it does only where somebody is at work.
func awaitEnd(ctx context.Context, b *query.Builds, id string) (g build.Summary, err error) {
	if !b.Controlled(record.Entity) {
		return g, fmt.Errorf("build group %s is not waited for: nobody is at work on build groups; deployster build run is", id)
	}
	for e, err := range b.Log.Watch(ctx, deploylog.Filter{After: b.Head()}) {
		if err != nil {
			return g, fmt.Errorf("watching the log: %w", err)
		}
		if of, _, _ := record.Parse(e.Target); of != id {
			continue
		}
		if err := b.Follow(ctx, 0); err != nil {
			return g, err
		}
		if g, _, err = b.Jobs(id); err != nil || g.State.Ended() {
			return g, err
		}
	}
	return g, errors.Join(ctx.Err(), fmt.Errorf("build group %s was not waited for: the log ended", id))
}

type retryOptions struct {
	group  string
	failed bool
}

func newRetryCommand(a *app.App) *cobra.Command {
	var o retryOptions
	c := &cobra.Command{
		Use:   "retry ID",
		Short: "Queue a build group again that has failed or was canceled",
		Long: `Queue a build group again that has failed or was canceled. What it has built stays built;
the rest is done anew, with what the group carries since it was submitted. With --failed-only
what was canceled stays so, unless a job that failed needs it.`,
		Example: "  deployster build retry base-7\n  deployster build retry base-7 --failed-only && deployster build run --until-idle",
		Args:    arguments.Named("a build group"),
		RunE: func(c *cobra.Command, args []string) error {
			o.group = args[0]
			return runRetry(c.Context(), a, o)
		},
	}
	c.Flags().BoolVar(&o.failed, "failed-only", false, "only jobs that failed, and those that were not built because of it")
	return c
}

func runRetry(ctx context.Context, a *app.App, o retryOptions) error {
	return withGroups(ctx, a, []string{o.group}, 0, func(b *query.Builds) error {
		id, err := b.ID(o.group)
		if err != nil {
			return err
		}
		events, err := b.Command(ctx, build.Retry{Group: id, FailedOnly: o.failed, By: app.Whoami()})
		if err != nil {
			return err
		}
		g, _, err := b.Jobs(id)
		if err != nil {
			return err
		}
		t := groups.TallyOf(g)
		done := fmt.Sprintf("build group %s is queued again: %s to be built", id, areJobs(t.Waiting))
		if of := g.Pipeline; of != nil {
			done = fmt.Sprintf("build group %s, of stage %s of revision %s of pipeline %s, is queued again: %s to be built", id, of.Stage, of.Revision, of.Pipeline, areJobs(t.Waiting))
		}
		if t.Built > 0 {
			done += ", beside " + phrase.Count(t.Built, "job") + " built before"
		}
		defer noticeIdle(a, b)
		return a.Recorded(map[string]any{"group": g.ID, "state": g.State, "counts": g.Counts}, events, done, "")
	})
}
