package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/pipeline"
)

func (a *app) pipelineCommand() *cobra.Command {
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
		Args: noSuchSubcommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		a.pipelineApplyCommand(), a.pipelineReleaseCommand(), a.pipelineArtifactCommand(), a.pipelineApproveCommand(),
		a.pipelineCancelCommand(), a.pipelineRetryCommand(), a.pipelineDeleteCommand(), a.pipelineRunCommand(), a.pipelineListCommand(),
		a.pipelineStatusCommand(), a.pipelineHistoryCommand(), a.pipelineExplainCommand(),
	)
	return c
}

// named is the check of arguments of commands about a pipeline.
func named(what ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != len(what) {
			return usage("%s takes %s, in this order: %s", c.CommandPath(), strings.Join(what, ", "), c.UseLine())
		}
		for i, arg := range args {
			if err := oneLine(what[i], arg); err != nil {
				return err
			}
		}
		return nil
	}
}

// longestText is how long a name, reason or reference may be, in bytes.
const longestText = 1000

// oneLine refuses what is not to enter the log as somebody's word.
func oneLine(what, text string) error {
	switch {
	case text == "":
		return usage("%s must not be empty", what)
	case len(text) > longestText:
		return usage("%s has %d bytes; at most %d are possible", what, len(text), longestText)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return usage("%s %q must be one line of UTF-8 text", what, text)
	}
	return nil
}

func (a *app) newID() string {
	return ulid.MustNew(ulid.Timestamp(a.now()), rand.Reader).String()
}

// whoami is who asks for something, for the log.
func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// pipelines opens the log and the pipelines in it, as they are now.
func (a *app) pipelines(ctx context.Context) (*pipelines.Pipelines, deploylog.Log, error) {
	log, _, err := a.existingLog(ctx)
	if err != nil {
		return nil, nil, err
	}
	p := pipelines.NewPipelines(log, a.now)
	if err := p.Follow(ctx, 0); err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	return p, log, nil
}

// command has a command carried out on a pipeline, and tells what was recorded.
func (a *app) command(ctx context.Context, name string, c pipeline.Command, done string) (err error) {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	p, log, err := a.pipelines(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	events, err := p.Command(ctx, name, c)
	if err != nil {
		return refused(err)
	}
	if asJSON {
		return a.printJSON(map[string]any{"events": append([]deploylog.Event{}, events...)})
	}
	for _, e := range events {
		done += fmt.Sprintf(" (event %d)", e.Seq)
	}
	return write(a.out, "%s\n", done)
}

// refused makes wrong usage of what names nothing that there is.
func refused(err error) error {
	for _, unknown := range []error{pipelines.ErrNoPipeline, pipeline.ErrUnknown, environments.ErrNoEnvironment, environment.ErrUnknown} {
		if errors.Is(err, unknown) {
			return &usageError{err}
		}
	}
	return err
}

func (a *app) pipelineReleaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "release PIPELINE REVISION",
		Short: "Register a revision and start its deployment",
		Long: `Register a revision and start its deployment. Revisions go through the pipeline
in the order in which they are released, whatever their names are. Each is
released once.`,
		Example: "  deployster pipeline release gateway 42\n  deployster pipeline release gateway $(git rev-parse HEAD)",
		Args:    named("a pipeline", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.command(c.Context(), args[0], pipeline.Release{Revision: args[1], ID: a.newID(), By: whoami()},
				fmt.Sprintf("revision %s of pipeline %s is released", args[1], args[0]))
		},
	}
}

func (a *app) pipelineArtifactCommand() *cobra.Command {
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
		Args:    named("a pipeline", "a revision", "a kind of artifact"),
		RunE: func(c *cobra.Command, args []string) error {
			if ref != "" {
				if err := oneLine("--ref", ref); err != nil {
					return err
				}
			}
			received := pipeline.ReceiveArtifact{Revision: args[1], Kind: args[2], Ref: ref, By: whoami()}
			if ref == "" {
				if err := a.agreeToNoRef(c.Context(), args[0], received, yes); err != nil {
					return err
				}
			}
			return a.command(c.Context(), args[0], received,
				fmt.Sprintf("artifact %s of revision %s of pipeline %s is received", args[2], args[1], args[0]))
		},
	}
	c.Flags().StringVar(&ref, "ref", "", "where it is: an image, a path, an address")
	registerYes(c, &yes)
	return c
}

// agreeToNoRef asks before an artifact is received without a reference. What
// would be refused anyway is not asked for.
func (a *app) agreeToNoRef(ctx context.Context, name string, c pipeline.ReceiveArtifact, yes bool) (err error) {
	asJSON, err := a.json()
	if err != nil || yes {
		return err
	}
	p, log, err := a.pipelines(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	err = p.Ask(name, func(s *pipeline.State) error {
		_, err := s.Propose(c, a.now())
		return err
	})
	if err != nil {
		return refused(err)
	}
	return a.agree(ctx, yes, asJSON,
		fmt.Sprintf("artifact %s of revision %s would be received without a reference, which can not be taken back (--ref says where the artifact is)", c.Kind, c.Revision),
		"Artifact %s of revision %s has no reference (--ref), and that can not be taken back. Receive it?", c.Kind, c.Revision)
}

func (a *app) pipelineApproveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "approve PIPELINE STAGE REVISION",
		Short:   "Let a revision pass an approval stage",
		Example: "  deployster pipeline approve gateway approve-prod 42",
		Args:    named("a pipeline", "a stage", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.command(c.Context(), args[0], pipeline.Approve{Stage: args[1], Revision: args[2], By: whoami()},
				fmt.Sprintf("revision %s of pipeline %s is approved at stage %s", args[2], args[0], args[1]))
		},
	}
}

func (a *app) pipelineCancelCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "cancel PIPELINE REVISION",
		Short: "End the deployment of a revision",
		Long: `End the deployment of a revision. Nothing of it begins any more; what is being
done at the moment is finished and recorded. It may be retried.`,
		Example: "  deployster pipeline cancel gateway 42 --reason 'drops sessions'",
		Args:    named("a pipeline", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			if reason != "" {
				if err := oneLine("--reason", reason); err != nil {
					return err
				}
			}
			return a.command(c.Context(), args[0], pipeline.Cancel{Revision: args[1], By: whoami(), Reason: reason},
				fmt.Sprintf("revision %s of pipeline %s is cancelled", args[1], args[0]))
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for those who read the log")
	return c
}

func (a *app) pipelineRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "retry PIPELINE REVISION",
		Short: "Go on with a revision that failed or was cancelled",
		Long: `Go on with a revision that failed or was cancelled. What is complete stays so;
what failed is done again.`,
		Example: "  deployster pipeline retry gateway 42",
		Args:    named("a pipeline", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.command(c.Context(), args[0], pipeline.Retry{Revision: args[1], By: whoami()},
				fmt.Sprintf("revision %s of pipeline %s is tried again", args[1], args[0]))
		},
	}
}
