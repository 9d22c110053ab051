package logs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/phrase"
)

type verifyOptions struct {
	anchors []string
	accept  bool
}

func newVerifyCommand(a *app.App) *cobra.Command {
	var o verifyOptions
	c := &cobra.Command{
		Use:   "verify",
		Short: "Verify that the log is what was appended",
		Long: `Verify that the log is what was appended. The whole log is read: no event was
changed, removed, or put elsewhere, and nothing but a log's own tables and
triggers is in the file.

The head is a hash over all events, with the number of the last one; logs with
the same head are the same. Note it outside of this machine: --anchor HEAD fails
when the log no longer holds the events that the head stood for, which also
finds what somebody rewrote as a whole.

--accept-head is for a log that is refused because its newest events are
missing, as in a backup that was restored on purpose: it is verified, and goes
on from where it ends. What is missing stays missing.`,
		Example: "  deployster log verify\n  deployster log verify --anchor 23:1ec7f97eefc21d2d2e6b68327b7b6d5f\n  deployster log verify --accept-head",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runVerify(c.Context(), a, o)
		},
	}
	c.Flags().StringArrayVar(&o.anchors, "anchor", nil, "head that was noted elsewhere, as log verify printed it; may be repeated")
	c.Flags().BoolVar(&o.accept, "accept-head", false, "go on with a log whose newest events are missing, from where it ends")
	return c
}

func runVerify(ctx context.Context, a *app.App, o verifyOptions) error {
	known := make([]deploylog.Head, len(o.anchors))
	for i, text := range o.anchors {
		var err error
		if known[i], err = deploylog.ParseHead(text); err != nil {
			return exit.Usage("--anchor %q: %w; log verify prints it", text, err)
		}
	}
	if o.accept {
		if len(known) > 0 {
			return exit.Usage("--accept-head takes the log as it is, so --anchor has no place beside it: run log verify --anchor HEAD afterwards")
		}
		if err := acceptHead(ctx, a); err != nil {
			return err
		}
	}
	return a.WithLog(ctx, func(log deploylog.Log, path string) error {
		v, err := log.Verify(ctx, known...)
		if err != nil {
			return err
		}
		if a.JSON() {
			return a.Line(map[string]any{"events": v.Events, "head": v.Head, "anchor": v.Anchor().String(), "id": log.ID()})
		}
		holds := ""
		for _, h := range known {
			holds += fmt.Sprintf(", and holds all that %s stood for", h)
		}
		return a.Printf("%s is sound: %s, head %s%s\n", path, phrase.Count(int(v.Events), "event"), v.Anchor(), holds)
	})
}

// acceptHead makes the log usable where it ends.
func acceptHead(ctx context.Context, a *app.App) error {
	path, v, err := a.AcceptHead(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Err, "note: %s goes on from event %d\n", path, v.Events)
	return err
}
