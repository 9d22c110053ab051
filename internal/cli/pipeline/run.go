package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotion"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/cli/version"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/runner"
)

type pipelineRunOptions struct {
	inventory string
	untilIdle bool
	input     session.Flags
	engine    engines.Flags
}

func newRunCommand(a *app.App) *cobra.Command {
	var o pipelineRunOptions
	c := &cobra.Command{
		Use:   "run [PIPELINE…]",
		Short: "Carry revisions through pipelines, until interrupted or nothing moves",
		Long: `Carry revisions through pipelines, all of them unless some are named.

One scheduler works on a log at a time. Another one stands by, and takes over at
once when the first has ended, however it ended: what was finished is not done
again, and what was not is looked at again and finished.

Interrupt once to let running steps finish and begin nothing new; twice to kill
them.`,
		Example: `  deployster pipeline run
  deployster pipeline run gateway --until-idle     # in CI: ends when everything is done or waits
  deployster pipeline run gateway --parallelism 50`,
		RunE: func(c *cobra.Command, names []string) error { return runPipelines(c.Context(), a, names, o) },
	}
	arguments.RegisterInventory(c, &o.inventory)
	c.Flags().BoolVar(&o.untilIdle, "until-idle", false, "end when nothing moves any more: all is done, failed, or waits for somebody")
	o.input.RegisterVariables(c)
	o.engine.Register(c)
	o.engine.RegisterCache(c)
	o.engine.RegisterAbandon(c)
	return c
}

func runPipelines(ctx context.Context, a *app.App, names []string, o pipelineRunOptions) (err error) {
	asJSON, err := a.AsJSON()
	if err != nil {
		return err
	}
	if a.Global.Parallelism < 1 {
		return exit.Usage("--parallelism %d: it must be at least 1", a.Global.Parallelism)
	}
	log, _, err := a.ExistingLog(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := engines.Abandon(ctx, a, log, o.engine.Abandon); err != nil {
		return err
	}
	if err := arePresent(ctx, a, log, names); err != nil {
		return err
	}
	news := &output.News{Fallback: a.Err}
	ctx, signals := interrupt.Interruptible(ctx, news.Tell)
	defer signals.Done()
	workers, err := session.OpenWorkers(a, log, work.NewHosts(o.inventory), o.input, o.engine, news)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workers.Close()) }()
	if err := needsInventory(ctx, a, log, names, workers.Hosts); err != nil {
		return err
	}
	if err := heedPipelines(ctx, a, log, workers, names, o.input.Strict); err != nil {
		return err
	}
	screen := &pipelineScreen{app: a, json: asJSON}
	if asJSON {
		screen.line(map[string]any{"version": 1, "deployster": version.Current(), "command": "pipeline run"})
	}
	worker, ctx, ended := startPromotion(ctx, a, log, workers, screen, signals.Stop)
	defer ended()
	s := pipelines.NewScheduler(pipelines.SchedulerOptions{
		Log: log, Pipelines: names, Worker: worker, Hosts: workers.Hosts, Spectator: screen, Parallelism: a.Global.Parallelism,
		UntilIdle: o.untilIdle, Stop: signals.Stop, NewID: a.NewID, Now: a.Now,
	})
	err = exit.Refused(s.Run(ctx))
	switch {
	case signals.Count.Load() > 0 && (err == nil || errors.Is(err, context.Canceled)):
		return exit.Told(runner.ErrInterrupted)
	case err != nil:
		return err
	case screen.failed > 0:
		return fmt.Errorf("%s failed: deployster pipeline explain PIPELINE tells why, and pipeline retry goes on", output.Count(screen.failed, "deployment"))
	case asJSON:
		return nil
	}
	return a.Printf("nothing moves any more: deployster pipeline status tells what waits\n")
}

// arePresent refuses names of pipelines that there are not, or not any more.
func arePresent(ctx context.Context, a *app.App, log deploylog.Log, names []string) error {
	if len(names) == 0 {
		return nil
	}
	p := pipelines.NewPipelines(log, a.Now)
	err := p.Follow(ctx, 0)
	for _, name := range names {
		if err == nil {
			err = present(p, name)
		}
	}
	return err
}

// startPromotion is a worker that deploys to environments besides what the workers do.
// ended waits until nothing is done any more, and is called when the scheduler has
// ended.
func startPromotion(ctx context.Context, a *app.App, log deploylog.Log, workers *session.Workers, screen *pipelineScreen, stop <-chan struct{}) (w pipelines.Worker, inside context.Context, ended func()) {
	over := make(chan struct{})
	attendance := environments.NewAttendance(environments.ControllerOptions{
		Log: log, Tasks: workers.Tasks, Inventory: workers.Hosts, Audience: screen, Parallelism: a.Global.Parallelism, Stop: over, Now: a.Now,
	})
	inside, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := crash.Do("controlling environments", func() error { return attendance.Run(inside) }); err != nil {
			cancel(err) // or stages would wait for it without end
		}
	}()
	return promotion.NewPromotion(workers.Steps, log, a.Now, workers.Hosts.Selected, attendance.Attend, stop), inside, func() {
		close(over)
		<-done
		cancel(nil)
	}
}

// needsInventory refuses an inventory that can not be read, if a pipeline has host
// groups. Later, when a scheduler is at work, it goes on with the hosts it knows.
func needsInventory(ctx context.Context, a *app.App, log deploylog.Log, names []string, h *work.Hosts) error {
	_, unreadable := h.Inventory()
	if unreadable == nil {
		return nil
	}
	p := pipelines.NewPipelines(log, a.Now)
	if err := p.Follow(ctx, 0); err != nil {
		return err
	}
	if len(names) == 0 {
		names = p.Names()
	}
	for _, name := range names {
		err := p.Ask(name, func(s *pipeline.State) error {
			if d := s.Definition(); d != nil && len(d.Groups()) > 0 {
				return exit.Invalid(unreadable)
			}
			return nil
		})
		if err != nil {
			return exit.Refused(err)
		}
	}
	return nil
}

// pipelineScreen shows what a scheduler does, and the controller of environments
// beside it, a line an event.
type pipelineScreen struct {
	app    *app.App
	json   bool
	failed int // pipelines

	mu   sync.Mutex
	told view.SeenReasons
}

// Recorded implements pipelines.Spectator and environments.Audience.
func (s *pipelineScreen) Recorded(e deploylog.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Name == e.Target.Failed() && e.Target.Kind() == "pipeline" {
		s.failed++
	}
	o := s.app.PlanOptions(s.app.Out)
	o.Seen = &s.told
	_, ofEnvironment := environment.NameOf(e.Target)
	switch {
	case s.json:
		s.line(map[string]any{"type": "recorded", "event": e})
	case ofEnvironment:
		_ = view.EnvironmentEvent(s.app.Out, e, o)
	default:
		_ = view.PipelineEvent(s.app.Out, e, o)
	}
}

// Began implements pipelines.Spectator.
func (s *pipelineScreen) Began(step pipeline.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json {
		line := map[string]any{"type": "working", "target": step.Target, "event": step.Event, "revision": step.Revision, "deployment": step.Deployment}
		if step.Manifest != "" {
			line["manifest"] = step.Manifest
		} else {
			line["environment"] = step.Environment
		}
		s.line(line)
		return
	}
	_ = view.PipelineWork(s.app.Out, step, s.app.PlanOptions(s.app.Out))
}

// Again implements pipelines.Spectator.
func (s *pipelineScreen) Again(step pipeline.Step, cause error, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json {
		s.line(map[string]any{"type": "retrying", "target": step.Target, "event": step.Event, "revision": step.Revision, "deployment": step.Deployment, "error": cause.Error(), "after_ms": after.Milliseconds()})
		return
	}
	_ = output.Write(s.app.Out, "        ! %s of %s failed, and is tried again in %s: %s\n", step.Event, step.Target, after, view.Clean(cause.Error()))
}

// Notice implements pipelines.Spectator and environments.Audience.
func (s *pipelineScreen) Notice(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json {
		s.line(map[string]any{"type": "notice", "text": text})
		return
	}
	_ = output.Write(s.app.Err, "note: %s\n", view.Clean(text))
}

func (s *pipelineScreen) line(document map[string]any) {
	if text, err := json.Marshal(document); err == nil {
		_ = output.Write(s.app.Out, "%s\n", text)
	}
}
