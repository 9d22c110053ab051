// Package pipeline is the commands of pipelines.
package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/pipeline"
)

func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "pipeline",
		Short: "Carry revisions through stages, host groups and hosts",
		Long: `Carry revisions through stages, host groups and hosts.

A definition says what the stages are. A revision that is released goes through
them while "pipeline run" is at work; where it stands is in the deployment log
and nowhere else, so that the pipeline may change while it runs.`,
		Example: `  deployster pipeline apply -f gateway.yaml
  deployster pipeline release gateway 42
  deployster pipeline artifact gateway 42 x86 --ref registry/gateway@sha256:…
  deployster pipeline run gateway
  deployster pipeline status gateway
  deployster pipeline explain stage/gateway/prod`,
		Args: arguments.NoSuchSubcommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		newApplyCommand(a), newReleaseCommand(a), newArtifactCommand(a), newApproveCommand(a),
		newCancelCommand(a), newRetryCommand(a), newDeleteCommand(a), newRunCommand(a), newListCommand(a),
		newStatusCommand(a), newHistoryCommand(a), newExplainCommand(a),
	)
	return c
}

// openPipelines opens the log and the pipelines in it, as they are now.
func openPipelines(ctx context.Context, a *app.App) (*pipelines.Pipelines, deploylog.Log, error) {
	log, _, err := a.ExistingLog(ctx)
	if err != nil {
		return nil, nil, err
	}
	p := pipelines.NewPipelines(log, a.Now)
	if err := p.Follow(ctx, 0); err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	return p, log, nil
}

// command has a command carried out on a pipeline, and tells what was recorded.
func command(ctx context.Context, a *app.App, name string, c pipeline.Command, done string) (err error) {
	asJSON, err := a.AsJSON()
	if err != nil {
		return err
	}
	p, log, err := openPipelines(ctx, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	events, err := p.Command(ctx, name, c)
	if err != nil {
		return exit.Refused(err)
	}
	if asJSON {
		return a.Document(map[string]any{"events": append([]deploylog.Event{}, events...)})
	}
	for _, e := range events {
		done += fmt.Sprintf(" (event %d)", e.Seq)
	}
	return a.Printf("%s\n", done)
}

func newReleaseCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "release PIPELINE REVISION",
		Short: "Register a revision and start its deployment",
		Long: `Register a revision and start its deployment. Revisions go through the pipeline
in the order in which they are released, whatever their names are. Each is
released once.`,
		Example: "  deployster pipeline release gateway 42\n  deployster pipeline release gateway $(git rev-parse HEAD)",
		Args:    arguments.Named("a pipeline", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			return command(c.Context(), a, args[0], pipeline.Release{Revision: args[1], ID: a.NewID(), By: app.Whoami()},
				fmt.Sprintf("revision %s of pipeline %s is released", args[1], args[0]))
		},
	}
}

func newArtifactCommand(a *app.App) *cobra.Command {
	var ref string
	var yes bool
	c := &cobra.Command{
		Use:   "artifact PIPELINE REVISION KIND",
		Short: "Record that an artifact of a revision was received",
		Long: `Record that an artifact of a revision was received. A build stage without a
manifest waits for the artifacts that it lists. Manifests of later stages find
the reference as {{ artifacts.KIND }}. What was received stays so: without --ref
you are asked, as no manifest will ever find where the artifact is.`,
		Example: "  deployster pipeline artifact gateway 42 x86 --ref gateway-42-x86.tar",
		Args:    arguments.Named("a pipeline", "a revision", "a kind of artifact"),
		RunE: func(c *cobra.Command, args []string) error {
			if ref != "" {
				if err := arguments.OneLine("--ref", ref); err != nil {
					return err
				}
			}
			received := pipeline.ReceiveArtifact{Revision: args[1], Kind: args[2], Ref: ref, By: app.Whoami()}
			if ref == "" {
				if err := agreeToNoRef(c.Context(), a, args[0], received, yes); err != nil {
					return err
				}
			}
			return command(c.Context(), a, args[0], received,
				fmt.Sprintf("artifact %s of revision %s of pipeline %s is received", args[2], args[1], args[0]))
		},
	}
	c.Flags().StringVar(&ref, "ref", "", "where it is: an image, a path, an address")
	arguments.RegisterYes(c, &yes)
	return c
}

// agreeToNoRef asks before an artifact is received without a reference. What
// would be refused anyway is not asked for.
func agreeToNoRef(ctx context.Context, a *app.App, name string, c pipeline.ReceiveArtifact, yes bool) (err error) {
	asJSON, err := a.AsJSON()
	if err != nil || yes {
		return err
	}
	p, log, err := openPipelines(ctx, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	err = p.Ask(name, func(s *pipeline.State) error {
		_, err := s.Propose(c, a.Now())
		return err
	})
	if err != nil {
		return exit.Refused(err)
	}
	return prompt.Agree(ctx, a, yes, asJSON,
		fmt.Sprintf("artifact %s of revision %s would be received without a reference, which can not be taken back (--ref says where the artifact is)", c.Kind, c.Revision),
		"Artifact %s of revision %s has no reference (--ref), and that can not be taken back. Receive it?", c.Kind, c.Revision)
}

func newApproveCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "approve PIPELINE STAGE REVISION",
		Short:   "Let a revision pass an approval stage",
		Example: "  deployster pipeline approve gateway approve-prod 42",
		Args:    arguments.Named("a pipeline", "a stage", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			return command(c.Context(), a, args[0], pipeline.Approve{Stage: args[1], Revision: args[2], By: app.Whoami()},
				fmt.Sprintf("revision %s of pipeline %s is approved at stage %s", args[2], args[0], args[1]))
		},
	}
}

func newCancelCommand(a *app.App) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "cancel PIPELINE REVISION",
		Short: "End the deployment of a revision",
		Long: `End the deployment of a revision. Nothing of it begins any more; what is being
done at the moment is finished and recorded. It may be retried.`,
		Example: "  deployster pipeline cancel gateway 42 --reason 'drops sessions'",
		Args:    arguments.Named("a pipeline", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			if reason != "" {
				if err := arguments.OneLine("--reason", reason); err != nil {
					return err
				}
			}
			return command(c.Context(), a, args[0], pipeline.Cancel{Revision: args[1], By: app.Whoami(), Reason: reason},
				fmt.Sprintf("revision %s of pipeline %s is cancelled", args[1], args[0]))
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for those who read the log")
	return c
}

func newRetryCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "retry PIPELINE REVISION",
		Short: "Go on with a revision that failed or was cancelled",
		Long: `Go on with a revision that failed or was cancelled. What is complete stays so;
what failed is done again.`,
		Example: "  deployster pipeline retry gateway 42",
		Args:    arguments.Named("a pipeline", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			return command(c.Context(), a, args[0], pipeline.Retry{Revision: args[1], By: app.Whoami()},
				fmt.Sprintf("revision %s of pipeline %s is tried again", args[1], args[0]))
		},
	}
}
