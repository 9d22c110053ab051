package pipeline

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/record"
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
this reason, and later revisions proceed. A retry of it waits for approval again.

Of a pipeline that promotes by observed state, reject the revision that is the next to
come to a manual stage. It does not come there, whoever approves it, until another
revision does, or "pipeline release-hold" asks for approval again.`,
		Example: "  deployster pipeline reject gateway approve-prod 42 --reason 'drops sessions'",
		Args:    arguments.Named("a pipeline", "a stage", "a revision"),
	}, func(args []string) (pipeline.Command, string) {
		return pipeline.Reject{Stage: args[1], Revision: args[2], By: app.Whoami(), Reason: reason},
			fmt.Sprintf("revision %s of pipeline %s is rejected at stage %s", args[2], args[0], args[1])
	})
	arguments.RegisterReason(c, &reason)
	released := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if is, err := rejectLevel(c.Context(), a, args, reason); is || err != nil {
			return err
		}
		return released(c, args)
	}
	check := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if reason == "" {
			return exit.Usage("why? say --reason TEXT: those who released the revision will read it")
		}
		return check(c, args)
	}
	return c
}

type rollbackOptions struct{ name, stage, revision, reason string }

func newRollbackCommand(a *app.App) *cobra.Command {
	var o rollbackOptions
	c := &cobra.Command{
		Use:   "rollback PIPELINE STAGE",
		Short: "Deploy an earlier revision to a stage again, and pause the stage",
		Long: `Deploy an earlier revision to the hosts of a stage again, with what it carries:
the last good one, that is, the one that finished the stage last before the present
one and was not rolled back itself, or the one that --revision names.

The stage is paused by that, so that no other revision enters it until "pipeline
resume". Other stages stay as they are. Steps that came into the pipeline after the
revision was released are left out, as they were then. A stage with an environment
rolls that back.

While a revision is in the stage the rollback is refused: cancel it first.`,
		Example: "  deployster pipeline rollback gateway prod --reason 'drops sessions'\n  deployster pipeline rollback gateway prod --revision 41\n  deployster pipeline resume gateway prod",
		Args:    arguments.Named("a pipeline", "a stage"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name, o.stage = args[0], args[1]
			return runRollback(c.Context(), a, o)
		},
	}
	c.Flags().StringVar(&o.revision, "revision", "", "revision to go back to (default: the last good one)")
	arguments.RegisterReason(c, &o.reason)
	return c
}

func runRollback(ctx context.Context, a *app.App, o rollbackOptions) error {
	return withPipelines(ctx, a, nil, 0, func(p *query.Pipelines) error {
		events, err := p.Command(ctx, o.name, pipeline.Rollback{Stage: o.stage, Revision: o.revision, ID: a.NewID(), By: app.Whoami(), Reason: o.reason})
		if err != nil {
			return err
		}
		started := events[len(events)-1]
		info := record.RollbackOf(started)
		done := fmt.Sprintf("stage %s of pipeline %s is rolled back to revision %s, and paused until deployster pipeline resume %s %s", info.Stage, o.name, started.Revision, o.name, info.Stage)
		if !a.JSON() {
			events = events[len(events)-1:]
		}
		return a.Recorded(map[string]any{"rollback": info}, events, done, "")
	})
}
