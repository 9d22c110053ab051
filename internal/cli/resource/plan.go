package resource

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

// lookOptions are what all commands have that look at the resources of manifests.
type lookOptions struct {
	staticOptions
	engine engines.Flags
}

func (o *lookOptions) register(a *app.App, c *cobra.Command, run func(context.Context) error) {
	o.staticOptions.register(c, run)
	o.engine.Register(c)
	o.engine.RegisterCache(c)
	a.RegisterFull(c)
}

type planOptions struct {
	lookOptions
	detailed bool
	saving   bool   // -o was given
	out      string // its value
	orphans  bool   // of --destroy: what nothing declares any more
	sent     sentOptions
}

type driftOptions struct {
	lookOptions
	sent sentOptions
}

// NewPlanCommand returns the command plan.
func NewPlanCommand(a *app.App) *cobra.Command {
	var o planOptions
	c := &cobra.Command{
		Use:   "plan MANIFEST… | PLAN",
		Short: "Show what an apply would change",
		Long: `Show what an apply would change, and change nothing.

Resource types are initialized and the state of the resources is discovered;
no action is run. A resource that depends on one which is not yet as
configured is "known after apply" of it.

With --destroy it shows what a destroy would remove, and with --destroy --orphans
what "deployster destroy --orphans" would. With --replace it shows
that a resource is removed and made again, and with --prune how what runs made
and the manifests no longer declare is removed; without, that is only listed.

With -o the plan is saved, for "apply FILE" to do exactly that, and nothing
else. The file holds no secrets in clear. Given a saved PLAN instead of
manifests, it is shown as it was made.

The Docker Engine is the one that DOCKER_HOST or DOCKER_CONTEXT names, else that of the
current docker context, as for the docker command. Another one than this machine's is
named on stderr.

Images of types have the content that deployster.lock says, where the workspace has
that file (see "deployster lock"). With --locked an image that it does not have is
refused.

With --server the server plans with its engine what an apply would change there.
A plan that is saved so is applied through the same server.`,
		Example: `  deployster plan web.yaml
  deployster plan web.yaml --detailed-exitcode    # 0 no changes, 1 failed, 2 changes
  deployster plan web.yaml --output json
  deployster plan web.yaml --destroy --target db
  deployster plan web.yaml --prune
  deployster plan web.yaml -o web.plan
  deployster apply web.plan`,
	}
	o.register(a, c, func(ctx context.Context) error {
		o.saving = c.Flags().Changed("out")
		return runPlan(ctx, a, o)
	})
	a.RegisterAll(c)
	o.sent.register(c)
	c.Flags().BoolVar(&o.detailed, "detailed-exitcode", false, "exit with 2 when there are changes")
	c.Flags().BoolVar(&o.input.Removing, "destroy", false, "show what a destroy would remove; --target takes along what depends on it")
	registerOrphans(c, &o.orphans, "with --destroy: what runs made and nothing declares any more")
	o.input.RegisterReplace(c)
	o.input.RegisterLocked(c)
	c.Flags().StringVarP(&o.out, "out", "o", "", "save the plan to this file, for apply")
	return c
}

// NewDriftCommand returns the command drift.
func NewDriftCommand(a *app.App) *cobra.Command {
	var o driftOptions
	c := &cobra.Command{
		Use:   "drift MANIFEST…",
		Short: "Detect configuration drift",
		Long: `Detect configuration drift, and change nothing.

The state of every resource is asked for, also of those that depend on one that
has drifted, and only differences are printed (--all lists every resource). What a resource lists under
"ignore_drift" is no difference; -v shows it, too. A resource whose configuration
needs the state of one that is missing is not known.

With --server the server looks with its engine at what is there.

Exit codes: 0 no drift, 1 failed, 2 something has drifted, 3 wrong usage or
invalid input, 130 interrupted.`,
		Example: `  deployster drift web.yaml
  deployster drift web.yaml --target db --verbose
  deployster drift web.yaml --output json`,
	}
	o.register(a, c, func(ctx context.Context) error { return runDrift(ctx, a, o) })
	a.RegisterAll(c)
	o.sent.register(c)
	return c
}

func runPlan(ctx context.Context, a *app.App, o planOptions) error {
	if o.orphans {
		return planOrphans(ctx, a, o)
	}
	saved, err := readSavedPlan(a, o.files)
	if err != nil {
		return err
	}
	if o.input.Removing && len(o.input.Replace) > 0 {
		return exit.Usage("--replace is for an apply, and --destroy is for a destroy: leave one of them out")
	}
	if saved != nil {
		return showSaved(a, o, saved)
	}
	remote, err := o.sent.remote(a)
	switch {
	case err != nil:
		return err
	case remote != nil:
		return planRemote(ctx, a, o, remote)
	}
	var into *saving
	if o.saving {
		if into, err = o.prepare(a); err != nil {
			return err
		}
		defer into.place.Discard()
	}
	l, err := startLook(ctx, a, "plan", o.lookOptions)
	if err != nil {
		return err
	}
	defer l.end()
	l.Spec.KeepGoing = true
	if o.saving {
		l.Spec.Fingerprint = into.Salt.Fingerprint
		into.Engine = l.Place()
		if into.Log, err = l.LogNow(l.Ctx); err != nil {
			return l.Interrupted(errors.Join(err, l.report.Close()))
		}
	}
	with, err := l.Runner(l.Ctx)
	if err != nil {
		return l.Interrupted(errors.Join(err, l.report.Close()))
	}
	plan, err := l.Plan(l.Ctx, with)
	err = l.show(err, plan != nil,
		func(lines *view.JSON) { lines.Plan(plan) },
		func() error { return view.Plan(a.Out, plan, a.PlanOptions(a.Out)) })
	switch {
	case o.saving && err != nil:
		into.notWritten(a)
	case o.saving:
		err = into.save(a, l.Input, o, plan, l.report)
	}
	if err == nil && o.detailed && plan.Changes() {
		return exit.Reported(exit.ErrChanges)
	}
	return l.Interrupted(err)
}

func runDrift(ctx context.Context, a *app.App, o driftOptions) error {
	remote, err := o.sent.remote(a)
	switch {
	case err != nil:
		return err
	case remote != nil:
		return driftRemote(ctx, a, o, remote)
	}
	l, err := startLook(ctx, a, "drift", o.lookOptions)
	if err != nil {
		return err
	}
	defer l.end()
	with, err := l.Runner(l.Ctx)
	if err != nil {
		return l.Interrupted(errors.Join(err, l.report.Close()))
	}
	l.held.MentionEngine(l.Ctx, l.Owner())
	drift, err := with.Drift(l.Ctx, l.Caller)
	err = l.show(err, drift != nil, func(lines *view.JSON) { lines.Drift(drift) }, func() error {
		return view.Drift(a.Out, drift, view.DriftOptions{PlanOptions: a.PlanOptions(a.Out), Ignored: a.Verbose})
	})
	if err == nil && drift.Drifted() {
		return exit.Reported(exit.ErrChanges)
	}
	return l.Interrupted(err)
}

// look is a command that looks at resources, changes nothing, and reports what it
// saw.
type look struct {
	*session.Started
	held   *runs.Run
	report *output.Screen
}

func startLook(ctx context.Context, a *app.App, command string, o lookOptions) (*look, error) {
	s, err := session.Start(ctx, a, command, o.files, o.input, o.engine, runner.ConfirmNo)
	if err != nil {
		return nil, err
	}
	held, err := runs.Watch(s.Control)
	if err != nil {
		s.Close()
		return nil, err
	}
	l := &look{s, held, a.Report(command)}
	s.Caller.Observer, s.Caller.Absence = l.report.Observer, held.Gone
	return l, nil
}

// show reports what was found, if anything was, also beside an error.
func (l *look) show(err error, found bool, document func(*view.JSON), text func() error) error {
	err = errors.Join(err, l.report.Close())
	if found {
		err = errors.Join(l.Reported(err), l.report.Show(document, text))
	}
	return err
}

func (l *look) end() {
	l.held.End()
	l.Close()
}
