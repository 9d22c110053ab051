package pipeline

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/pipeline"
)

type artifactOptions struct {
	pipeline, revision, kind string
	ref                      string
	yes                      bool
}

func newArtifactCommand(a *app.App) *cobra.Command {
	var o artifactOptions
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
			o.pipeline, o.revision, o.kind = args[0], args[1], args[2]
			return runArtifact(c.Context(), a, o)
		},
	}
	c.Flags().StringVar(&o.ref, "ref", "", "where it is: an image, a path, an address")
	arguments.RegisterYes(c, &o.yes)
	return c
}

func runArtifact(ctx context.Context, a *app.App, o artifactOptions) error {
	received := pipeline.ReceiveArtifact{Revision: o.revision, Kind: o.kind, Ref: o.ref, By: app.Whoami()}
	if o.ref != "" {
		if err := arguments.OneLine("--ref", o.ref); err != nil {
			return err
		}
	} else if err := agreeToNoRef(ctx, a, o, received); err != nil {
		return err
	}
	return runPropose(ctx, a, o.pipeline, received, fmt.Sprintf("artifact %s of revision %s of pipeline %s is received", o.kind, o.revision, o.pipeline))
}

// agreeToNoRef asks before an artifact is received without a reference. What
// would be refused anyway is not asked for.
func agreeToNoRef(ctx context.Context, a *app.App, o artifactOptions, received pipeline.ReceiveArtifact) error {
	if o.yes {
		return nil
	}
	return withPipelines(ctx, a, func(p *pipelines.Pipelines) error {
		err := p.Ask(o.pipeline, func(s *pipeline.State) error {
			_, err := s.Propose(received, a.Now())
			return err
		})
		if err != nil {
			return exit.Refused(err)
		}
		return prompt.Agree(ctx, a, o.yes,
			fmt.Sprintf("artifact %s of revision %s would be received without a reference, which cannot be taken back (--ref says where the artifact is)", o.kind, o.revision),
			"Artifact %s of revision %s has no reference (--ref), and that cannot be taken back. Receive it?", o.kind, o.revision)
	})
}
