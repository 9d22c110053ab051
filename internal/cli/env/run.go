package env

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
)

// workFlags are the flags of what looks at and works on tasks.
type workFlags struct {
	session.WorkerFlags
	checkEvery  time.Duration
	allowLogged []string // variables of a task that are no secrets

	allowUnpinned bool // images whose contents are not known need not be carried
}

// registerWatch adds the flags of what keeps watch, too.
func (w *workFlags) registerWatch(c *cobra.Command) {
	w.Register(c)
	w.Engine.RegisterAbandon(c)
	c.Flags().DurationVar(&w.checkEvery, "check-every", environments.DefaultProbeEvery, "how often to probe every task, in addition to the events of engines")
}

func (w *workFlags) check() error {
	if w.checkEvery < time.Second {
		return exit.Usage("--check-every %s: it must be at least 1s", w.checkEvery)
	}
	return w.CheckTaskVariables()
}

// warnUnread warns of variables that no revision of the environments reads.
func (w *workFlags) warnUnread(a *app.App, e *query.Environments, worker *work.TaskWorker, names []string) error {
	var all []tasks.Task // of which hosts are not known
	for _, name := range names {
		revisions, err := reconcile.Get(e.Fold, name, (*environment.State).Revisions)
		if err != nil {
			return err
		}
		for _, r := range revisions {
			all = append(all, tasks.Task{Environment: name, Revision: r.Number, Spec: r.Definition.Task})
		}
	}
	return session.WarnUnread(a, worker.Unread(all), w.Input.Strict)
}

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
While servers share all environments, on a log in a database, it stands by for all,
unless some are named.

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
	if err := errors.Join(a.Local(), a.CheckParallelism(), o.work.check()); err != nil {
		return err
	}
	return withEnvironments(ctx, a, o.names, 0, func(e *query.Environments) error {
		if err := engines.Abandon(ctx, e.Log, o.work.Engine.Abandon); err != nil {
			return err
		}
		screen := a.Events()
		err := session.WithWorkers(ctx, a, e.Log, o.work.WorkerFlags, screen.Notices, func(ctx context.Context, workers *session.Workers, stop <-chan struct{}) error {
			names := o.names
			if len(names) == 0 {
				names = e.Present()
			}
			if _, err := workers.Hosts.Inventory(); len(names) > 0 && err != nil {
				return exit.Invalid(err)
			}
			if err := o.work.warnUnread(a, e, workers.Tasks, names); err != nil {
				return err
			}
			screen.Begin("env run", nil)
			return environments.NewController(environments.Options{
				Options: reconcile.Options{
					Log: e.Log, Scope: reconcile.Of(o.names...), Parallelism: a.Global.Parallelism, UntilIdle: o.untilIdle, Drain: stop, Now: a.Now,
					MaxEntities: a.MaxEntities(),
				},
				Tasks: workers.Tasks, Inventory: workers.Hosts, Observer: screen, ProbeEvery: o.work.checkEvery,
			}).Run(ctx)
		})
		if err != nil {
			return err
		}
		if err := e.Follow(ctx, 0); err != nil {
			return err
		}
		reports, err := e.Status(o.names...)
		if err != nil {
			return err
		}
		var wrong []string
		for _, r := range reports {
			if text := unhealthy(r); text != "" {
				wrong = append(wrong, text)
			}
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%s; deployster env status shows why", strings.Join(wrong, "; "))
		}
		return a.Ended("idle, no progress possible: deployster env status shows the result")
	})
}

// passedOver counts the hosts that have no healthy task of the active revision because they
// are cordoned.
func passedOver(r report.Report) (n int) {
	for _, h := range r.Hosts {
		has := slices.ContainsFunc(h.Tasks, func(t report.TaskRow) bool {
			return t.Revision == r.Deployment.Revision && (t.Status == report.TaskHealthy || t.Status == report.TaskDrifted)
		})
		cordoned := slices.ContainsFunc(r.Cordoned, func(c report.Cordon) bool { return c.Host == h.Host })
		if h.Desired && cordoned && !has {
			n++
		}
	}
	return n
}

// unhealthy says how an environment is not in its desired state though it is not
// paused, "" when it is.
func unhealthy(r report.Report) string {
	d := r.Deployment
	switch {
	case d == nil || r.Deleted:
		return ""
	case d.Status == report.DeploymentStuck:
		return "stuck: " + r.Environment
	case d.BakeFailed != "":
		return "failed in its bake: " + r.Environment
	case r.Pause != nil || r.Step != nil && r.Step.Promote:
		return ""
	}
	for _, row := range r.Rows {
		if row.Revision == d.Revision && row.Current+passedOver(r) < row.Desired-d.Exceptions {
			return fmt.Sprintf("only %d of %s healthy: %s", row.Current, phrase.Count(row.Desired, "host"), r.Environment)
		}
	}
	return ""
}
