package logs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/runner"
)

type listOptions struct {
	deployment, target, event, since string
	last                             int
	utc                              bool
	follow                           bool // not a flag: what comes later counts, too
}

func (o *listOptions) register(c *cobra.Command) {
	c.Flags().StringVar(&o.deployment, "deployment", "", "only events of this deployment (a run's id)")
	c.Flags().StringVar(&o.target, "target", "", `only events of this target, such as resource/db; "resource/" is all resources`)
	c.Flags().StringVar(&o.event, "event", "", "only events of this name, such as action-failed")
	c.Flags().StringVar(&o.since, "since", "", "only events since then: a time (2026-01-31T15:04:05Z), a date, or how long ago (90m)")
	arguments.RegisterLast(c, &o.last)
	registerUTC(c, &o.utc)
}

func registerUTC(c *cobra.Command, into *bool) {
	c.Flags().BoolVar(into, "utc", false, "show times in UTC instead of the local time zone")
}

func (o *listOptions) filter(a *app.App) (deploylog.Filter, error) {
	filter := deploylog.Filter{
		Deployment: o.deployment, Target: deploylog.Target(o.target), Name: o.event, Last: o.last,
	}
	var err error
	filter.Since, err = since(a, o.since)
	return filter, err
}

// since reads a time that somebody typed; "" is the zero time.
func since(a *app.App, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return a.Now().Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, exit.Usage("--since %q: it must be a time such as 2026-01-31T15:04:05Z, a date, or how long ago such as 90m", text)
}

// clock is a time as people read it, with its zone.
func clock(t time.Time, utc bool) string {
	if utc {
		t = t.UTC()
	} else {
		t = t.Local()
	}
	return t.Format("2006-01-02 15:04:05.000Z07:00")
}

func newListCommand(a *app.App) *cobra.Command {
	var o listOptions
	c := &cobra.Command{
		Use:     "list",
		Short:   "List events, oldest first",
		Example: "  deployster log list --target resource/db --last 20\n  deployster log list --event action-failed --since 24h --output json",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return runList(c.Context(), a, o) },
	}
	o.register(c)
	return c
}

func newFollowCommand(a *app.App) *cobra.Command {
	o := listOptions{follow: true}
	c := &cobra.Command{
		Use:     "follow",
		Short:   "Print events as they are appended, by any process, until interrupted",
		Example: "  deployster log follow --target run/ --last 5",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runList(ctx, a, o)
		},
	}
	o.register(c)
	return c
}

// runList prints the events that are in the log, or goes on with those that come.
func runList(ctx context.Context, a *app.App, o listOptions) error {
	filter, err := o.filter(a)
	if err != nil {
		return err
	}
	return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		read := log.Read
		if o.follow {
			if err := unknownFilter(ctx, a, log, filter, true); err != nil {
				return err
			}
			read = log.Watch
		}
		found, who := false, actors{log: log, by: map[string]string{}}
		for e, err := range read(ctx, filter) {
			if err != nil {
				return err
			}
			found = true
			if err := printEvent(ctx, a, e, &who, o.utc); err != nil {
				return err
			}
		}
		if found || o.follow {
			return nil
		}
		return unknownFilter(ctx, a, log, filter, false)
	})
}

func printEvent(ctx context.Context, a *app.App, e deploylog.Event, who *actors, utc bool) error {
	if a.JSON() {
		return a.Line(e)
	}
	by, err := who.of(ctx, e)
	if err != nil {
		return err
	}
	return a.Printf("%6d  %s  %s  %-14s  %-32s %-26s%s\n", e.Seq, clock(e.CreatedAt, utc), e.Deployment, by, e.Name, e.Target, summary(e))
}

// summary picks from an event's data what a person asks for first.
func summary(e deploylog.Event) string {
	var data runner.EventData
	if len(e.Data) == 0 || json.Unmarshal(e.Data, &data) != nil {
		return ""
	}
	var parts []string
	if data.Status != "" {
		parts = append(parts, string(data.Status))
	}
	if len(data.Actions) > 0 {
		parts = append(parts, "actions "+strings.Join(data.Actions, ", "))
	}
	if e.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", e.Attempt))
	}
	if data.Exit != nil {
		parts = append(parts, fmt.Sprintf("exit %d", *data.Exit))
	}
	if data.DurationMS != nil {
		parts = append(parts, fmt.Sprintf("%.1fs", *data.DurationMS/1000))
	}
	if data.Error != "" {
		first, _, _ := strings.Cut(data.Error, "\n")
		parts = append(parts, first)
	}
	if len(parts) == 0 {
		return ""
	}
	return "  " + output.PlainText(strings.Join(parts, " · "))
}
