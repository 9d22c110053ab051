package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	buildcli "github.com/deployster-go/deployster/internal/cli/build"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	promotioncli "github.com/deployster-go/deployster/internal/cli/promotion"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
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
While servers share all pipelines, on a log in a database, it stands by for all,
unless some are named.

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
	if err := errors.Join(a.Local(), a.CheckParallelism()); err != nil {
		return err
	}
	return split(ctx, a, o.names, 0, func(p *query.Pipelines, _ *promotioncli.Levels, released, observed []string) error {
		if err := engines.Abandon(ctx, p.Log, o.Engine.Abandon); err != nil {
			return err
		}
		definitions := p.Definitions(released...)
		if len(released) == 0 {
			definitions = nil
		}
		screen := a.Events()
		screen.JobName = buildcli.JobName(ctx, a, p.Log)
		err := session.WithWorkers(ctx, a, p.Log, o.WorkerFlags, a.Notices(), func(ctx context.Context, workers *session.Workers, stop <-chan struct{}) error {
			// Later, when a scheduler is at work, it goes on with the hosts it knows.
			hasGroups := func(d *definition.Definition) bool { return len(d.Groups()) > 0 }
			if _, err := workers.Hosts.Inventory(); err != nil && slices.ContainsFunc(definitions, hasGroups) {
				return exit.Invalid(err)
			}
			revisions, err := underWay(p, definitions)
			if err != nil {
				return err
			}
			if err := session.WarnUnread(a, workers.Steps.Unread(revisions), o.Input.Strict); err != nil {
				return err
			}
			screen.Begin("pipeline run", nil)
			scope := reconcile.All()
			if len(o.names) > 0 {
				scope = reconcile.Of(released...)
			}
			options := pipelines.Options{
				Options: reconcile.Options{
					Log: p.Log, Scope: scope, Parallelism: a.Global.Parallelism, UntilIdle: o.untilIdle, Drain: stop, Now: a.Now,
					MaxEntities: a.MaxEntities(),
				},
				Worker: workers.Steps, Hosts: workers.Hosts, Observer: screen, NewID: a.NewID, By: "scheduler " + app.Whoami(),
			}
			return promoting(ctx, a, options, workers, released, observed, len(o.names) > 0, func(ctx context.Context) error {
				return schedule(ctx, a, options, o.WorkerFlags, workers)
			})
		})
		switch {
		case err != nil:
			return err
		case screen.Failed() > 0:
			return fmt.Errorf("%s failed: deployster pipeline explain PIPELINE shows why, and pipeline retry retries", phrase.Count(screen.Failed(), "deployment"))
		}
		return a.Ended("idle, no progress possible: deployster pipeline status shows what waits")
	})
}

// underWay are the revisions that go through pipelines.
func underWay(p *query.Pipelines, definitions []*definition.Definition) (all []work.Revision, err error) {
	for _, d := range definitions {
		releases, err := p.Releases(d.Name)
		if err != nil {
			return nil, err
		}
		for _, r := range releases {
			if r.Status == deployment.Running {
				all = append(all, work.Revision{Pipeline: d, Name: r.Revision, Files: r.Carries})
			}
		}
	}
	return all, nil
}
