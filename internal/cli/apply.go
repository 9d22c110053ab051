package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

type applyOptions struct {
	files     []string
	input     inputFlags
	engine    engineFlags
	confirm   confirmFlags
	keepGoing bool
}

func (a *app) applyCommand() *cobra.Command {
	var o applyOptions
	c := &cobra.Command{
		Use:   "apply MANIFEST… | PLAN",
		Short: "Bring the resources of manifests to their configuration",
		Long: `Bring the resources of manifests to their configuration.

Every resource's state is discovered; where it is not as configured, the
actions that its type asks for are run, and the state is discovered again to
verify them. Resources are worked on in parallel, each as soon as what it
depends on is verified. Several manifests are merged into one.

PLAN is a file that "plan -o" wrote. Exactly what it says is done, without
questions; what is not as the plan found it is refused, with what differs. You
are asked only about resources that the plan had to leave open.

Before anything is changed the plan is shown, and you are asked; --confirm says
how often:
  NO        never, as --yes says, too; needed where there is no terminal
  ONCE      once, for the whole plan
  RESOURCE  for each resource that is to be changed
  ACTION    for each action (the default)
An answer is y or n, a for all further actions of the resource, p to see the
plan again with whole values, or q to quit: that declines what is asked, lets
running actions finish, and begins nothing more.

Interrupt once to let running actions finish and start nothing new; twice to
kill them.

Exit codes: 0 applied, 1 failed, 3 wrong usage or invalid input (nothing was
touched), 130 interrupted.`,
		Example: `  deployster apply web.yaml
  deployster apply base.yaml prod.yaml --confirm ONCE --var tag=1.2
  deployster apply web.yaml --yes --target db --keep-going
  deployster apply web.plan`,
		Args: manifests,
		RunE: func(c *cobra.Command, args []string) error {
			o.files = args
			return a.apply(c.Context(), o)
		},
	}
	o.input.register(c)
	o.engine.register(c)
	a.registerAll(c)
	o.engine.registerCache(c)
	a.registerFull(c)
	o.confirm.register(c)
	o.engine.registerAbandon(c)
	c.Flags().BoolVar(&o.keepGoing, "keep-going", false, "after a failure, go on with what does not depend on it")
	return c
}

// manifests is the check of arguments of commands that need manifests.
func manifests(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("which manifest? usage: %s (see %q)", c.UseLine(), c.CommandPath()+" --help")
	}
	return nil
}

func (a *app) apply(ctx context.Context, o applyOptions) error {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	saved, err := readSavedPlan(o.files)
	if err != nil {
		return err
	}
	if saved != nil {
		return a.applySaved(ctx, o, saved, asJSON)
	}
	mode, err := a.confirmMode(o.confirm, asJSON)
	if err != nil {
		return err
	}
	s, err := a.start(ctx, "apply", o.files, o.input, o.engine, mode)
	if err != nil {
		return err
	}
	defer s.close()
	return a.carryOut(s, (*runner.Runner).Apply, mode, o.keepGoing, asJSON, (*runner.Runner).Plan)
}

// carryOut does what a command has started with: an apply or a destroy. Where
// somebody is asked, the plan is shown first; look makes it.
func (a *app) carryOut(s *started, do func(*runner.Runner, context.Context, runner.Caller) (*runner.Result, error), mode runner.ConfirmMode, keepGoing, asJSON bool,
	look func(*runner.Runner, context.Context, runner.Caller) (*runner.Plan, error),
) error {
	held, err := runs.Begin(s.ctx, s.control)
	if err != nil {
		return s.interrupted(err)
	}
	defer held.End()
	s.caller.Recorder, s.caller.Guard, s.caller.Confirm, s.spec.KeepGoing = held, held, mode, keepGoing
	s.caller.Gone = held.Gone
	r := runner.New(s.spec, s.containers)
	questions := a.prompt(nil)
	questions.each = mode == runner.ConfirmAction
	if mode != runner.ConfirmNo {
		if err := a.confirmPlan(s, r, questions, look); err != nil {
			return s.interrupted(err)
		}
	}
	out, closeScreen := a.screen(a.out, s.caller.Details["command"], asJSON)
	s.news.show(out)
	questions.screen = out
	s.caller.Observer, s.caller.Confirmer = out, questions
	_, err = do(r, s.ctx, s.caller)
	if broken := closeScreen(); broken != nil {
		err = errors.Join(err, broken)
	}
	return s.toldUnless(err)
}

// confirmPlan shows the plan before questions are asked, and in the mode ONCE
// asks for it. A plan without changes needs no answer; should something change
// before it is applied, that is asked for.
func (a *app) confirmPlan(s *started, r *runner.Runner, questions *prompt, look func(*runner.Runner, context.Context, runner.Caller) (*runner.Plan, error)) error {
	out, closeScreen := a.screen(a.out, "plan", false)
	s.news.show(out)
	s.caller.Observer = out
	plan, err := look(r, s.ctx, s.caller)
	err = errors.Join(err, closeScreen())
	s.news.show(nil)
	questions.plan = plan
	var failed *runner.FailedError
	switch {
	case errors.As(err, &failed) && plan != nil && s.spec.KeepGoing && s.caller.Confirm != runner.ConfirmOnce:
		// What failed will fail again; what does not depend on it goes on.
	case err != nil:
		if plan != nil {
			err = errors.Join(view.Plan(a.err, plan, a.planOptions(a.err)), s.toldUnless(err))
		}
		return err
	case !plan.Changes():
		if s.caller.Confirm == runner.ConfirmOnce {
			s.caller.Confirm = runner.ConfirmResource
		}
		return nil
	}
	if s.caller.Confirm == runner.ConfirmOnce {
		return s.approve(questions)
	}
	return view.Plan(a.out, plan, a.planOptions(a.out))
}

// approve shows the plan and asks for it.
func (s *started) approve(questions *prompt) error {
	ctx, cancel := s.signals.stoppable(s.ctx)
	defer cancel()
	yes, err := questions.ConfirmPlan(ctx, questions.plan)
	if err != nil {
		return err
	}
	if !yes {
		return errors.New("declined: nothing was changed")
	}
	return nil
}

// started is a command that has everything it needs to run containers.
type started struct {
	*work.Input
	ctx        context.Context
	signals    *interruption
	news       *news
	spec       runner.Spec
	containers runner.Containers
	caller     runner.Caller
	control    runs.Options
	log        deploylog.Log
	engine     engine.Engine
}

// start loads the input and connects to engine and log.
func (a *app) start(ctx context.Context, command string, files []string, flags inputFlags, ef engineFlags, confirm runner.ConfirmMode) (_ *started, err error) {
	if _, err := ef.policy(); err != nil {
		return nil, err
	}
	if a.global.parallelism < 1 {
		return nil, usage("--parallelism %d: it must be at least 1", a.global.parallelism)
	}
	// What is wrong in a manifest is told before an engine is looked for; only
	// whether plugs exist depends on whose files the engine sees.
	in, err := a.loadHeeded(files, flags, confirm)
	if err != nil {
		return nil, err
	}
	if command == "plan" && !flags.removing || command == "apply" {
		if err := in.Conflicts(); err != nil {
			return nil, err
		}
	}
	s := &started{Input: in, news: &news{fallback: a.err}}
	s.ctx, s.signals = interruptible(ctx, s.news.tell)
	defer func() {
		if err != nil {
			err = s.interrupted(err)
			s.close()
		}
	}()
	if err := a.unfinished(s, files, &ef); err != nil {
		return nil, err
	}
	on, err := a.connect(s.ctx, s.news, ef)
	if err != nil {
		return nil, err
	}
	s.engine = on.Engine
	if !on.Info.Remote {
		if err := in.Manifest.CheckPlugs(); err != nil {
			return nil, &usageError{err}
		}
	}
	if s.log == nil {
		if s.log, err = a.openLog(s.ctx, in.Workspace, s.news); err != nil {
			return nil, err
		}
	}
	config, err := a.config(s.log, flags, ef)
	if err != nil {
		return nil, err
	}
	config.Notice = func(text string) { s.news.tell("note: " + text) }
	run := config.Prepare(in, on, work.Request{Command: command, Files: files})
	s.control, s.spec, s.containers, s.caller = run.Options, run.Spec, run.Containers, run.Caller
	s.containers.Stop = s.signals.stop
	return s, nil
}

func (s *started) close() {
	if s.log != nil {
		_ = s.log.Close()
	}
	if s.engine != nil {
		_ = s.engine.Close()
	}
	s.signals.done()
}

// interrupted marks an error as an interruption when a signal caused it.
func (s *started) interrupted(err error) error {
	if err != nil && s.signals.count.Load() > 0 && !errors.Is(err, runner.ErrInterrupted) {
		return fmt.Errorf("%w: %w", runner.ErrInterrupted, err)
	}
	return err
}

// toldUnless marks the error of an apply as told where its events did so.
func (s *started) toldUnless(err error) error {
	var failed *runner.FailedError
	var invalid *manifest.Error
	if errors.As(err, &failed) || errors.As(err, &invalid) || errors.Is(err, runner.ErrInterrupted) {
		return told(err)
	}
	return err
}
