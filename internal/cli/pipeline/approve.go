package pipeline

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

func newApproveCommand(a *app.App) *cobra.Command {
	var reason, carries, key string
	c := &cobra.Command{
		Use:   "approve PIPELINE STAGE REVISION",
		Short: "Approve a revision at an approval stage",
		Long: `Approve a revision at an approval stage, for what it carries now. Where a stage
needs several approvals, each is of another identity: yours counts once. "pipeline
explain" says who approved, what is missing, and the hash of what would be approved.

With --key the approval is signed, and is that of the key's owner: so does CI approve,
which shares your account, or has a token that may but read. The key stays where it is.
"pipeline sign" makes a request that may be sent to a server from elsewhere.

With --carries the approval is refused where the revision has come to carry something
else since you looked at it.

Of a pipeline that promotes by observed state, approve the revision that is the next to
come to a manual stage: that one, as it came to the stage before, and no other.`,
		Example: "  deployster pipeline approve gateway approve-prod 42 --reason 'tested on beta'",
		Args:    arguments.Named("a pipeline", "a stage", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			if key != "" {
				return runApproveSigned(c.Context(), a, signing{pipeline: args[0], stage: args[1], revision: args[2], reason: reason, carries: carries, key: key})
			}
			if is, err := approveLevel(c.Context(), a, args, carries, reason); is || err != nil {
				return err
			}
			return runApprove(c.Context(), a, args[0], pipeline.Approve{Stage: args[1], Revision: args[2], By: app.Whoami(), Reason: reason, Carries: carries, ID: a.NewID()})
		},
	}
	c.Flags().StringVar(&carries, "carries", "", "hash of what is approved, as pipeline explain shows it (default: what the revision carries)")
	c.Flags().StringVar(&key, "key", "", "file of the private key that signs the approval (default: it is yours, and not signed)")
	arguments.RegisterReason(c, &reason)
	return c
}

func runApprove(ctx context.Context, a *app.App, name string, wanted pipeline.Approve) error {
	return withPipelines(ctx, a, nil, 0, func(p *query.Pipelines) error {
		events, err := p.Command(ctx, name, wanted)
		if err != nil {
			return err
		}
		done, err := approved(p, name, wanted, events[0])
		if err != nil {
			return err
		}
		return a.Recorded(map[string]any{}, events, done, "")
	})
}

// approved says what an approval came to.
func approved(p *query.Pipelines, name string, wanted pipeline.Approve, e deploylog.Event) (string, error) {
	if e.Name == record.StageApproved {
		return fmt.Sprintf("revision %s of pipeline %s is approved at stage %s", wanted.Revision, name, wanted.Stage), nil
	}
	text := fmt.Sprintf("revision %s of pipeline %s waits at stage %s", wanted.Revision, name, wanted.Stage)
	err := p.Ask(name, func(s *pipeline.State) error {
		for _, r := range s.Explain(e.Target) {
			if r.Code == reason.AwaitsApproval && r.Revision == e.Revision {
				text += ": " + view.Clean(r.Message())
			}
		}
		return nil
	})
	return text, err
}
