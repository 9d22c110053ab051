// Package env is the commands of environments.
package env

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
)

// NewCommand returns the commands of environments.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "env",
		Aliases: []string{"environment"},
		Short:   "Manage environments and roll out revisions",
		Long: `Manage environments and roll out revisions.

An environment is a task, a query that selects hosts, and a way to deploy. Each
change of it is a revision, which does nothing until it is deployed: that starts
one task per host, at the pace that the deployment configuration allows. "env run"
runs the controller that does so, and that keeps the desired state afterwards:
hosts come and go, tasks die and drift.`,
		Example: `  deployster env create -f prod.yaml
  deployster env deploy shop/prod --revision 1 --wait
  deployster env update shop/prod --base 1 --set task.vars.image=shop:2
  deployster env rollback shop/prod --revision 1 --reason 'drops sessions'
  deployster env status shop/prod
  deployster env run`,
	}
	c.AddCommand(
		newCreateCommand(a), newUpdateCommand(a), newDeployCommand(a), newRollbackCommand(a),
		newPauseCommand(a), newResumeCommand(a), newDeleteCommand(a), newRunCommand(a),
		newStatusCommand(a), newListCommand(a), newRevisionsCommand(a), newShowCommand(a),
		newDiffCommand(a), newHistoryCommand(a),
	)
	return c
}

// environments are those of the log at one moment.
type environmentSet struct {
	*environments.Environments
	log   deploylog.Log
	names []string
	when  time.Time // of the last event, where the past was asked for; else the present
}

// withEnvironments has something done with the environments of those names, none is
// all, as they were right after an event; 0 is now.
func withEnvironments(ctx context.Context, a *app.App, names []string, at int64, do func(*environmentSet) error) error {
	return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		e, err := environmentsOf(ctx, a, log, names, at)
		if err != nil {
			return err
		}
		return do(e)
	})
}

// withEnvironment has something done with one that is not deleted.
func withEnvironment(ctx context.Context, a *app.App, name string, do func(*environmentSet) error) error {
	return withEnvironments(ctx, a, []string{name}, 0, func(e *environmentSet) error {
		if err := e.alive(name); err != nil {
			return err
		}
		return do(e)
	})
}

func environmentsOf(ctx context.Context, a *app.App, log deploylog.Log, names []string, at int64) (*environmentSet, error) {
	e := &environmentSet{log: log, names: names}
	e.Environments = environments.New(log, a.Now, func(last deploylog.Event) { e.when = last.CreatedAt })
	if err := arguments.FollowTo(ctx, e, at); err != nil {
		return nil, err
	}
	if at == 0 {
		e.when = a.Now()
	}
	for _, name := range names {
		if err := e.Ask(name, func(*environment.State) error { return nil }); err != nil {
			return nil, exit.Refused(err)
		}
	}
	if len(names) == 0 {
		e.names = e.present()
	}
	return e, nil
}

// present are the environments that are not deleted.
func (e *environmentSet) present() []string {
	var names []string
	for _, name := range e.Names() {
		_ = e.Ask(name, func(s *environment.State) error {
			if s.Exists() {
				names = append(names, name)
			}
			return nil
		})
	}
	return names
}

// revision is one of an environment.
func (e *environmentSet) revision(name string, number int) (r environment.Revision, err error) {
	err = e.Ask(name, func(s *environment.State) error {
		r, err = s.Revision(number)
		return err
	})
	return r, exit.Refused(err)
}

// alive refuses an environment that was deleted.
func (e *environmentSet) alive(name string) error {
	return e.Ask(name, func(s *environment.State) error {
		if !s.Exists() {
			return exit.Usage("environment %s was deleted: deployster env create makes it anew", name)
		}
		return nil
	})
}

// report is the state of an environment.
func (e *environmentSet) report(name string) (r environment.Report) {
	_ = e.Ask(name, func(s *environment.State) error {
		r = s.Report()
		return nil
	})
	return r
}
