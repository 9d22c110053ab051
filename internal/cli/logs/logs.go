// Package logs is the commands of the deployment log.
package logs

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
)

// NewCommand returns the commands of the deployment log.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "log",
		Short: "Query the deployment log",
		Long: `Query the deployment log. It is append-only and the only source
of truth: every run of every process on this workspace is in it.`,
		Example: `  deployster log list --deployment 01JD3K…
  deployster log runs --last 10
  deployster log latest resource/db
  deployster log follow --target resource/
  deployster log verify`,
	}
	c.AddCommand(newListCommand(a), newRunsCommand(a), newLatestCommand(a), newFollowCommand(a), newVerifyCommand(a), newExportCommand(a), newCopyCommand(a))
	return c
}

type listOptions struct {
	filter deploylog.Filter
	utc    bool
	follow bool // not a flag: what comes later counts, too
}

// listing makes a command one that prints events.
func listing(a *app.App, c *cobra.Command, o listOptions) *cobra.Command {
	var since string
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if o.filter.Since, err = parseSince(a, since); err != nil {
			return err
		}
		if !o.follow {
			return runList(c.Context(), a, o)
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return runList(ctx, a, o)
	}
	c.Flags().StringVar(&o.filter.Deployment, "deployment", "", "only events of this deployment (a run's id)")
	c.Flags().StringVar((*string)(&o.filter.Target), "target", "", `only events of this target, such as resource/db; "resource/" is all resources`)
	c.Flags().StringVar(&o.filter.Name, "event", "", "only events of this name, such as action-failed")
	c.Flags().StringVar(&since, "since", "", "only events since then: a time (2026-01-31T15:04:05Z), a date, or how long ago (90m)")
	arguments.RegisterLast(c, &o.filter.Last)
	registerUTC(c, &o.utc)
	return c
}

func registerUTC(c *cobra.Command, into *bool) {
	c.Flags().BoolVar(into, "utc", false, "show times in UTC instead of the local time zone")
}

// parseSince reads a time that somebody typed; "" is the zero time.
func parseSince(a *app.App, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return a.Now().Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, exit.Usage("--since %q: it must be a time such as 2026-01-31T15:04:05Z, a date, or how long ago such as 90m", text)
}

func newListCommand(a *app.App) *cobra.Command {
	c := listing(a, &cobra.Command{
		Use:   "list",
		Short: "List events, oldest first",
		Long: `List events, oldest first. On a terminal the newest are listed for which there is room,
and it is said how many there are before them, unless --last or --all asks for more. What
is piped, and JSON, is every event.`,
		Example: "  deployster log list --target resource/db --last 20\n  deployster log list --event action-failed --since 24h --output json",
	}, listOptions{})
	a.RegisterWhole(c)
	return c
}

func newFollowCommand(a *app.App) *cobra.Command {
	return listing(a, &cobra.Command{
		Use:     "follow",
		Short:   "Print events as they are appended, by any process, until interrupted",
		Example: "  deployster log follow --target run/ --last 5",
	}, listOptions{follow: true})
}

// runList prints the events that are in the log, or goes on with those that come.
func runList(ctx context.Context, a *app.App, o listOptions) error {
	return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		read := log.Read
		if o.follow {
			if err := unknownFilter(ctx, a, log, o.filter, true); err != nil {
				return err
			}
			read = log.Watch
		}
		found, actors := false, query.NewActors(log)
		if height := a.PlanOptions(a.Out).Height; height > 0 && !o.follow && !a.JSON() && o.filter.Last == 0 {
			if found, err := listNewest(ctx, a, log, o, height); found || err != nil {
				return err
			}
			return unknownFilter(ctx, a, log, o.filter, false)
		}
		for e, err := range read(ctx, o.filter) {
			if err != nil {
				return err
			}
			found = true
			if err := printEvent(ctx, a, e, actors, o.utc); err != nil {
				return err
			}
		}
		if found || o.follow {
			return nil
		}
		return unknownFilter(ctx, a, log, o.filter, false)
	})
}

func printEvent(ctx context.Context, a *app.App, e deploylog.Event, actors *query.Actors, utc bool) error {
	if a.JSON() {
		return a.Line(e)
	}
	by, err := actors.Of(ctx, e)
	if err != nil {
		return err
	}
	return a.Printf("%s", view.LogLine(e, by, utc, a.PlanOptions(a.Out).Width))
}

// unknownFilter says so where a filter that selects nothing names an event or a
// target that there is not. What is followed may still get one.
func unknownFilter(ctx context.Context, a *app.App, log deploylog.Log, f deploylog.Filter, follow bool) error {
	if (f.Name == "" || query.EventNames()[f.Name]) && f.Target == "" {
		return nil
	}
	names, err := query.NamesIn(ctx, log)
	if err != nil {
		return err
	}
	if f.Name != "" && !names.HasEvent(f.Name) {
		hint := didYouMean(names.LikeEvent(f.Name))
		if !follow {
			return exit.Usage("--event %s: there is no such event%s", f.Name, cmp.Or(hint, "; deployster log list shows what there is"))
		}
		fmt.Fprintf(a.Err, "note: there is no event %s yet%s\n", phrase.Plain(f.Name), hint)
	}
	if f.Target != "" && !names.HasTarget(f.Target) {
		fmt.Fprintf(a.Err, "note: nothing has happened to %s%s\n", phrase.Plain(string(f.Target)), didYouMean(names.LikeTarget(f.Target)))
	}
	return nil
}

func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", phrase.Plain(near))
}
