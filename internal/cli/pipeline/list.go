package pipeline

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/pipeline"
)

func newListCommand(a *app.App) *cobra.Command {
	return arguments.AsOf(&cobra.Command{
		Use:     "list",
		Short:   "List the pipelines",
		Example: "  deployster pipeline list",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, _ []string, at int64) error {
		return withSnapshot(ctx, a, nil, at, func(l *snapshot) error {
			rows := [][]string{{"PIPELINE", "STAGES", "DEPLOYED", "FAILED", "IN PROGRESS"}}
			documents := []map[string]any{}
			for _, name := range l.names {
				_ = l.Ask(name, func(s *pipeline.State) error {
					latest, stages := l.overview.Latest(pipeline.Target(name)), len(s.Definition().Stages)
					running := inProgress(s)
					rows = append(rows, []string{name, fmt.Sprint(stages), output.Dash(latest.Deployed), output.Dash(latest.Failed), output.Dash(strings.Join(running, " "))})
					documents = append(documents, map[string]any{
						"pipeline": name, "stages": stages, "deployed": latest.Deployed, "failed": latest.Failed, "in_progress": append([]string{}, running...),
					})
					return nil
				})
			}
			deleted := map[string]int64{}
			var gone []string
			for _, name := range l.Names() {
				if event := l.Deleted(name); event > 0 {
					deleted[name], gone = event, append(gone, fmt.Sprintf("%s (event %d)", name, event))
				}
			}
			return a.Show(map[string]any{"pipelines": documents, "deleted": deleted}, func() error {
				if err := a.Table("no pipelines", rows); err != nil || len(gone) == 0 {
					return err
				}
				return a.Printf("deleted: %s\n", strings.Join(gone, ", "))
			})
		})
	})
}

func newHistoryCommand(a *app.App) *cobra.Command {
	return arguments.History(&cobra.Command{
		Use:     "history PIPELINE",
		Short:   "List the revisions of a pipeline in the order of their release",
		Example: "  deployster pipeline history gateway --last 20",
		Args:    arguments.Named("a pipeline"),
	}, func(ctx context.Context, name string, at int64, last int) error {
		return withSnapshot(ctx, a, []string{name}, at, func(l *snapshot) error {
			var list []pipeline.Registration
			_ = l.Ask(name, func(s *pipeline.State) error { list = arguments.Last(s.Registrations(), last); return nil })
			rows := [][]string{{"REVISION", "STATUS", "SINCE EVENT", "RELEASED", "DEPLOYMENT"}}
			for _, r := range list {
				rows = append(rows, []string{r.Revision, string(r.Status), fmt.Sprint(r.Since), output.Moment(l.overview.Released(r.Deployment)), r.Deployment})
			}
			return a.List(map[string]any{"pipeline": name, "revisions": list}, "no revision was released", rows)
		})
	})
}
