// Package pipeline is the commands of pipelines.
package pipeline

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/pipeline"
)

// NewCommand returns the commands of pipelines.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "pipeline",
		Short: "Manage pipelines and release revisions",
		Long: `Manage pipelines, which carry revisions through stages, host groups and hosts.

A definition says what the stages are. A revision that is released goes through
them while "pipeline run" is at work; where it stands is in the deployment log
and nowhere else, so that the pipeline may change while it runs.`,
		Example: `  deployster pipeline apply -f gateway.yaml
  deployster pipeline release gateway 42
  deployster pipeline artifact gateway 42 x86 --ref registry/gateway@sha256:…
  deployster pipeline run gateway
  deployster pipeline status gateway
  deployster pipeline explain stage/gateway/prod`,
	}
	c.AddCommand(
		newApplyCommand(a), newReleaseCommand(a), newArtifactCommand(a), newApproveCommand(a),
		newCancelCommand(a), newRetryCommand(a), newDeleteCommand(a), newRunCommand(a), newListCommand(a),
		newStatusCommand(a), newHistoryCommand(a), newExplainCommand(a),
	)
	return c
}

// withPipelines has something done with the pipelines of the log, as they are now.
func withPipelines(ctx context.Context, a *app.App, do func(*pipelines.Pipelines) error) error {
	return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		p := pipelines.New(log, a.Now)
		if err := p.Follow(ctx, 0); err != nil {
			return err
		}
		return do(p)
	})
}

// runPropose has a command recorded, unless the pipeline refuses it; done says what
// was done then.
func runPropose(ctx context.Context, a *app.App, name string, command pipeline.Command, done string) error {
	return withPipelines(ctx, a, func(p *pipelines.Pipelines) error {
		events, err := p.Command(ctx, name, command)
		if err != nil {
			return exit.Refused(err)
		}
		return a.Recorded(map[string]any{}, events, done, "")
	})
}

// proposing makes a command, of which a pipeline is the first argument, one that has
// something recorded.
func proposing(a *app.App, c *cobra.Command, wanted func(args []string) (command pipeline.Command, done string)) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		command, done := wanted(args)
		return runPropose(c.Context(), a, args[0], command, done)
	}
	return c
}

func newReleaseCommand(a *app.App) *cobra.Command {
	return proposing(a, &cobra.Command{
		Use:   "release PIPELINE REVISION",
		Short: "Register a revision and start its deployment",
		Long: `Register a revision and start its deployment. Revisions go through the pipeline
in the order in which they are released, whatever their names are. Each is
released once.`,
		Example: "  deployster pipeline release gateway 42\n  deployster pipeline release gateway $(git rev-parse HEAD)",
		Args:    arguments.Named("a pipeline", "a revision"),
	}, func(args []string) (pipeline.Command, string) {
		return pipeline.Release{Revision: args[1], ID: a.NewID(), By: app.Whoami()},
			fmt.Sprintf("revision %s of pipeline %s is released", args[1], args[0])
	})
}

func newApproveCommand(a *app.App) *cobra.Command {
	return proposing(a, &cobra.Command{
		Use:     "approve PIPELINE STAGE REVISION",
		Short:   "Approve a revision at an approval stage",
		Example: "  deployster pipeline approve gateway approve-prod 42",
		Args:    arguments.Named("a pipeline", "a stage", "a revision"),
	}, func(args []string) (pipeline.Command, string) {
		return pipeline.Approve{Stage: args[1], Revision: args[2], By: app.Whoami()},
			fmt.Sprintf("revision %s of pipeline %s is approved at stage %s", args[2], args[0], args[1])
	})
}

func newCancelCommand(a *app.App) *cobra.Command {
	var reason string
	c := proposing(a, &cobra.Command{
		Use:   "cancel PIPELINE REVISION",
		Short: "Cancel the deployment of a revision",
		Long: `Cancel the deployment of a revision. Nothing of it begins any more; what is being
done at the moment is finished and recorded. It may be retried.`,
		Example: "  deployster pipeline cancel gateway 42 --reason 'drops sessions'",
		Args:    arguments.Named("a pipeline", "a revision"),
	}, func(args []string) (pipeline.Command, string) {
		return pipeline.Cancel{Revision: args[1], By: app.Whoami(), Reason: reason},
			fmt.Sprintf("revision %s of pipeline %s is cancelled", args[1], args[0])
	})
	arguments.RegisterReason(c, &reason)
	return c
}

func newRetryCommand(a *app.App) *cobra.Command {
	return proposing(a, &cobra.Command{
		Use:   "retry PIPELINE REVISION",
		Short: "Retry a revision that failed or was cancelled",
		Long: `Retry a revision that failed or was cancelled. What is complete stays so; what
failed is done again.`,
		Example: "  deployster pipeline retry gateway 42",
		Args:    arguments.Named("a pipeline", "a revision"),
	}, func(args []string) (pipeline.Command, string) {
		return pipeline.Retry{Revision: args[1], By: app.Whoami()},
			fmt.Sprintf("revision %s of pipeline %s is tried again", args[1], args[0])
	})
}
