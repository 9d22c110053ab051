package pipeline

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/pipeline"
)

type deleteOptions struct {
	name        string
	yes, cancel bool
	reason      string
}

func newDeleteCommand(a *app.App) *cobra.Command {
	var o deleteOptions
	c := &cobra.Command{
		Use:   "delete PIPELINE",
		Short: "Delete a pipeline",
		Long: `Delete a pipeline. What it has deployed stays where it is, and its events stay in
the log; nothing of it begins any more. One of its name that is applied later is a
new pipeline: it has no revisions, and any may be released.

While revisions are under way it is refused, unless they are to be cancelled
(--cancel). What is being done at the moment is finished and recorded.`,
		Example: "  deployster pipeline delete gateway --reason 'replaced by gateway-eu'\n  deployster pipeline delete gateway --cancel --yes",
		Args:    arguments.Named("a pipeline"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = args[0]
			return runDelete(c.Context(), a, o)
		},
	}
	c.Flags().BoolVar(&o.cancel, "cancel", false, "cancel the revisions that are under way")
	arguments.RegisterYes(c, &o.yes)
	arguments.RegisterReason(c, &o.reason)
	return c
}

func runDelete(ctx context.Context, a *app.App, o deleteOptions) error {
	return withPipelines(ctx, a, func(p *pipelines.Pipelines) error {
		deletion := pipeline.Delete{ID: a.NewID(), By: app.Whoami(), Reason: o.reason, Cancel: o.cancel}
		var running []string
		err := p.Ask(o.name, func(s *pipeline.State) error {
			running = inProgress(s)
			_, err := s.Propose(deletion, a.Now()) // what is refused is not asked for
			return err
		})
		if err != nil {
			return exit.Refused(err)
		}
		what := "pipeline " + o.name
		if len(running) > 0 {
			what += fmt.Sprintf(" (revision %s under way is cancelled)", strings.Join(running, ", "))
		}
		if err := prompt.Agree(ctx, a, o.yes, what+" would be deleted", "Delete %s?", what); err != nil {
			return err
		}
		events, err := p.Change(ctx, o.name, false, func(s *pipeline.State) ([]deploylog.Event, error) {
			if now := inProgress(s); !o.yes && strings.Join(now, " ") != strings.Join(running, " ") {
				return nil, errMoved
			}
			return s.Propose(deletion, a.Now())
		})
		if err != nil {
			return exit.Refused(err)
		}
		if !a.JSON() {
			events = events[len(events)-1:] // the one of the deletion
		}
		return a.Recorded(map[string]any{"pipeline": o.name}, events, fmt.Sprintf("pipeline %s is deleted", o.name), "")
	})
}

// underWay are the revisions whose deployments have not ended.
func inProgress(s *pipeline.State) []string {
	var running []string
	for _, r := range s.Registrations() {
		if r.Status == pipeline.Running {
			running = append(running, r.Revision)
		}
	}
	return running
}
