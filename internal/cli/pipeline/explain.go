package pipeline

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/pipeline"
)

func newExplainCommand(a *app.App) *cobra.Command {
	var o Options
	c := &cobra.Command{
		Use:   "explain TARGET",
		Short: "Explain why a target of a pipeline is pending or blocked",
		Long: `Explain why everything at or below a target that makes no progress is pending or
blocked: with the event that is responsible, and the event that would change it.

TARGET is a pipeline, or a target of one as the log has it:
  gateway, stage/gateway/prod, host-group/gateway/beta, host/gateway/beta/antworker001`,
		Example: "  deployster pipeline explain gateway\n  deployster pipeline explain stage/gateway/prod",
		Args:    arguments.Named("a target"),
		RunE: func(c *cobra.Command, args []string) error {
			o.Target = deploylog.Target(args[0])
			if !strings.Contains(args[0], "/") {
				o.Target = pipeline.Target(args[0])
			}
			if _, ok := pipelines.PipelineOf(o.Target); !ok {
				return exit.Usage("%q is no target of a pipeline: it is a pipeline's name, or begins with pipeline/, stage/, host-group/ or host/", args[0])
			}
			return Explain(c.Context(), a, o)
		},
	}
	arguments.RegisterAt(c, &o.At)
	arguments.RegisterInventory(c, &o.Inventory)
	return c
}

// Options is what is to be explained.
type Options struct {
	Target    deploylog.Target
	At        int64  // the event after which it was so; 0 is now
	Inventory string // file
}

// Explain prints why something at or below a target of a pipeline does not move.
func Explain(ctx context.Context, a *app.App, o Options) error {
	name, _ := pipelines.PipelineOf(o.Target)
	return withSnapshot(ctx, a, []string{name}, o.At, func(l *snapshot) error {
		reasons := l.explain(o.Target, work.NewHosts(o.Inventory), o.At == 0)
		if len(reasons) > 0 && reasons[0].Code == pipeline.NoTarget {
			return exit.Usage("%s: %s", o.Target, reasons[0].Message())
		}
		return a.Show(map[string]any{"target": o.Target, "event": l.Head(), "reasons": append([]pipeline.Reason{}, reasons...)},
			func() error { return view.PipelineReasons(a.Out, o.Target, reasons, a.PlanOptions(a.Out)) })
	})
}

// explain adds to what the pipeline's state knows what is being worked on.
func (l *snapshot) explain(t deploylog.Target, h *work.Hosts, present bool) []pipeline.Reason {
	name, _ := pipelines.PipelineOf(t)
	var all []pipeline.Reason
	idle := present && !pipelines.Controlled(l.log, name)
	_ = l.Ask(name, func(s *pipeline.State) error {
		_, _ = h.Members(s.Definition()) // reads the inventory, for the slots
		for _, r := range s.Explain(t) {
			if r.Code == pipeline.Ready {
				l.explainReady(&r, h, idle)
				explainDeploying(&r, s.Definition(), idle)
			}
			all = append(all, r)
		}
		return nil
	})
	return all
}

// explainDeploying names the environment for which a stage waits.
func explainDeploying(r *pipeline.Reason, d *pipeline.Definition, idle bool) {
	for i := range d.Stages {
		if s := &d.Stages[i]; r.Event == pipeline.EventDeployed && !idle && pipeline.StageTarget(d.Name, s.Name) == r.Target {
			r.Code, r.Name, r.Seq = pipeline.AwaitsEnvironment, s.Environment, 0
		}
	}
}

func (l *snapshot) explainReady(r *pipeline.Reason, h *work.Hosts, idle bool) {
	if w, ok := l.overview.Working(*r); ok && runs.Alive(l.log, w.Run) {
		r.Code, r.Run, r.Seq = pipeline.InRun, w.Run, w.Seq
		return
	}
	if idle {
		r.Code = pipeline.NoScheduler
		return
	}
	if w, ok := l.overview.Failed(*r); ok {
		r.Code, r.Run, r.Seq = pipeline.AwaitsRetry, w.Run, w.Seq
		return
	}
	r.Code = pipeline.AwaitsSlot
	if r.Target.Kind() != "host" {
		return
	}
	host := string(r.Target)[strings.LastIndexByte(string(r.Target), '/')+1:]
	busy := slices.DeleteFunc(l.overview.Busy(r.Target), func(w pipelines.Working) bool { return !runs.Alive(l.log, w.Run) })
	if len(busy) > 0 && len(busy) >= h.Slots(host) {
		r.Code, r.ByEvent, r.By, r.Run, r.Seq = pipeline.AwaitsHost, busy[0].Event, busy[0].Target, busy[0].Run, busy[0].Seq
	}
}
