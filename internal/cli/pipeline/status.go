package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/picture"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/pipeline"
)

// past is what the log tells of the pipelines at one moment.
type past struct {
	*pipelines.Pipelines
	log      deploylog.Log
	overview *pipelines.Overview
	at       int64
	names    []string
}

// look reads the log up to an event, 0 is all of it, and finds the pipelines of
// those names, none is all.
func look(ctx context.Context, a *app.App, names []string, at int64) (*past, error) {
	if at < 0 {
		return nil, exit.Usage("--at %d: it must be the number of an event, from 1", at)
	}
	log, _, err := a.ExistingLog(ctx)
	if err != nil {
		return nil, err
	}
	l := &past{log: log, overview: pipelines.NewOverview(), at: at, names: names}
	l.Pipelines = pipelines.NewPipelines(log, a.Now, l.overview.Note)
	err = l.Follow(ctx, at)
	if err == nil && l.Head() < at {
		err = exit.Usage("--at %d: the log ends with event %d", at, l.Head())
	}
	if err == nil && len(names) == 0 {
		l.names = l.Present()
	}
	for _, name := range l.names {
		if err == nil {
			err = present(l.Pipelines, name)
		}
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return l, nil
}

// present refuses the name of a pipeline that there is not, or not any more.
func present(p *pipelines.Pipelines, name string) error {
	return exit.Refused(p.Ask(name, func(s *pipeline.State) error {
		if deleted := s.Deleted(); deleted > 0 {
			return exit.Usage("pipeline %s was deleted (event %d): deployster pipeline apply makes it anew, pipeline status --at %d shows what it was", name, deleted, deleted-1)
		}
		return nil
	}))
}

func newListCommand(a *app.App) *cobra.Command {
	var at int64
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the pipelines",
		Example: "  deployster pipeline list",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			asJSON, err := a.AsJSON()
			if err != nil {
				return err
			}
			l, err := look(c.Context(), a, nil, at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, l.log.Close()) }()
			rows := [][]string{{"PIPELINE", "STAGES", "DEPLOYED", "FAILED", "IN PROGRESS"}}
			documents := []map[string]any{}
			for _, name := range l.names {
				_ = l.Ask(name, func(s *pipeline.State) error {
					latest := l.overview.Latest(pipeline.Target(name))
					running := underWay(s)
					rows = append(rows, []string{name, fmt.Sprint(len(s.Definition().Stages)), output.Dash(latest.Deployed), output.Dash(latest.Failed), output.Dash(strings.Join(running, " "))})
					documents = append(documents, map[string]any{
						"pipeline": name, "stages": len(s.Definition().Stages), "deployed": latest.Deployed, "failed": latest.Failed, "in_progress": append([]string{}, running...),
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
			if asJSON {
				return a.Document(map[string]any{"pipelines": documents, "deleted": deleted})
			}
			if len(documents) == 0 {
				err = a.Printf("no pipelines\n")
			} else {
				err = a.Table(rows)
			}
			if err == nil && len(gone) > 0 {
				err = a.Printf("deleted: %s\n", strings.Join(gone, ", "))
			}
			return err
		},
	}
	arguments.RegisterAt(c, &at)
	return c
}

type pipelineStatusOptions struct {
	at           int64
	hosts, watch bool
}

func newStatusCommand(a *app.App) *cobra.Command {
	var o pipelineStatusOptions
	c := &cobra.Command{
		Use:   "status [PIPELINE…]",
		Short: "Show what is deployed, has failed and is in progress, and where",
		Long: `Show what is deployed, has failed and is in progress, at every stage and host
group; hosts are shown where something is in progress or has failed, or all of
them (--hosts). Below is what does not move, and why.

As a picture (--output svg, dot or mermaid) it takes one pipeline.`,
		Example: `  deployster pipeline status gateway
  deployster pipeline status --watch
  deployster pipeline status gateway --at 812
  deployster pipeline status gateway --output svg > gateway.svg`,
		RunE: func(c *cobra.Command, names []string) error {
			if o.watch {
				return watchStatus(c.Context(), a, names, o)
			}
			return pipelineStatus(c.Context(), a, names, o)
		},
	}
	arguments.RegisterAt(c, &o.at)
	c.Flags().BoolVar(&o.hosts, "hosts", false, "show every host")
	c.Flags().BoolVar(&o.watch, "watch", false, "show it again whenever it changes, until interrupted")
	return c
}

func pipelineStatus(ctx context.Context, a *app.App, names []string, o pipelineStatusOptions) (err error) {
	l, err := look(ctx, a, names, o.at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.log.Close()) }()
	return printStatus(a, l, o)
}

func printStatus(a *app.App, l *past, o pipelineStatusOptions) error {
	switch a.Format {
	case "text":
	case "json":
		documents := []view.PipelineStatus{}
		for _, name := range l.names {
			documents = append(documents, l.status(name, true))
		}
		return a.Document(map[string]any{"pipelines": documents})
	default:
		draw, err := a.Drawing()
		if err != nil {
			return err
		}
		if len(l.names) != 1 {
			return exit.Usage("a picture is of one pipeline: name it")
		}
		return draw(a.Out, pictureOfStatus(l.status(l.names[0], false)))
	}
	if len(l.names) == 0 {
		return a.Printf("no pipelines\n")
	}
	for i, name := range l.names {
		if i > 0 {
			if err := a.Printf("\n"); err != nil {
				return err
			}
		}
		if err := view.Pipeline(a.Out, l.status(name, o.hosts), a.PlanOptions(a.Out)); err != nil {
			return err
		}
	}
	return nil
}

// status is that of a pipeline, with all hosts or those that matter.
func (l *past) status(name string, hosts bool) view.PipelineStatus {
	p := view.PipelineStatus{Name: name, Rows: []view.StatusRow{}, Waiting: []pipeline.Reason{}}
	_ = l.Ask(name, func(s *pipeline.State) error {
		p.Event = s.Head()
		byTarget := map[deploylog.Target]*view.StatusRow{}
		for _, place := range s.Places() {
			row := view.StatusRow{Place: place, Latest: l.overview.Latest(place.Target)}
			p.Rows = append(p.Rows, row)
		}
		for i := range p.Rows {
			byTarget[p.Rows[i].Target] = &p.Rows[i]
		}
		for _, r := range s.Status() {
			if row := byTarget[r.Target]; row != nil {
				row.Revisions = append(row.Revisions, r)
			}
		}
		for _, r := range s.Explain(pipeline.Target(name)) {
			if r.Blocking() {
				p.Waiting = append(p.Waiting, r)
			}
		}
		return nil
	})
	if !hosts {
		kept := p.Rows[:0]
		for _, row := range p.Rows {
			if row.Host == "" || row.Active() {
				kept = append(kept, row)
			}
		}
		p.Rows = kept
	}
	return p
}

// pictureOfStatus draws the stages with what is where.
func pictureOfStatus(p view.PipelineStatus) picture.Graph {
	g := picture.Graph{Title: p.Name}
	for _, row := range p.Rows {
		if row.Stage == "" || row.Group != "" {
			continue
		}
		g.Nodes = append(g.Nodes, picture.Node{ID: row.Stage, Label: row.Stage, Detail: row.Summary()})
		for _, before := range row.After {
			g.Edges = append(g.Edges, picture.Edge{From: row.Stage, To: before})
		}
	}
	return g
}

func watchStatus(ctx context.Context, a *app.App, names []string, o pipelineStatusOptions) (err error) {
	if err := a.CanWatch(o.at); err != nil {
		return err
	}
	l, err := look(ctx, a, names, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.log.Close()) }()
	return a.Watch(ctx, l, func() error {
		if len(names) == 0 {
			l.names = l.Present()
		}
		return printStatus(a, l, o)
	})
}

func newHistoryCommand(a *app.App) *cobra.Command {
	var at int64
	var last int
	c := &cobra.Command{
		Use:     "history PIPELINE",
		Short:   "List the revisions of a pipeline in the order of their release",
		Example: "  deployster pipeline history gateway --last 20",
		Args:    arguments.Named("a pipeline"),
		RunE: func(c *cobra.Command, names []string) (err error) {
			asJSON, err := a.AsJSON()
			if err != nil {
				return err
			}
			if last < 0 {
				return exit.Usage("--last %d: it must not be negative", last)
			}
			l, err := look(c.Context(), a, names, at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, l.log.Close()) }()
			var list []pipeline.Registration
			_ = l.Ask(names[0], func(s *pipeline.State) error { list = append(list, s.Registrations()...); return nil })
			if last > 0 && len(list) > last {
				list = list[len(list)-last:]
			}
			if asJSON {
				return a.Document(map[string]any{"pipeline": names[0], "revisions": append([]pipeline.Registration{}, list...)})
			}
			rows := [][]string{{"REVISION", "STATUS", "SINCE EVENT", "RELEASED", "DEPLOYMENT"}}
			for _, r := range list {
				rows = append(rows, []string{r.Revision, string(r.Status), fmt.Sprint(r.Since), l.overview.Released(r.Deployment).Local().Format("2006-01-02 15:04:05"), r.Deployment})
			}
			if len(list) == 0 {
				return a.Printf("no revision was released\n")
			}
			return a.Table(rows)
		},
	}
	arguments.RegisterAt(c, &at)
	c.Flags().IntVar(&last, "last", 0, "only the newest N (0 is all)")
	return c
}
