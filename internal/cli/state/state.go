// Package state holds the commands for what is remembered of resources from one run to the
// next.
package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/phrase"
)

// NewCommand returns the commands.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "state",
		Short: "Show and forget what is kept of resources",
		Long: `Show and forget what the types of resources have kept of them, such as ids that
only the world gives, and which the types are given back in each run. What is
forgotten is no longer known to be made by a run, either.`,
	}
	c.AddCommand(showCommand(a), forgetCommand(a))
	return c
}

func showCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "show RESOURCE",
		Short: "Show what is kept of a resource",
		Long: `Show what is kept of a resource, its id, and whether its last action was
interrupted. Of what may hold secrets only the names are shown.

A resource that is on a host of a pipeline or an environment is named with its
place, as in the log: db@host1.`,
		Example: `  deployster state show disk
  deployster state show disk --output json`,
		Args: arguments.Named("a resource"),
		RunE: func(c *cobra.Command, args []string) error {
			return with(c.Context(), a, func(ctx context.Context, m runs.Memory) error { return show(ctx, a, m, args[0]) })
		},
	}
}

func forgetCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "forget RESOURCE",
		Short: "Forget what is kept of a resource, and that it was made",
		Long: `Forget what is kept of a resource, and that a run made it. What is there stays, and is
nobody's: its type no longer finds it by what was kept, so the next apply may make it
anew, and where it is no longer declared nothing is said of it, and --prune does not
remove it, nor does the end of the task that made it. "deployster adopt" takes it over again.

It is refused while a run works on the resource.`,
		Example: `  deployster state forget disk`,
		Args:    arguments.Named("a resource"),
		RunE: func(c *cobra.Command, args []string) error {
			return with(c.Context(), a, func(ctx context.Context, m runs.Memory) error { return forget(ctx, a, m, args[0]) })
		},
	}
}

// with has something done with the memory of the workspace.
func with(ctx context.Context, a *app.App, do func(context.Context, runs.Memory) error) error {
	if err := a.Local(); err != nil {
		return err
	}
	return interrupt.Within(ctx, func(ctx context.Context) error {
		return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
			return do(ctx, runs.Memory{Log: log, Protected: a.Protected()})
		})
	})
}

func show(ctx context.Context, a *app.App, m runs.Memory, resource string) error {
	known, err := m.Recorded(ctx, resource, "")
	if err != nil {
		return err
	}
	id := known.ID
	document := map[string]any{
		"resource": resource, "id": id, "interrupted": known.Interrupted, "kept": known.Shown, "protected": known.Kept.Protected != nil,
	}
	text := "nothing is kept of it"
	if !known.Kept.None() {
		document["since"], document["run"] = known.Since, known.Run
		var kept bytes.Buffer
		encoder := json.NewEncoder(&kept)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(known.Shown); err != nil {
			return fmt.Errorf("writing what is kept of %s: %w", resource, err)
		}
		text = fmt.Sprintf("kept since %s by run %s:\n%s", phrase.Moment(known.Since), known.Run, strings.TrimSpace(kept.String()))
	}
	if known.Interrupted {
		text = "how its last action ended is not known\n" + text
	}
	return a.Show(document, func() error { return a.Printf("%s\n%s\n", id, text) })
}

func forget(ctx context.Context, a *app.App, m runs.Memory, resource string) error {
	forgotten, err := m.Forget(ctx, a.NewID(), resource, nil, runs.Who())
	switch {
	case errors.Is(err, deploylog.ErrLocked):
		return fmt.Errorf("forgetting %s: a run works on it (%w): try again when that has ended", resource, err)
	case err != nil:
		return err
	case forgotten == runs.Forgotten{}:
		if _, err := m.Recorded(ctx, resource, ""); err != nil {
			return fmt.Errorf("forgetting %s: %w", resource, err)
		}
	}
	text := "forgot what was kept of %s"
	switch {
	case forgotten.Made != "" && forgotten.Kept:
		text = "forgot what was kept of %s, and that run " + forgotten.Made + " made it; what is there stays"
	case forgotten.Made != "":
		text = "forgot that run " + forgotten.Made + " made %s; what is there stays"
	case !forgotten.Kept:
		text = "nothing was kept of %s, and no run is known to have made it"
	}
	return a.Say(map[string]any{"resource": resource, "forgotten": forgotten != (runs.Forgotten{}), "made_by": forgotten.Made}, text, resource)
}
