package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	promotioncli "github.com/deployster-go/deployster/internal/cli/promotion"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// removed has a deletion recorded, unless other revisions are under way than were shown.
func removed(ctx context.Context, a *app.App, p *query.Pipelines, o deleteOptions, deletion pipeline.Delete, running []string) ([]deploylog.Event, error) {
	if a.Server() == "" {
		return p.Change(ctx, o.name, false, func(s *pipeline.State) ([]deploylog.Event, error) {
			if !o.yes && !slices.Equal(query.InProgress(s), running) {
				return nil, errMoved
			}
			return s.Propose(deletion, a.Now())
		})
	}
	asOf := p.Head()
	if o.yes {
		asOf = 0
	}
	events, _, err := p.Send(ctx, o.name, deletion, asOf)
	if errors.Is(err, reconcile.ErrMoved) {
		err = errMoved
	}
	return events, err
}

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
	if is, err := promotioncli.Delete(ctx, a, o.name, promotion.Delete{ID: a.NewID(), By: app.Whoami(), Reason: o.reason, Cancel: o.cancel}, o.yes); is || err != nil {
		return err
	}
	return withPipelines(ctx, a, nil, 0, func(p *query.Pipelines) error {
		deletion := pipeline.Delete{ID: a.NewID(), By: app.Whoami(), Reason: o.reason, Cancel: o.cancel}
		var running []string
		err := p.Ask(o.name, func(s *pipeline.State) error {
			running = query.InProgress(s)
			_, err := s.Propose(deletion, a.Now()) // what is refused is not asked for
			return err
		})
		if err != nil {
			return err
		}
		what := "pipeline " + o.name
		if len(running) > 0 {
			what += fmt.Sprintf(" (revision %s under way is cancelled)", strings.Join(running, ", "))
		}
		if err := prompt.Agree(ctx, a, o.yes, what+" would be deleted", "Delete %s?", what); err != nil {
			return err
		}
		events, err := removed(ctx, a, p, o, deletion, running)
		if err != nil {
			return err
		}
		noteTakers(a.Err, p.Pipelines, o.name)
		if !a.JSON() {
			events = events[len(events)-1:] // the one of the deletion
		}
		return a.Recorded(map[string]any{"pipeline": o.name}, events, fmt.Sprintf("pipeline %s is deleted", o.name), "")
	})
}
