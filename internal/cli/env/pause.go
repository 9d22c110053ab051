package env

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
)

type pauseOptions struct{ name, reason string }

func newPauseCommand(a *app.App) *cobra.Command {
	var o pauseOptions
	c := &cobra.Command{
		Use:   "pause NAME",
		Short: "Pause an environment: nothing new begins in it",
		Long: `Pause an environment: nothing new begins in it, until it is resumed or something
is deployed to it. What is being done at the moment is finished.`,
		Example: "  deployster env pause shop/prod --reason 'checkout fails'",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = args[0]
			return runPropose(c.Context(), a, o, environment.Pause{By: app.Whoami(), Reason: o.reason}, "environment %s is paused")
		},
	}
	arguments.RegisterReason(c, &o.reason)
	return c
}

func newResumeCommand(a *app.App) *cobra.Command {
	var o pauseOptions
	c := &cobra.Command{
		Use:     "resume NAME",
		Short:   "Resume an environment that was paused",
		Example: "  deployster env resume shop/prod",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = args[0]
			return runPropose(c.Context(), a, o, environment.Resume{By: app.Whoami(), Reason: o.reason}, "environment %s goes on")
		},
	}
	arguments.RegisterReason(c, &o.reason)
	return c
}

// runPropose has a command recorded, unless the environment refuses it.
func runPropose(ctx context.Context, a *app.App, o pauseOptions, c environment.Command, done string) error {
	if err := arguments.CheckReason(o.reason); err != nil {
		return err
	}
	return withEnvironments(ctx, a, []string{o.name}, 0, func(e *environmentSet) error {
		events, err := e.Command(ctx, o.name, c)
		if err != nil {
			return exit.Refused(err)
		}
		return a.Recorded(map[string]any{"environment": o.name}, events, fmt.Sprintf(done, o.name), "")
	})
}
