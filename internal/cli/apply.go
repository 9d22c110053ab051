package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// patience is how long an action that a dead run left running is waited for.
const patience = 10 * time.Minute

type applyOptions struct {
	files     []string
	input     inputFlags
	engine    engineFlags
	confirm   string
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

Before anything is changed you are asked; --confirm says how often:
  NO        never (needed where there is no terminal)
  ONCE      once, with the plan at hand
  RESOURCE  for each resource that is to be changed
  ACTION    for each action (the default)

Interrupt once to let running actions finish and start nothing new; twice to
kill them.

Exit codes: 0 applied, 1 failed, 3 wrong usage or invalid input (nothing was
touched), 130 interrupted.`,
		Example: `  deployster apply web.yaml
  deployster apply base.yaml prod.yaml --confirm ONCE --var tag=1.2
  deployster apply web.yaml --confirm NO --target db --keep-going
  deployster apply web.plan`,
		Args: manifests,
		RunE: func(c *cobra.Command, args []string) error {
			o.files = args
			return a.apply(c.Context(), o)
		},
	}
	o.input.register(c)
	o.engine.register(c)
	o.engine.registerCache(c)
	c.Flags().StringVarP(&o.confirm, "confirm", "c", string(runner.ConfirmAction), "when to ask: NO, ONCE, RESOURCE or ACTION")
	c.Flags().BoolVar(&o.keepGoing, "keep-going", false, "after a failure, go on with what does not depend on it")
	_ = c.RegisterFlagCompletionFunc("confirm", cobra.FixedCompletions([]string{"NO", "ONCE", "RESOURCE", "ACTION"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// manifests is the check of arguments of commands that need manifests.
func manifests(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("which manifest? usage: %s (see %q)", c.UseLine(), c.CommandPath()+" --help")
	}
	return nil
}

func parseConfirm(text string) (runner.ConfirmMode, error) {
	switch mode := runner.ConfirmMode(strings.ToUpper(text)); mode {
	case runner.ConfirmNo, runner.ConfirmOnce, runner.ConfirmResource, runner.ConfirmAction:
		return mode, nil
	default:
		return "", usage("--confirm %s: it must be NO, ONCE, RESOURCE or ACTION", text)
	}
}

func (a *app) confirmMode(text string, asJSON bool) (runner.ConfirmMode, error) {
	mode, err := parseConfirm(text)
	if err != nil || mode == runner.ConfirmNo {
		return mode, err
	}
	if asJSON {
		return "", usage("--output json asks no questions: say --confirm NO to go on without them")
	}
	if !a.canAsk() {
		return "", usage("there is no terminal to ask for confirmation (--confirm %s): say --confirm NO to go on without questions", mode)
	}
	return mode, nil
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
	s, err := a.start(ctx, "apply", o.files, o.input, o.engine, string(mode))
	if err != nil {
		return err
	}
	defer s.close()
	return a.carryOut(s, (*runner.Runner).Apply, mode, o.keepGoing, asJSON, func(s *started, r *runner.Runner) error {
		return a.confirmPlan(s, r, r.Plan)
	})
}

// carryOut does what a command has started with: an apply or a destroy. In the
// mode ONCE it calls once before that.
func (a *app) carryOut(s *started, do func(*runner.Runner, context.Context) (*runner.Result, error), mode runner.ConfirmMode, keepGoing, asJSON bool, once func(*started, *runner.Runner) error) error {
	held, err := control.Begin(s.ctx, s.control)
	if err != nil {
		return s.interrupted(err)
	}
	defer held.End()
	s.runner.Recorder, s.runner.Guard, s.runner.Confirm, s.runner.KeepGoing = held, held, mode, keepGoing
	s.runner.Gone = held.Gone
	r := runner.New(s.runner)
	if mode == runner.ConfirmOnce {
		if err := once(s, r); err != nil {
			return s.interrupted(err)
		}
	}
	out, closeScreen := a.screen(a.out, s.runner.Details["command"], asJSON)
	s.news.show(out)
	r.Observer, r.Confirmer = out, a.prompt(out)
	_, err = do(r, s.ctx)
	if broken := closeScreen(); broken != nil {
		err = errors.Join(err, broken)
	}
	return s.toldUnless(err)
}

// confirmPlan makes a plan and asks for it. A plan without changes needs no
// answer; should something change before it is applied, that is asked for.
func (a *app) confirmPlan(s *started, r *runner.Runner, look func(context.Context) (*runner.Plan, error)) error {
	out, closeScreen := a.screen(a.out, "plan", false)
	s.news.show(out)
	r.Observer = out
	plan, err := look(s.ctx)
	err = errors.Join(err, closeScreen())
	s.news.show(nil)
	if err != nil {
		if plan != nil {
			err = errors.Join(view.Plan(a.err, plan, a.planOptions(a.err)), s.toldUnless(err))
		}
		return err
	}
	if !plan.Changes() {
		r.Confirm = runner.ConfirmResource
		return nil
	}
	return a.approve(s, plan)
}

// approve shows a plan and asks for it.
func (a *app) approve(s *started, plan *runner.Plan) error {
	ctx, cancel := s.signals.stoppable(s.ctx)
	defer cancel()
	yes, err := a.prompt(nil).ConfirmPlan(ctx, plan)
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
	*input
	ctx     context.Context
	signals *interruption
	news    *news
	runner  runner.Options
	control control.Options
	log     deploylog.Log
	engine  engine.Engine
}

// start loads the input and connects to engine and log.
func (a *app) start(ctx context.Context, command string, files []string, flags inputFlags, ef engineFlags, confirm string) (_ *started, err error) {
	if _, err := ef.policy(); err != nil {
		return nil, err
	}
	if a.global.parallelism < 1 {
		return nil, usage("--parallelism %d: it must be at least 1", a.global.parallelism)
	}
	// What is wrong in a manifest is told before an engine is looked for; only
	// whether plugs exist depends on whose files the engine sees.
	in, err := a.load(files, flags, confirm)
	if err != nil {
		return nil, err
	}
	s := &started{input: in, news: &news{fallback: a.err}}
	s.ctx, s.signals = interruptible(ctx, s.news.tell)
	defer func() {
		if err != nil {
			err = s.interrupted(err)
			s.close()
		}
	}()
	e, info, err := a.openEngine(s.ctx, s.news, ef)
	if err != nil {
		return nil, err
	}
	s.engine = e
	if !info.Remote {
		if err := in.manifest.CheckPlugs(); err != nil {
			return nil, &usageError{err}
		}
	}
	images, err := a.images(e, info, ef)
	if err != nil {
		return nil, err
	}
	if s.log, err = a.openLog(s.ctx, in.workspace, s.news); err != nil {
		return nil, err
	}
	a.equip(s, command, files, ef, info, images)
	s.runner.Stop = s.signals.stop
	return s, nil
}

// equip makes the options of a run of what a command has started with.
func (a *app) equip(s *started, command string, files []string, ef engineFlags, info engine.Info, images *shipped.Images) {
	in := s.input
	s.control = control.Options{
		Log: s.log, Engine: s.engine, ID: in.run, Target: control.RunTarget(in.workspace, files), Revision: in.manifest.Hash()[:12],
		Patience: patience, Notice: func(text string) { s.news.tell("note: " + text) },
	}
	s.runner = runner.Options{
		Manifest: in.manifest, Variables: in.variables, Expressions: in.expressions,
		Engine: s.engine, Images: images, InitCache: a.initCache(ef), Parallelism: a.global.parallelism, Pull: engine.PullPolicy(ef.pull),
		Network: ef.network, Memory: int64(ef.memory), Pids: ef.pids, Remote: info.Remote,
		Run: in.run, Log: s.log.ID(), Version: version(), Verbose: a.global.verbose,
		Workspace: in.workspace, Work: in.work, Details: details(command, in, files, info), Now: a.now,
	}
}

// details is what the log tells of a run besides its events.
func details(command string, in *input, files []string, info engine.Info) map[string]string {
	d := map[string]string{
		"command": command, "manifest": strings.Join(files, " "), "manifest_hash": in.manifest.Hash(),
		"engine": info.Name + " " + info.Version, "engine_address": info.Address,
		"plugs": fmt.Sprint(len(in.manifest.Plugs)), "run": in.run, "deployster": version(),
		"workspace": in.workspace, "pid": fmt.Sprint(os.Getpid()),
	}
	if u, err := user.Current(); err == nil {
		d["user"] = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		d["host"] = host
	}
	return d
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
