package pipeline

import (
	"context"

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

// snapshot is the pipelines of the log at one moment.
type snapshot struct {
	*pipelines.Pipelines
	log      deploylog.Log
	overview *pipelines.Overview
	names    []string
}

// withSnapshot has something done with the pipelines of those names, none is all, as
// they were right after an event; 0 is now.
func withSnapshot(ctx context.Context, a *app.App, names []string, at int64, do func(*snapshot) error) error {
	return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		l := &snapshot{log: log, overview: pipelines.NewOverview(), names: names}
		l.Pipelines = pipelines.New(log, a.Now, l.overview.Note)
		if err := arguments.FollowTo(ctx, l, at); err != nil {
			return err
		}
		if len(names) == 0 {
			l.names = l.Present()
		}
		for _, name := range l.names {
			if err := present(l.Pipelines, name); err != nil {
				return err
			}
		}
		return do(l)
	})
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

func newStatusCommand(a *app.App) *cobra.Command {
	return output.Pictures(a.ShowsStatus(&cobra.Command{
		Use:   "status [PIPELINE…]",
		Short: "Show the status of pipelines",
		Long: `Show the status of pipelines: what is deployed, has failed and is in progress, at
every stage and host group; hosts are shown where something is in progress or has failed, or all of
them (--hosts). Below is what does not move, and why.

As a picture (--output svg, dot or mermaid) it takes one pipeline.`,
		Example: `  deployster pipeline status gateway
  deployster pipeline status --watch
  deployster pipeline status gateway --at 812
  deployster pipeline status gateway --output svg > gateway.svg`,
	}, "show every host", func(ctx context.Context, names []string, o output.StatusFlags) error {
		return withSnapshot(ctx, a, names, o.At, func(l *snapshot) error {
			return a.Status(ctx, o, l, func() error {
				if len(names) == 0 {
					l.names = l.Present()
				}
				return printStatus(a, l, o.Hosts)
			})
		})
	}))
}

func printStatus(a *app.App, l *snapshot, hosts bool) error {
	switch a.Format {
	case "text":
	case "json":
		documents := []view.PipelineStatus{}
		for _, name := range l.names {
			documents = append(documents, l.status(name, true))
		}
		return a.Show(map[string]any{"pipelines": documents}, nil)
	default:
		if len(l.names) != 1 {
			return exit.Usage("a picture is of one pipeline: name it")
		}
		return a.Draw(pictureOfStatus(l.status(l.names[0], false)))
	}
	return a.Sections("no pipelines", len(l.names), func(i int) error {
		return view.Pipeline(a.Out, l.status(l.names[i], hosts), a.PlanOptions(a.Out))
	})
}

// status is that of a pipeline, with all hosts or those that matter.
func (l *snapshot) status(name string, hosts bool) view.PipelineStatus {
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
