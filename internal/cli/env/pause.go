package env

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
)

func newPauseCommand(a *app.App) *cobra.Command {
	return proposing(a, &cobra.Command{
		Use:   "pause NAME",
		Short: "Pause an environment: nothing new begins in it",
		Long: `Pause an environment: nothing new begins in it, until it is resumed or something
is deployed to it. What is being done at the moment is finished.`,
		Example: "  deployster env pause shop/prod --reason 'checkout fails'",
	}, "environment %s is paused", func(reason string) environment.Command {
		return environment.Pause{By: app.Whoami(), Reason: reason}
	})
}

func newResumeCommand(a *app.App) *cobra.Command {
	return proposing(a, &cobra.Command{
		Use:     "resume NAME",
		Short:   "Resume an environment that was paused",
		Example: "  deployster env resume shop/prod",
	}, "environment %s goes on", func(reason string) environment.Command {
		return environment.Resume{By: app.Whoami(), Reason: reason}
	})
}

// proposing makes a command one that has something recorded for a reason, unless the
// environment refuses it.
func proposing(a *app.App, c *cobra.Command, done string, wanted func(reason string) environment.Command) *cobra.Command {
	var reason string
	c.Args = arguments.Named("an environment")
	c.RunE = func(c *cobra.Command, args []string) error {
		return withEnvironments(c.Context(), a, args, 0, func(e *environmentSet) error {
			events, err := e.Command(c.Context(), args[0], wanted(reason))
			if err != nil {
				return exit.Refused(err)
			}
			return a.Recorded(map[string]any{"environment": args[0]}, events, fmt.Sprintf(done, args[0]), "")
		})
	}
	arguments.RegisterReason(c, &reason)
	return c
}
