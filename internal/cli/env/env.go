// Package env is the commands of environments.
package env

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/view"
)

func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "env",
		Aliases: []string{"environment"},
		Short:   "Say what is to run on which hosts, and bring it there in revisions",
		Long: `Say what is to run on which hosts, and bring it there in revisions.

An environment is a task, a query that selects hosts, and a way to deploy. Each
change of it is a revision, which does nothing until it is deployed: then a task
of it comes to every host, at the pace that the deployment configuration allows.
"env run" is what does that, and keeps watch afterwards: hosts come and go, tasks
die and drift.`,
		Example: `  deployster env create -f prod.yaml
  deployster env deploy shop/prod --revision 1 --wait
  deployster env update shop/prod --base 1 --set task.vars.image=shop:2
  deployster env rollback shop/prod --revision 1 --reason 'drops sessions'
  deployster env status shop/prod
  deployster env run`,
		Args: arguments.NoSuchSubcommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
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

// environmentsAt reads the log up to an event, 0 is all of it, and finds the
// environments of those names; none is all that there are.
func environmentsAt(ctx context.Context, a *app.App, names []string, at int64) (*environmentSet, error) {
	if at < 0 {
		return nil, exit.Usage("--at %d: it must be the number of an event, from 1", at)
	}
	log, _, err := a.ExistingLog(ctx)
	if err != nil {
		return nil, err
	}
	e, err := environmentsOf(ctx, a, log, names, at)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return e, nil
}

func environmentsOf(ctx context.Context, a *app.App, log deploylog.Log, names []string, at int64) (*environmentSet, error) {
	e := &environmentSet{log: log, names: names}
	e.Environments = environments.NewEnvironments(log, a.Now, func(told deploylog.Event) { e.when = told.CreatedAt })
	if err := e.Follow(ctx, at); err != nil {
		return nil, err
	}
	if e.Head() < at {
		return nil, exit.Usage("--at %d: the log ends with event %d", at, e.Head())
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

// report tells how an environment is.
func (e *environmentSet) report(name string) (r environment.Report) {
	_ = e.Ask(name, func(s *environment.State) error {
		r = s.Report()
		return nil
	})
	return r
}

// changeEnvironment has a command carried out, and tells what was recorded.
func changeEnvironment(ctx context.Context, a *app.App, name string, c environment.Command, done string) (err error) {
	asJSON, err := a.AsJSON()
	if err != nil {
		return err
	}
	e, err := environmentsAt(ctx, a, []string{name}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.log.Close()) }()
	events, err := e.Command(ctx, name, c)
	if err != nil {
		return exit.Refused(err)
	}
	return a.Recorded(map[string]any{"environment": name}, events, asJSON, done, "")
}

func newPauseCommand(a *app.App) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "pause NAME",
		Short: "Let nothing new begin in an environment",
		Long: `Let nothing new begin in an environment, until it is resumed or something is
deployed to it. What is being done at the moment is finished.`,
		Example: "  deployster env pause shop/prod --reason 'checkout fails'",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := arguments.CheckReason(reason); err != nil {
				return err
			}
			return changeEnvironment(c.Context(), a, args[0], environment.Pause{By: app.Whoami(), Reason: reason},
				fmt.Sprintf("environment %s is paused", args[0]))
		},
	}
	arguments.RegisterReason(c, &reason)
	return c
}

func newResumeCommand(a *app.App) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "resume NAME",
		Short:   "Go on with an environment that was paused",
		Example: "  deployster env resume shop/prod",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := arguments.CheckReason(reason); err != nil {
				return err
			}
			return changeEnvironment(c.Context(), a, args[0], environment.Resume{By: app.Whoami(), Reason: reason},
				fmt.Sprintf("environment %s goes on", args[0]))
		},
	}
	arguments.RegisterReason(c, &reason)
	return c
}

type environmentDeleteOptions struct {
	terminate, yes, wait bool
	reason               string
	work                 environmentWork
}

func newDeleteCommand(a *app.App) *cobra.Command {
	var o environmentDeleteOptions
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "End an environment",
		Long: `End an environment. Its tasks keep running, and are nobody's from then on; or they
are terminated first (--terminate-tasks), which "env run" does, or this command
when it waits for the end (--wait).`,
		Example: "  deployster env delete shop/old\n  deployster env delete shop/old --terminate-tasks --yes --wait",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := arguments.CheckReason(o.reason); err != nil {
				return err
			}
			if o.wait && !o.terminate {
				return exit.Usage("--wait is for the end of the tasks: say --terminate-tasks, too")
			}
			return deleteEnvironment(c.Context(), a, args[0], o)
		},
	}
	c.Flags().BoolVar(&o.terminate, "terminate-tasks", false, "terminate its tasks first")
	arguments.RegisterYes(c, &o.yes)
	c.Flags().BoolVar(&o.wait, "wait", false, "follow it until the tasks are gone, and work on that if nobody does")
	arguments.RegisterReason(c, &o.reason)
	o.work.registerWatch(c)
	return c
}

func deleteEnvironment(ctx context.Context, a *app.App, name string, o environmentDeleteOptions) (err error) {
	asJSON, err := a.AsJSON()
	if err != nil {
		return err
	}
	e, err := environmentsAt(ctx, a, []string{name}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.log.Close()) }()
	if err := e.alive(name); err != nil {
		return err
	}
	inv := work.NewHosts(o.work.inventory)
	if _, err := inv.Inventory(); o.terminate && err != nil {
		return exit.Invalid(err)
	}
	tasks := 0
	var away []string
	for _, h := range e.report(name).Hosts {
		if tasks += len(h.Tasks); len(h.Tasks) > 0 && !inv.Known(h.Host) {
			away = append(away, view.Clean(h.Host))
		}
	}
	if o.terminate && len(away) > 0 {
		fmt.Fprintf(a.Err, "note: what runs on %s can not be terminated, and is nobody's then: %s does not list these hosts\n", strings.Join(away, ", "), o.work.inventory)
	}
	becomes := map[bool]string{false: "keep running, and are nobody's then", true: "are terminated"}
	if tasks == 1 {
		becomes = map[bool]string{false: "keeps running, and is nobody's then", true: "is terminated"}
	}
	what := output.Count(tasks, "task") + " " + becomes[o.terminate]
	if err := prompt.Agree(ctx, a, o.yes, asJSON, fmt.Sprintf("environment %s would be deleted (%s)", name, what), "Delete environment %s (%s)?", name, what); err != nil {
		return err
	}
	if err := engines.Abandon(ctx, a, e.log, o.work.engine.Abandon); err != nil {
		return err
	}
	deletion := environment.Delete{TerminateTasks: o.terminate, By: app.Whoami(), Reason: o.reason}
	if o.wait {
		return deployAndWait(ctx, a, "env delete", e, name, deletion, o.work, asJSON)
	}
	events, err := e.Command(ctx, name, deletion)
	if err != nil {
		return exit.Refused(err)
	}
	document := map[string]any{"environment": name, "tasks": tasks}
	if startedBy(events) == "" {
		return a.Recorded(document, events, asJSON, fmt.Sprintf("environment %s is deleted", name), "")
	}
	defer tellIdle(a, e.log, name)
	return a.Recorded(document, events, asJSON, fmt.Sprintf("environment %s is deleted when its tasks are terminated", name), "")
}

// tellIdle says so where nobody will do what was just asked for.
func tellIdle(a *app.App, log deploylog.Log, name string) {
	if !environments.ControllerAtWork(log) && !environments.WorksOn(log, name) {
		fmt.Fprintf(a.Err, "note: no controller is at work: deployster env run %s\n", name)
	}
}
