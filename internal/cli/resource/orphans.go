package resource

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/control/managed"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/proposal"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

// registerOrphans adds the flag --orphans, with which a command takes no manifest.
func registerOrphans(c *cobra.Command, into *bool, usage string) {
	c.Flags().BoolVar(into, "orphans", false, usage)
	c.Args = func(c *cobra.Command, args []string) error {
		if !*into {
			return arguments.Manifests(c, args)
		}
		if len(args) > 0 {
			return exit.Usage("--orphans is of all manifests, so %s cannot be given: leave it out, or name some orphans with --target %s#NAME", strings.Join(args, " "), args[0])
		}
		return nil
	}
}

// refuseWithOrphans refuses the flags that concern manifests.
func refuseWithOrphans(o lookOptions, prune bool) error {
	switch {
	case prune:
		return exit.Usage("--prune is for what one manifest no longer declares, and --orphans for what none does: leave one of them out")
	case len(o.input.Variables) > 0:
		return exit.Usage("--var and --var-file are for manifests, and --orphans reads none: leave them out")
	}
	return nil
}

func destroyOrphans(ctx context.Context, a *app.App, o applyOptions) error {
	if err := refuseWithOrphans(o.lookOptions, o.input.Prune); err != nil {
		return err
	}
	remote, err := o.server(a)
	switch {
	case err != nil:
		return err
	case remote != nil:
		return noOrphans(a, destroyOrphansRemote(ctx, a, o, remote))
	}
	mode, err := prompt.ConfirmMode(a, o.confirm)
	if err != nil {
		return err
	}
	s, err := session.StartOrphans(ctx, a, "destroy", o.input.Targets, o.engine)
	if err != nil {
		return err
	}
	defer s.Close()
	return noOrphans(a, s.Execute(a, mode, o.keepGoing, nil))
}

func planOrphans(ctx context.Context, a *app.App, o planOptions) error {
	if !o.input.Removing {
		return exit.Usage("plan --orphans shows what a destroy would remove: say --destroy, too")
	}
	if o.saving {
		return exit.Usage("a plan of --orphans cannot be saved: leave -o out, and run \"deployster destroy --orphans\"")
	}
	if err := refuseWithOrphans(o.lookOptions, o.input.Prune); err != nil {
		return err
	}
	remote, err := o.sent.remote(a)
	switch {
	case err != nil:
		return err
	case remote != nil:
		return noOrphans(a, planOrphansRemote(ctx, a, o, remote))
	}
	s, err := session.StartOrphans(ctx, a, "plan", o.input.Targets, o.engine)
	if err != nil {
		return err
	}
	held, err := runs.Watch(s.Control)
	if err != nil {
		s.Close()
		return err
	}
	l := &look{s, held, a.Report("plan")}
	defer l.end()
	s.Caller.Observer, s.Caller.Absence = l.report.Observer, held.Gone
	l.Spec.KeepGoing = true
	with, err := l.Runner(l.Ctx)
	if err != nil {
		return noOrphans(a, l.Interrupted(errors.Join(err, l.report.Close())))
	}
	plan, err := l.Plan(l.Ctx, with)
	err = l.show(err, plan != nil, func(lines *view.JSON) { lines.Plan(plan) }, func() error { return view.Plan(a.Out, plan, a.PlanOptions(a.Out)) })
	if err == nil && o.detailed && plan.Changes() {
		return exit.Reported(exit.ErrChanges)
	}
	return l.Interrupted(err)
}

// orphansOf are the orphans of a server that a command is about.
func orphansOf(a *app.App, o lookOptions) proposal.Run {
	return proposal.Run{Orphans: true, Destroy: true, Targets: o.input.Targets, Verbose: a.Verbose}
}

// destroyOrphansRemote has a server remove orphans: those that its plan shows, and no others.
func destroyOrphansRemote(ctx context.Context, a *app.App, o applyOptions, remote *client.Client) error {
	mode, err := o.confirmWhole(a, "destroy")
	if err != nil {
		return err
	}
	asked := orphansOf(a, o.lookOptions)
	asked.KeepGoing = o.keepGoing
	screen := &output.Screen{}
	if mode == runner.ConfirmOnce || !a.JSON() {
		screen = a.OpenScreen("plan")
	}
	plan, id, err := planned(ctx, a, remote, asked, screen)
	err = errors.Join(err, screen.Close())
	switch {
	case err != nil && plan != nil:
		return errors.Join(view.Plan(a.Err, plan, a.PlanOptions(a.Err)), err)
	case err == nil && mode == runner.ConfirmOnce && plan.Changes():
		err = askFor(ctx, a, plan)
	}
	if err != nil {
		return err
	}
	asked.Plan = id
	return carryOut(ctx, a, o, "destroy", remote, asked)
}

func planOrphansRemote(ctx context.Context, a *app.App, o planOptions, remote *client.Client) error {
	if err := o.sent.check(); err != nil {
		return err
	}
	plan, _, err := showPlanned(ctx, a, remote, orphansOf(a, o.lookOptions), a.Report("plan"))
	if err == nil && o.detailed && plan.Changes() {
		return exit.Reported(exit.ErrChanges)
	}
	return err
}

// noOrphans makes a sentence of it that there is nothing to remove.
func noOrphans(a *app.App, err error) error {
	var unknown *managed.UnknownTargetError
	switch {
	case errors.Is(err, apply.ErrNoOrphans):
		return a.Ended("No orphan is to be removed.")
	case errors.As(err, &unknown):
		return exit.Usage("%w", err)
	}
	return err
}
