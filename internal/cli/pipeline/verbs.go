package pipeline

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/pipeline"
)

func newSkipCommand(a *app.App) *cobra.Command {
	var reason string
	c := proposing(a, &cobra.Command{
		Use:   "skip PIPELINE REVISION",
		Short: "Pass over a revision that waits",
		Long: `Pass over a revision that waits for its turn, for an artifact or for approval,
because it is not wanted any more. It enters no further stage, its status is
skipped, and later revisions proceed at once. A retry takes it up again.

One that is at work in a stage is refused, for that would stay half done:
"pipeline cancel" ends a revision wherever it is.`,
		Example: "  deployster pipeline skip gateway 42 --reason 'replaced by 43'",
		Args:    arguments.Named("a pipeline", "a revision"),
	}, func(args []string) (pipeline.Command, string) {
		return pipeline.Skip{Revision: args[1], By: app.Whoami(), Reason: reason},
			fmt.Sprintf("revision %s of pipeline %s is skipped", args[1], args[0])
	})
	arguments.RegisterReason(c, &reason)
	return c
}

func newRejectCommand(a *app.App) *cobra.Command {
	var reason string
	c := proposing(a, &cobra.Command{
		Use:   "reject PIPELINE STAGE REVISION --reason TEXT",
		Short: "Reject a revision at an approval stage",
		Long: `Reject a revision at an approval stage. It has failed there, rejected by you with
this reason, and later revisions proceed. A retry of it waits for approval again.`,
		Example: "  deployster pipeline reject gateway approve-prod 42 --reason 'drops sessions'",
		Args:    arguments.Named("a pipeline", "a stage", "a revision"),
	}, func(args []string) (pipeline.Command, string) {
		return pipeline.Reject{Stage: args[1], Revision: args[2], By: app.Whoami(), Reason: reason},
			fmt.Sprintf("revision %s of pipeline %s is rejected at stage %s", args[2], args[0], args[1])
	})
	arguments.RegisterReason(c, &reason)
	check := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if reason == "" {
			return exit.Usage("why? say --reason TEXT: those who released the revision will read it")
		}
		return check(c, args)
	}
	return c
}
