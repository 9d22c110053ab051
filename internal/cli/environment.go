package cli

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
	"github.com/deployster-go/deployster/internal/view"
)

func (a *app) environmentCommand() *cobra.Command {
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
		Args: noSuchSubcommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		a.environmentCreateCommand(), a.environmentUpdateCommand(), a.environmentDeployCommand(), a.environmentRollbackCommand(),
		a.environmentPauseCommand(), a.environmentResumeCommand(), a.environmentDeleteCommand(), a.environmentRunCommand(),
		a.environmentStatusCommand(), a.environmentListCommand(), a.environmentRevisionsCommand(), a.environmentShowCommand(),
		a.environmentDiffCommand(), a.environmentHistoryCommand(),
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
func (a *app) environmentsAt(ctx context.Context, names []string, at int64) (*environmentSet, error) {
	if at < 0 {
		return nil, usage("--at %d: it must be the number of an event, from 1", at)
	}
	log, _, err := a.existingLog(ctx)
	if err != nil {
		return nil, err
	}
	e, err := a.environmentsOf(ctx, log, names, at)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return e, nil
}

func (a *app) environmentsOf(ctx context.Context, log deploylog.Log, names []string, at int64) (*environmentSet, error) {
	e := &environmentSet{log: log, names: names}
	e.Environments = environments.NewEnvironments(log, a.now, func(told deploylog.Event) { e.when = told.CreatedAt })
	if err := e.Follow(ctx, at); err != nil {
		return nil, err
	}
	if e.Head() < at {
		return nil, usage("--at %d: the log ends with event %d", at, e.Head())
	}
	if at == 0 {
		e.when = a.now()
	}
	for _, name := range names {
		if err := e.Ask(name, func(*environment.State) error { return nil }); err != nil {
			return nil, refused(err)
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
	return r, refused(err)
}

// alive refuses an environment that was deleted.
func (e *environmentSet) alive(name string) error {
	return e.Ask(name, func(s *environment.State) error {
		if !s.Exists() {
			return usage("environment %s was deleted: deployster env create makes it anew", name)
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
func (a *app) changeEnvironment(ctx context.Context, name string, c environment.Command, done string) (err error) {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	e, err := a.environmentsAt(ctx, []string{name}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.log.Close()) }()
	events, err := e.Command(ctx, name, c)
	if err != nil {
		return refused(err)
	}
	return a.tellRecorded(map[string]any{"environment": name}, events, asJSON, done, "")
}

// tellRecorded tells what was done, with the events that record it, and what
// there is to say of that.
func (a *app) tellRecorded(document map[string]any, events []deploylog.Event, asJSON bool, done, next string) error {
	if asJSON {
		document["events"] = append([]deploylog.Event{}, events...)
		return a.printJSON(document)
	}
	for _, e := range events {
		done += fmt.Sprintf(" (event %d)", e.Seq)
	}
	return write(a.out, "%s%s\n", done, next)
}

// reasoned checks a reason, which may be empty.
func reasoned(reason string) error {
	if reason == "" {
		return nil
	}
	return oneLine("--reason", reason)
}

func registerReason(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "reason", "", "why, for those who read the log")
}

func (a *app) environmentPauseCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "pause NAME",
		Short: "Let nothing new begin in an environment",
		Long: `Let nothing new begin in an environment, until it is resumed or something is
deployed to it. What is being done at the moment is finished.`,
		Example: "  deployster env pause shop/prod --reason 'checkout fails'",
		Args:    named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := reasoned(reason); err != nil {
				return err
			}
			return a.changeEnvironment(c.Context(), args[0], environment.Pause{By: whoami(), Reason: reason},
				fmt.Sprintf("environment %s is paused", args[0]))
		},
	}
	registerReason(c, &reason)
	return c
}

func (a *app) environmentResumeCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "resume NAME",
		Short:   "Go on with an environment that was paused",
		Example: "  deployster env resume shop/prod",
		Args:    named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := reasoned(reason); err != nil {
				return err
			}
			return a.changeEnvironment(c.Context(), args[0], environment.Resume{By: whoami(), Reason: reason},
				fmt.Sprintf("environment %s goes on", args[0]))
		},
	}
	registerReason(c, &reason)
	return c
}

type environmentDeleteOptions struct {
	terminate, yes, wait bool
	reason               string
	work                 environmentWork
}

func (a *app) environmentDeleteCommand() *cobra.Command {
	var o environmentDeleteOptions
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "End an environment",
		Long: `End an environment. Its tasks keep running, and are nobody's from then on; or they
are terminated first (--terminate-tasks), which "env run" does, or this command
when it waits for the end (--wait).`,
		Example: "  deployster env delete shop/old\n  deployster env delete shop/old --terminate-tasks --yes --wait",
		Args:    named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := reasoned(o.reason); err != nil {
				return err
			}
			if o.wait && !o.terminate {
				return usage("--wait is for the end of the tasks: say --terminate-tasks, too")
			}
			return a.deleteEnvironment(c.Context(), args[0], o)
		},
	}
	c.Flags().BoolVar(&o.terminate, "terminate-tasks", false, "terminate its tasks first")
	registerYes(c, &o.yes)
	c.Flags().BoolVar(&o.wait, "wait", false, "follow it until the tasks are gone, and work on that if nobody does")
	registerReason(c, &o.reason)
	o.work.registerWatch(c)
	return c
}

func (a *app) deleteEnvironment(ctx context.Context, name string, o environmentDeleteOptions) (err error) {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	e, err := a.environmentsAt(ctx, []string{name}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.log.Close()) }()
	if err := e.alive(name); err != nil {
		return err
	}
	inv := work.NewHosts(o.work.inventory)
	if _, err := inv.Inventory(); o.terminate && err != nil {
		return &usageError{err}
	}
	tasks := 0
	var away []string
	for _, h := range e.report(name).Hosts {
		if tasks += len(h.Tasks); len(h.Tasks) > 0 && !inv.Known(h.Host) {
			away = append(away, view.Clean(h.Host))
		}
	}
	if o.terminate && len(away) > 0 {
		fmt.Fprintf(a.err, "note: what runs on %s can not be terminated, and is nobody's then: %s does not list these hosts\n", strings.Join(away, ", "), o.work.inventory)
	}
	becomes := map[bool]string{false: "keep running, and are nobody's then", true: "are terminated"}
	if tasks == 1 {
		becomes = map[bool]string{false: "keeps running, and is nobody's then", true: "is terminated"}
	}
	what := count(tasks, "task") + " " + becomes[o.terminate]
	if err := a.agree(ctx, o.yes, asJSON, fmt.Sprintf("environment %s would be deleted (%s)", name, what), "Delete environment %s (%s)?", name, what); err != nil {
		return err
	}
	if err := a.abandon(ctx, e.log, o.work.engine.abandon); err != nil {
		return err
	}
	deletion := environment.Delete{TerminateTasks: o.terminate, By: whoami(), Reason: o.reason}
	if o.wait {
		return a.deployAndWait(ctx, "env delete", e, name, deletion, o.work, asJSON)
	}
	events, err := e.Command(ctx, name, deletion)
	if err != nil {
		return refused(err)
	}
	document := map[string]any{"environment": name, "tasks": tasks}
	if startedBy(events) == "" {
		return a.tellRecorded(document, events, asJSON, fmt.Sprintf("environment %s is deleted", name), "")
	}
	defer a.tellIdle(e.log, name)
	return a.tellRecorded(document, events, asJSON, fmt.Sprintf("environment %s is deleted when its tasks are terminated", name), "")
}

// tellIdle says so where nobody will do what was just asked for.
func (a *app) tellIdle(log deploylog.Log, name string) {
	if !environments.ControllerAtWork(log) && !environments.WorksOn(log, name) {
		fmt.Fprintf(a.err, "note: no controller is at work: deployster env run %s\n", name)
	}
}
