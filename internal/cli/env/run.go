package env

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/runner"
)

type runOptions struct {
	names     []string // none is all
	untilIdle bool
	work      workFlags
}

func newRunCommand(a *app.App) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run [NAME…]",
		Short: "Run the controller of environments",
		Long: `Run the controller, which reconciles environments with their desired state: all of
them, unless some are named. It runs until interrupted. It carries deployments out;
hosts that join the query of an environment get a task, those that leave it are
drained; a task that died is started again, and one that has drifted is repaired
or reported.

No two controllers control an environment at once. What another one controls this
one stands by for, and takes over at once when that has ended, however it ended.

Interrupt once to let finish what was begun and begin nothing new; twice to kill
it.`,
		Example: `  deployster env run
  deployster env run shop/prod --until-idle     # in CI: ends when all is deployed, or stuck
  deployster env run --check-every 5m --parallelism 50`,
		RunE: func(c *cobra.Command, names []string) error {
			o.names = names
			return runRun(c.Context(), a, o)
		},
	}
	c.Flags().BoolVar(&o.untilIdle, "until-idle", false, "end when no progress is possible: all is deployed, stuck or paused; with 1 when something is stuck or not healthy")
	o.work.registerWatch(c)
	return c
}

func runRun(ctx context.Context, a *app.App, o runOptions) error {
	if err := errors.Join(a.CheckParallelism(), o.work.check()); err != nil {
		return err
	}
	return withEnvironments(ctx, a, o.names, 0, func(e *environmentSet) error {
		if err := engines.Abandon(ctx, a, e.log, o.work.Engine.Abandon); err != nil {
			return err
		}
		return e.reconcile(ctx, a, o)
	})
}

// reconcile brings to hosts what the environments say.
func (e *environmentSet) reconcile(ctx context.Context, a *app.App, o runOptions) (err error) {
	screen := a.Events()
	ctx, signals := interrupt.Handle(ctx, screen.Notice)
	defer signals.Done()
	workers, err := session.OpenWorkers(a, e.log, o.work.WorkerFlags, screen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workers.Close()) }()
	if _, err := workers.Hosts.Inventory(); len(e.names) > 0 && err != nil {
		return exit.Invalid(err)
	}
	if err := session.WarnUnread(a, workers.Tasks.Unread(e.tasks(e.names)), o.work.Input.Strict); err != nil {
		return err
	}
	screen.Begin("env run", nil)
	err = exit.Refused(environments.NewController(environments.Options{
		Options: reconcile.Options{
			Log: e.log, Scope: reconcile.Of(o.names...), Parallelism: a.Global.Parallelism, UntilIdle: o.untilIdle, Drain: signals.Stop, Now: a.Now,
			MaxEntities: a.MaxEntities(),
		},
		Tasks: workers.Tasks, Inventory: workers.Hosts, Observer: screen, ProbeEvery: o.work.checkEvery,
	}).Run(ctx))
	switch {
	case signals.Count.Load() > 0 && (err == nil || errors.Is(err, context.Canceled)):
		return exit.Reported(runner.ErrInterrupted)
	case err != nil:
		return err
	}
	wrong, err := e.wrong(ctx, o.names)
	switch {
	case err != nil:
		return err
	case len(wrong) > 0:
		return fmt.Errorf("%s; deployster env status shows why", strings.Join(wrong, "; "))
	}
	return a.Ended("idle, no progress possible: deployster env status shows the result")
}

// tasks are those of all revisions of environments, for which hosts are not known.
func (e *environmentSet) tasks(names []string) (tasks []environment.Task) {
	for _, name := range names {
		_ = e.Ask(name, func(s *environment.State) error {
			for _, r := range s.Revisions() {
				tasks = append(tasks, environment.Task{Environment: name, Revision: r.Number, Spec: r.Definition.Task})
			}
			return nil
		})
	}
	return tasks
}

// wrong lists the environments that are not in their desired state though they are
// not paused; no names are all.
func (e *environmentSet) wrong(ctx context.Context, names []string) (wrong []string, err error) {
	if err := e.Follow(ctx, 0); err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = e.present()
	}
	for _, name := range names {
		if text := unhealthy(e.report(name)); text != "" {
			wrong = append(wrong, text)
		}
	}
	return wrong, nil
}

// unhealthy says what is wrong with an environment, "" when nothing is.
func unhealthy(r environment.Report) string {
	d := r.Deployment
	switch {
	case d == nil || r.Deleted:
		return ""
	case d.Status == environment.DeploymentStuck:
		return "stuck: " + r.Environment
	case r.Pause != nil:
		return ""
	}
	for _, row := range r.Rows {
		if row.Revision == d.Revision && row.Current < row.Desired {
			return fmt.Sprintf("only %d of %s healthy: %s", row.Current, phrase.Count(row.Desired, "host"), r.Environment)
		}
	}
	return ""
}
