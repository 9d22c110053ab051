// Package pipeline is the commands of pipelines.
package pipeline

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/record"
)

// NewCommand returns the commands of pipelines.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "pipeline",
		Short: "Manage pipelines and release revisions",
		Long: `Manage pipelines, which carry revisions through stages, host groups and hosts.

A definition says what the stages are. A revision that is released goes through
them while "pipeline run" is at work; where it stands is in the deployment log
and nowhere else, so that the pipeline may change while it runs.

A pipeline whose definition has promotion is another kind: its stages are environments,
and nothing is released. What the first environment is observed to run is promoted to
the others, one after the other.`,
		Example: `  deployster pipeline apply -f gateway.yaml
  deployster pipeline release gateway 42
  deployster pipeline artifact gateway 42 x86 --ref registry/gateway@sha256:…
  deployster pipeline run gateway
  deployster pipeline status gateway
  deployster pipeline explain stage/gateway/prod`,
	}
	c.AddCommand(
		newApplyCommand(a), newReleaseCommand(a), newAcceptCommand(a), newDeclineCommand(a), newArtifactCommand(a), newApproveCommand(a), newSignCommand(a), newKeyCommand(a), newRejectCommand(a), newSkipCommand(a), newRollbackCommand(a), newRepairCommand(a), newRerunCommand(a),
		newCancelCommand(a), newRetryCommand(a), newDeleteCommand(a), newRunCommand(a), newListCommand(a),
		newStatusCommand(a), newHistoryCommand(a), newShowCommand(a), newDiffCommand(a), newTraceCommand(a), newExplainCommand(a), newConfirmCommand(a),
		newPauseCommand(a), newResumeCommand(a), newHoldCommand(a), newReleaseHoldCommand(a), newStopTheLineCommand(a),
	)
	routed(c, a)
	return c
}

// withPipelines has something done with the pipelines of the log, see session.AsOf.
func withPipelines(ctx context.Context, a *app.App, names []string, at int64, do func(*query.Pipelines) error) error {
	return session.AsOf(ctx, a, query.NewPipelines, names, at, do)
}

// proposing makes a command, of which a pipeline is the first argument, one that has
// something recorded, unless the pipeline refuses it.
func proposing(a *app.App, c *cobra.Command, wanted func(args []string) (command pipeline.Command, done string)) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		command, done := wanted(args)
		return runPropose(c.Context(), a, args[0], command, done)
	}
	return c
}

func runPropose(ctx context.Context, a *app.App, name string, wanted pipeline.Command, done string) error {
	return withPipelines(ctx, a, nil, 0, func(p *query.Pipelines) error { return propose(ctx, a, p, name, wanted, done) })
}

// propose has a command recorded; done says what was done then.
func propose(ctx context.Context, a *app.App, p *query.Pipelines, name string, wanted pipeline.Command, done string) error {
	events, err := p.Command(ctx, name, wanted)
	if err != nil {
		return err
	}
	if n := len(events); n > 0 && events[n-1].Name == record.EndRequested {
		done = fmt.Sprintf("revision %s of pipeline %s ends after its stages with when: deployster pipeline cancel %s %s ends it at once", events[n-1].Revision, name, name, events[n-1].Revision)
	}
	if !a.JSON() && len(events) > 1 {
		events = events[len(events)-1:] // what the others come to
	}
	return a.Recorded(map[string]any{}, events, done, "")
}

func newConfirmCommand(a *app.App) *cobra.Command {
	return proposing(a, &cobra.Command{
		Use:   "confirm PIPELINE GROUP",
		Short: "Confirm that a host group loses the hosts for which it holds",
		Long: `Confirm that a host group loses the hosts for which it holds.

A group that would lose more hosts at once than its max_leaving keeps them and
holds: nothing of it begins, until the hosts are back or this command confirms
that they are to leave. "pipeline explain" shows which they are.`,
		Example: "  deployster pipeline explain host-group/gateway/prod\n  deployster pipeline confirm gateway prod",
		Args:    arguments.Named("a pipeline", "a host group"),
	}, func(args []string) (pipeline.Command, string) {
		return pipeline.Confirm{Group: args[1], ID: a.NewID(), By: app.Whoami()},
			fmt.Sprintf("host group %s of pipeline %s goes on without the hosts that left", args[1], args[0])
	})
}

func newCancelCommand(a *app.App) *cobra.Command {
	var reason string
	c := proposing(a, &cobra.Command{
		Use:   "cancel PIPELINE REVISION",
		Short: "Cancel the deployment of a revision",
		Long: `Cancel the deployment of a revision. Nothing of it begins any more; what is being
done at the moment is finished and recorded. It may be retried. Stages with "when: always"
run before it ends, unless you cancel it a second time. Where a stage is rolled
back to a revision that is under way itself, the id of the deployment says which of the
two is meant.`,
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
		Short: "Retry a revision that failed, was cancelled or was skipped",
		Long: `Retry a revision that failed, was cancelled or was skipped. What is complete stays
so; what failed is done again. The id of a deployment, as "pipeline history" shows it,
may be given for the revision.`,
		Example: "  deployster pipeline retry gateway 42",
		Args:    arguments.Named("a pipeline", "a revision"),
	}, func(args []string) (pipeline.Command, string) {
		return pipeline.Retry{Revision: args[1], By: app.Whoami()},
			fmt.Sprintf("revision %s of pipeline %s is tried again", args[1], args[0])
	})
}

type artifactOptions struct {
	pipeline, revision, kind string
	ref                      string
	failed                   bool
	reason                   string
	yes                      bool
}

func newArtifactCommand(a *app.App) *cobra.Command {
	var o artifactOptions
	c := &cobra.Command{
		Use:   "artifact PIPELINE REVISION KIND",
		Short: "Record that an artifact of a revision was received, or not built",
		Long: `Record that an artifact of a revision was received. A build stage without a
manifest waits for the artifacts that it lists. Manifests of later stages find
the reference as {{ artifacts.KIND }}. What was received stays so: without --ref
you are asked, as no manifest will ever find where the artifact is.

With --failed the artifact was not built: the stage fails at once, and with it the
revision. A retry waits for the artifact again.`,
		Example: "  deployster pipeline artifact gateway 42 x86 --ref gateway-42-x86.tar\n  deployster pipeline artifact gateway 42 x86 --failed --reason 'exit code 2'",
		Args:    arguments.Named("a pipeline", "a revision", "a kind of artifact"),
		RunE: func(c *cobra.Command, args []string) error {
			o.pipeline, o.revision, o.kind = args[0], args[1], args[2]
			return runArtifact(c.Context(), a, o)
		},
	}
	c.Flags().StringVar(&o.ref, "ref", "", "where it is: an image, a path, an address")
	c.Flags().BoolVar(&o.failed, "failed", false, "it was not built")
	arguments.RegisterReason(c, &o.reason)
	arguments.RegisterYes(c, &o.yes)
	return c
}

func runArtifact(ctx context.Context, a *app.App, o artifactOptions) error {
	switch {
	case o.failed && o.ref != "":
		return exit.Usage("--failed and --ref exclude each other: what was not built is nowhere")
	case o.failed:
		return runPropose(ctx, a, o.pipeline, pipeline.FailArtifact{Revision: o.revision, Kind: o.kind, By: app.Whoami(), Reason: o.reason},
			fmt.Sprintf("artifact %s of revision %s of pipeline %s was not built: the revision has failed", o.kind, o.revision, o.pipeline))
	case o.reason != "":
		return exit.Usage("--reason is of --failed: why the artifact was not built")
	}
	if o.ref != "" {
		if err := arguments.OneLine("--ref", o.ref); err != nil {
			return err
		}
	}
	received := pipeline.ReceiveArtifact{Revision: o.revision, Kind: o.kind, Ref: o.ref, By: app.Whoami()}
	return withPipelines(ctx, a, nil, 0, func(p *query.Pipelines) error {
		if o.ref == "" && !o.yes {
			err := p.Ask(o.pipeline, func(s *pipeline.State) error {
				_, err := s.Propose(received, a.Now()) // what is refused is not asked for
				return err
			})
			if err != nil {
				return err
			}
			err = prompt.Agree(ctx, a, false,
				fmt.Sprintf("artifact %s of revision %s would be received without a reference, which cannot be taken back (--ref says where the artifact is)", o.kind, o.revision),
				"Artifact %s of revision %s has no reference (--ref), and that cannot be taken back. Receive it?", o.kind, o.revision)
			if err != nil {
				return err
			}
		}
		return propose(ctx, a, p, o.pipeline, received, fmt.Sprintf("artifact %s of revision %s of pipeline %s is received", o.kind, o.revision, o.pipeline))
	})
}
