// Package notification is the commands about what a server tells of the log.
package notification

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/notification"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/view"
)

// NewCommand is "notification".
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "notification",
		Short: "See what a server has told of the log, and have it told again",
		Example: `  deployster serve --notifications notifications.yaml
  deployster notification list
  deployster notification retry team`,
	}
	c.AddCommand(newListCommand(a), newRetryCommand(a))
	return c
}

func newListCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the notifications, how far they are, and what could not be told",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.WithLog(c.Context(), func(log deploylog.Log, _ string) error { return list(c.Context(), a, log) })
		},
	}
}

func list(ctx context.Context, a *app.App, log deploylog.Log) error {
	all, err := notification.Read(ctx, log)
	if err != nil {
		return err
	}
	rows := [][]string{{"NOTIFICATION", "TOLD", "LAST", "PUT ASIDE"}}
	for _, s := range all {
		last := "-"
		if !s.Last.IsZero() {
			last = s.Last.UTC().Format(time.RFC3339)
		}
		name := s.Name
		if !s.Active {
			name += " (not used any more)"
		}
		rows = append(rows, []string{name, strconv.Itoa(s.Delivered), last, strconv.Itoa(len(s.Abandoned))})
	}
	return a.Show(map[string]any{"notifications": all}, func() error {
		if err := a.Table("no server has told anything: deployster serve --notifications FILE", rows); err != nil {
			return err
		}
		for _, s := range all {
			for _, left := range s.Abandoned {
				what := "deployster notification retry " + s.Name
				if left.Again {
					what = "it is told again as soon as a server runs"
				}
				if err := a.Printf("%s: event %d could not be told (tries: %d): %s\n    → %s\n", s.Name, left.Event, left.Tries, view.Clean(left.Error), what); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func newRetryCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "retry NAME [EVENT]",
		Short: "Have what could not be told be told again",
		Long: `Have what a notification could not tell in several tries be told again: one event, or all
that was put aside. The server that runs does so at once, or the next one that starts.`,
		Example: "  deployster notification retry team\n  deployster notification retry team 4711",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			event := int64(0)
			if len(args) > 1 {
				var err error
				if event, err = strconv.ParseInt(args[1], 10, 64); err != nil || event < 1 {
					return exit.Usage("%q is not the number of an event: deployster notification list names those that were put aside", args[1])
				}
			}
			return a.WithLog(c.Context(), func(log deploylog.Log, _ string) error {
				written, err := notification.Retry{Event: event, By: app.Whoami()}.Do(c.Context(), log, args[0])
				if err != nil {
					return err
				}
				return a.Recorded(map[string]any{}, written, fmt.Sprintf("%s of %s: told again as soon as a server runs", phrase.Count(len(written), "notification"), args[0]), "")
			})
		},
	}
}
