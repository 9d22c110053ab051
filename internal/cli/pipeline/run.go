package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotion"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/runner"
)

type runOptions struct {
	session.WorkerFlags
	names     []string // none is all
	untilIdle bool
}

func newRunCommand(a *app.App) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run [PIPELINE…]",
		Short: "Run the scheduler of pipelines",
		Long: `Run the scheduler, which carries revisions through pipelines: all of them, unless
some are named. It runs until interrupted.

No two schedulers control a pipeline at once. What another one controls this one
stands by for, and takes over at once when that has ended, however it ended: what
was finished is not done again, and what was not is looked at again and finished.

Interrupt once to let running steps finish and begin nothing new; twice to kill
them.`,
		Example: `  deployster pipeline run
  deployster pipeline run gateway --until-idle     # in CI: ends when everything is done or waits
  deployster pipeline run gateway --parallelism 50`,
		RunE: func(c *cobra.Command, names []string) error {
			o.names = names
			return runRun(c.Context(), a, o)
		},
	}
	c.Flags().BoolVar(&o.untilIdle, "until-idle", false, "end when no progress is possible: all is done, failed, or waits for somebody")
	o.Register(c)
	o.Engine.RegisterAbandon(c)
	return c
}

func runRun(ctx context.Context, a *app.App, o runOptions) error {
	if err := a.CheckParallelism(); err != nil {
		return err
	}
	return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		if err := engines.Abandon(ctx, a, log, o.Engine.Abandon); err != nil {
			return err
		}
		definitions, err := defined(ctx, a, log, o.names)
		if err != nil {
			return err
		}
		return schedule(ctx, a, log, definitions, o)
	})
}

// schedule carries revisions through pipelines, whose definitions are those.
func schedule(ctx context.Context, a *app.App, log deploylog.Log, definitions []*pipeline.Definition, o runOptions) (err error) {
	news := &output.News{Fallback: a.Err}
	ctx, signals := interrupt.Handle(ctx, news.Notice)
	defer signals.Done()
	workers, err := session.OpenWorkers(a, log, o.WorkerFlags, news)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workers.Close()) }()
	// Later, when a scheduler is at work, it goes on with the hosts it knows.
	hasGroups := func(d *pipeline.Definition) bool { return len(d.Groups()) > 0 }
	if _, err := workers.Hosts.Inventory(); err != nil && slices.ContainsFunc(definitions, hasGroups) {
		return exit.Invalid(err)
	}
	if err := session.WarnUnread(a, workers.Steps.Unread(definitions), o.Input.Strict); err != nil {
		return err
	}
	screen := a.Events()
	screen.Begin("pipeline run", nil)
	worker, ctx, ended := startPromotion(ctx, a, log, workers, screen, signals.Stop)
	defer ended()
	s := pipelines.NewScheduler(pipelines.Options{
		Options: reconcile.Options{
			Log: log, Scope: reconcile.Of(o.names...), Parallelism: a.Global.Parallelism, UntilIdle: o.untilIdle, Drain: signals.Stop, Now: a.Now,
			MaxEntities: a.MaxEntities(),
		},
		Worker: worker, Hosts: workers.Hosts, Observer: screen, NewID: a.NewID,
	})
	err = exit.Refused(s.Run(ctx))
	switch {
	case signals.Count.Load() > 0 && (err == nil || errors.Is(err, context.Canceled)):
		return exit.Reported(runner.ErrInterrupted)
	case err != nil:
		return err
	case screen.Failed() > 0:
		return fmt.Errorf("%s failed: deployster pipeline explain PIPELINE shows why, and pipeline retry retries", phrase.Count(screen.Failed(), "deployment"))
	}
	return a.Ended("idle, no progress possible: deployster pipeline status shows what waits")
}

// defined are the definitions of pipelines of those names, none is all. It refuses
// names of pipelines that there are not, or not any more.
func defined(ctx context.Context, a *app.App, log deploylog.Log, names []string) (definitions []*pipeline.Definition, err error) {
	p := pipelines.New(log, a.Now)
	if err := p.Follow(ctx, 0); err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = p.Present()
	}
	for _, name := range names {
		if err := present(p, name); err != nil {
			return nil, err
		}
		_ = p.Ask(name, func(s *pipeline.State) error {
			if d := s.Definition(); d != nil {
				definitions = append(definitions, d)
			}
			return nil
		})
	}
	return definitions, nil
}

// startPromotion returns a worker that also deploys to environments.
// ended waits until nothing is done any more, and is called when the scheduler has
// ended.
func startPromotion(ctx context.Context, a *app.App, log deploylog.Log, workers *session.Workers, screen *output.Events, stop <-chan struct{}) (w pipelines.Worker, inside context.Context, ended func()) {
	over := make(chan struct{})
	scope := reconcile.Only() // the environments that stages wait for
	controller := environments.NewController(environments.Options{
		Options: reconcile.Options{Log: log, Scope: scope, Parallelism: a.Global.Parallelism, Drain: over, Now: a.Now},
		Tasks:   workers.Tasks, Inventory: workers.Hosts, Observer: screen,
	})
	inside, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := crash.Do("controlling environments", func() error { return controller.Run(inside) }); err != nil {
			cancel(err) // or stages would wait for it without end
		}
	}()
	return promotion.New(workers.Steps, log, a.Now, workers.Hosts.Selected, scope.Add, stop), inside, func() {
		close(over)
		<-done
		cancel(nil)
	}
}
