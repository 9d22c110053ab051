package cli

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
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
func (a *app) look(ctx context.Context, names []string, at int64) (*past, error) {
	if at < 0 {
		return nil, usage("--at %d: it must be the number of an event, from 1", at)
	}
	log, _, err := a.existingLog(ctx)
	if err != nil {
		return nil, err
	}
	l := &past{log: log, overview: pipelines.NewOverview(), at: at, names: names}
	l.Pipelines = pipelines.NewPipelines(log, a.now, l.overview.Note)
	err = l.Follow(ctx, at)
	if err == nil && l.Head() < at {
		err = usage("--at %d: the log ends with event %d", at, l.Head())
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
	return refused(p.Ask(name, func(s *pipeline.State) error {
		if deleted := s.Deleted(); deleted > 0 {
			return usage("pipeline %s was deleted (event %d): deployster pipeline apply makes it anew, pipeline status --at %d shows what it was", name, deleted, deleted-1)
		}
		return nil
	}))
}

func registerAt(c *cobra.Command, into *int64) {
	c.Flags().Int64Var(into, "at", 0, "as it was right after this event")
}

func (a *app) pipelineListCommand() *cobra.Command {
	var at int64
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the pipelines",
		Example: "  deployster pipeline list",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			asJSON, err := a.json()
			if err != nil {
				return err
			}
			l, err := a.look(c.Context(), nil, at)
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
					rows = append(rows, []string{name, fmt.Sprint(len(s.Definition().Stages)), dash(latest.Deployed), dash(latest.Failed), dash(strings.Join(running, " "))})
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
				return a.printJSON(map[string]any{"pipelines": documents, "deleted": deleted})
			}
			if len(documents) == 0 {
				err = write(a.out, "no pipelines\n")
			} else {
				err = a.table(rows)
			}
			if err == nil && len(gone) > 0 {
				err = write(a.out, "deleted: %s\n", strings.Join(gone, ", "))
			}
			return err
		},
	}
	registerAt(c, &at)
	return c
}

type pipelineStatusOptions struct {
	at           int64
	hosts, watch bool
}

func (a *app) pipelineStatusCommand() *cobra.Command {
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
				return a.watchStatus(c.Context(), names, o)
			}
			return a.pipelineStatus(c.Context(), names, o)
		},
	}
	registerAt(c, &o.at)
	c.Flags().BoolVar(&o.hosts, "hosts", false, "show every host")
	c.Flags().BoolVar(&o.watch, "watch", false, "show it again whenever it changes, until interrupted")
	return c
}

func (a *app) pipelineStatus(ctx context.Context, names []string, o pipelineStatusOptions) (err error) {
	l, err := a.look(ctx, names, o.at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.log.Close()) }()
	return a.printStatus(l, o)
}

func (a *app) printStatus(l *past, o pipelineStatusOptions) error {
	switch a.global.output {
	case "text":
	case "json":
		documents := []view.PipelineStatus{}
		for _, name := range l.names {
			documents = append(documents, l.status(name, true))
		}
		return a.printJSON(map[string]any{"pipelines": documents})
	default:
		draw, err := a.drawing()
		if err != nil {
			return err
		}
		if len(l.names) != 1 {
			return usage("a picture is of one pipeline: name it")
		}
		return draw(a.out, pictureOfStatus(l.status(l.names[0], false)))
	}
	if len(l.names) == 0 {
		return write(a.out, "no pipelines\n")
	}
	for i, name := range l.names {
		if i > 0 {
			if err := write(a.out, "\n"); err != nil {
				return err
			}
		}
		if err := view.Pipeline(a.out, l.status(name, o.hosts), a.planOptions(a.out)); err != nil {
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

// watchPause is how often a status is shown again at most.
const watchPause = 200 * time.Millisecond

func (a *app) watchStatus(ctx context.Context, names []string, o pipelineStatusOptions) (err error) {
	if err := a.canWatch(o.at); err != nil {
		return err
	}
	l, err := a.look(ctx, names, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.log.Close()) }()
	return a.watch(ctx, l, func() error {
		if len(names) == 0 {
			l.names = l.Present()
		}
		return a.printStatus(l, o)
	})
}

// canWatch refuses to watch what does not change, or where nothing can be redrawn.
func (a *app) canWatch(at int64) error {
	switch {
	case at != 0:
		return usage("--watch shows the present, --at a moment that has passed")
	case a.global.output != "text" || !a.terminal(a.out):
		return usage("--watch needs a terminal; elsewhere, deployster log follow tells of every event")
	}
	return nil
}

// followed is what is folded from the log.
type followed interface {
	Head() int64
	Follow(ctx context.Context, until int64) error
}

// watch shows something again whenever there is something new in the log, until it
// is interrupted.
func (a *app) watch(ctx context.Context, f followed, show func() error) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for shown := int64(-1); ; {
		if f.Head() != shown {
			shown = f.Head()
			if err := write(a.out, "\x1b[H\x1b[2J"); err != nil {
				return err
			}
			if err := show(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchPause):
		}
		if err := f.Follow(ctx, 0); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (a *app) pipelineHistoryCommand() *cobra.Command {
	var at int64
	var last int
	c := &cobra.Command{
		Use:     "history PIPELINE",
		Short:   "List the revisions of a pipeline in the order of their release",
		Example: "  deployster pipeline history gateway --last 20",
		Args:    named("a pipeline"),
		RunE: func(c *cobra.Command, names []string) (err error) {
			asJSON, err := a.json()
			if err != nil {
				return err
			}
			if last < 0 {
				return usage("--last %d: it must not be negative", last)
			}
			l, err := a.look(c.Context(), names, at)
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
				return a.printJSON(map[string]any{"pipeline": names[0], "revisions": append([]pipeline.Registration{}, list...)})
			}
			rows := [][]string{{"REVISION", "STATUS", "SINCE EVENT", "RELEASED", "DEPLOYMENT"}}
			for _, r := range list {
				rows = append(rows, []string{r.Revision, string(r.Status), fmt.Sprint(r.Since), l.overview.Released(r.Deployment).Local().Format("2006-01-02 15:04:05"), r.Deployment})
			}
			if len(list) == 0 {
				return write(a.out, "no revision was released\n")
			}
			return a.table(rows)
		},
	}
	registerAt(c, &at)
	c.Flags().IntVar(&last, "last", 0, "only the newest N (0 is all)")
	return c
}
