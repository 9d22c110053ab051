package serve

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/build"
	"github.com/deployster-go/deployster/internal/cli/pipeline"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/metrics"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// controller is one of the loops of a server.
type controller struct {
	does string
	run  func(context.Context) error
}

// control runs all controllers. When one fails the others begin nothing new; it returns when
// all have ended.
func (s *process) control(ctx context.Context, stop <-chan struct{}) error {
	drain, begin := draining(stop)
	defer begin()
	all, recorded, err := s.controllers(ctx, drain)
	if err != nil {
		return err
	}
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, c := range all {
		running.Go(func() {
			defer begin()
			errs[i] = crash.Do(c.does, func() error { return c.run(ctx) })
			if errs[i] != nil && ctx.Err() == nil {
				s.logger.Error("a controller has failed, and the server ends when what it began is done", "controller", c.does, "error", errs[i])
			}
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx) // which is why they ended
	}
	if err = errors.Join(errs...); err == nil { // all results are recorded
		recorded()
	}
	return err
}

// controllers are the loops, and what is to be done when all that they did is recorded.
func (s *process) controllers(ctx context.Context, drain <-chan struct{}) (_ []controller, recorded func(), err error) {
	seen := &observer{s.logger, s.metrics}
	of := reconcile.Options{Log: s.log, Name: s.name, Parallelism: s.Global.Parallelism, Drain: drain, Commands: &s.commands, Now: s.Now, MaxEntities: s.entitiesEach()}
	dispatch, recorded, err := build.Dispatch(s.App, s.work, s.signKey, s.log, s.workers.EnginePool, seen)
	if err != nil {
		return nil, nil, err
	}
	dispatch.Drain, dispatch.Commands = drain, &s.commands
	scheduler, err := pipeline.Scheduler(ctx, s.App, pipelines.Options{
		Options: of, Worker: s.workers.Steps, Hosts: s.workers.Hosts, Observer: seen, NewID: s.NewID, By: "server " + app.Whoami(),
	}, s.workers)
	if err != nil {
		return nil, nil, err
	}
	return []controller{
		{"scheduling pipelines", scheduler.Run},
		{"promoting by observed state", promotions.NewController(promotions.Options{
			Options: of, Observer: seen, Selected: s.workers.Hosts.Selected, Identity: s.workers.Hosts.Identity, Things: s.workers.Tasks.Things, Verify: s.workers.Tasks.Verify, Workspace: s.Workspace, Getenv: s.Getenv, Engines: s.workers.Tasks, Clusters: s.workers.Clusters,
		}).Run},
		{"controlling environments", environments.NewController(environments.Options{
			Options: of, Tasks: s.workers.Tasks, Inventory: s.workers.Hosts, Observer: seen, ProbeEvery: s.checkEvery,
		}).Run},
		{"dispatching build groups", builds.NewController(dispatch).Run},
		{"carrying out runs", func(ctx context.Context) error { return s.runs.Serve(ctx, drain) }},
	}, recorded, nil
}

// begun counts a run.
func (s *process) begun(one *apply.Served) { s.metrics.RunBegun(one.Command) }

// ended writes how a run ended into the log of the server, and measures it.
func (s *process) ended(one *apply.Served, err error) {
	s.metrics.RunEnded(one.Command, string(one.Result().Outcome), one.Took)
	if err != nil {
		s.logger.Warn("a run has failed", "run", one.ID, "error", err)
		return
	}
	s.logger.Info("a run has succeeded", "run", one.ID)
}

// entitiesEach is how many entities each of the controllers may have that keep a file open
// for each; 0 is any number.
func (s *process) entitiesEach() int { return (s.MaxEntities() + 2) / 3 }

// observer writes what controllers do into the log of the server.
type observer struct {
	logger  *slog.Logger
	metrics *metrics.Metrics
}

// Recorded implements reconcile.Observer.
func (o *observer) Recorded(e deploylog.Event) {
	o.metrics.Recorded(e)
	o.logger.Info("recorded", "seq", e.Seq, "target", e.Target, "event", e.Name, "revision", e.Revision, "deployment", e.Deployment, "attempt", e.Attempt)
}

// Notice implements reconcile.Observer.
func (o *observer) Notice(text string) { o.logger.Warn(text) }

// Inform implements reconcile.Informed.
func (o *observer) Inform(text string) { o.logger.Info(text) }

// Began implements pipelines.Observer.
func (o *observer) Began(s step.Step) {
	o.logger.Info("working", "target", s.Target, "event", s.Event, "revision", s.Revision, "deployment", s.Deployment)
}

// Again implements pipelines.Observer.
func (o *observer) Again(s step.Step, cause error, after time.Duration) {
	name, _ := record.NameOf(s.Target)
	o.metrics.Retried(name)
	o.logger.Warn("a step failed, and is tried again", "target", s.Target, "event", s.Event, "revision", s.Revision, "after", after, "error", cause)
}
