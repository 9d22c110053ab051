package pipeline

import (
	"context"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/pipeline"
)

// heedPipelines warns of variables of the command line that no manifest of the
// pipelines reads.
func heedPipelines(ctx context.Context, a *app.App, log deploylog.Log, w *session.Workers, names []string, strict bool) error {
	p := pipelines.NewPipelines(log, a.Now)
	if err := p.Follow(ctx, 0); err != nil {
		return err
	}
	if len(names) == 0 {
		names = p.Present()
	}
	var definitions []*pipeline.Definition
	for _, name := range names {
		_ = p.Ask(name, func(s *pipeline.State) error {
			if d := s.Definition(); d != nil {
				definitions = append(definitions, d)
			}
			return nil
		})
	}
	return session.Heed(a, w.Steps.Unread(definitions), strict)
}
