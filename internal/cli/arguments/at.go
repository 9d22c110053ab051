package arguments

import (
	"context"

	"github.com/spf13/cobra"
)

// RegisterAt adds the flag that asks for the past.
func RegisterAt(c *cobra.Command, into *int64) {
	c.Flags().Int64Var(into, "at", 0, "as it was right after this event")
}

// AsOf makes a command one that shows the present or the past: run is given its
// arguments, and the event that was asked for; 0 is now.
func AsOf(c *cobra.Command, run func(ctx context.Context, args []string, at int64) error) *cobra.Command {
	var at int64
	RegisterAt(c, &at)
	c.RunE = func(c *cobra.Command, args []string) error { return run(c.Context(), args, at) }
	return c
}

// History is AsOf of a command that lists the newest entries of what a name has.
func History(c *cobra.Command, run func(ctx context.Context, name string, at int64, last int) error) *cobra.Command {
	var last int
	RegisterLast(c, &last)
	return AsOf(c, func(ctx context.Context, args []string, at int64) error { return run(ctx, args[0], at, last) })
}

// Folded is what is folded from the log.
type Folded interface {
	Head() int64
	Follow(ctx context.Context, until int64) error
}
