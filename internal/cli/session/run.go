// Package session is one command at work on manifests: its inputs, its engine and
// its log, opened in an order in which errors of the user come first.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/control/gc"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/inits"
	"github.com/deployster-go/deployster/runner/report"
)

// Started is a run of a command that has everything it needs to run containers.
type Started struct {
	*apply.Run
	Ctx     context.Context
	signals *interrupt.Signals
	log     deploylog.Log
	now     func() time.Time

	maxWorkAll int64 // see work.Config
}

// config is what all runs of a command have in common.
func config(a *app.App, log deploylog.Log, input Flags, f engines.Flags) (work.Config, error) {
	policy, err := f.Policy()
	texts, noLog := a.Texts()
	traced, wrong := a.Traces()
	c := work.Config{
		Inputs: Inputs(a, input), Log: log, Machine: engines.Machine(), Texts: texts, Protected: a.Protected(), InitCache: engines.InitCache(a, f), InitAnswers: &inits.Answers{}, Parallelism: a.Global.Parallelism, Pull: policy,
		Network: f.Network, Memory: int64(f.Memory), Pids: f.Pids, MaxWork: int64(f.MaxWork), MaxWorkAll: int64(f.MaxWorkAll), Notice: func(string) {}, Crashed: a.Crashes.Add,
	}
	if traced != nil {
		c.Trace = func(details map[string]string, place string) work.Trace { return traced.Run(details, place) }
	}
	return c, cmp.Or(err, noLog, wrong)
}

// Start loads the input and connects to engine and log.
func Start(ctx context.Context, a *app.App, command string, files []string, flags Flags, ef engines.Flags, confirm runner.ConfirmMode) (_ *Started, err error) {
	ef.Locked = flags.Locked
	config, err := config(a, nil, flags, ef)
	if err != nil {
		return nil, err
	}
	if err := a.CheckParallelism(); err != nil {
		return nil, err
	}
	// Problems of a manifest are reported before an engine is looked for; only
	// whether plugs exist depends on whose files the engine sees.
	in, err := LoadAndWarn(a, files, flags, confirm)
	if err != nil {
		return nil, err
	}
	if command == "plan" && !flags.Removing || command == "apply" {
		if err := in.Conflicts(); err != nil {
			return nil, err
		}
	}
	s := &Started{Run: &apply.Run{Run: &work.Run{Input: in}}, now: a.Now, maxWorkAll: config.MaxWorkAll}
	s.Ctx, s.signals = interrupt.Handle(ctx, a.Notice)
	defer func() {
		if err != nil {
			err = s.Interrupted(err)
			s.Close()
		}
	}()
	if err := s.openExisting(a, files, &ef); err != nil {
		return nil, err
	}
	if s.Connection, err = engines.Connect(s.Ctx, a, a.Notices(), ef); err != nil {
		return nil, err
	}
	engines.Note(a, s.Connection)
	if err := s.CheckPlugs(in.Manifest); err != nil {
		return nil, err
	}
	if s.log == nil {
		if s.log, err = a.OpenLog(s.Ctx, a.Notices()); err != nil {
			return nil, err
		}
	}
	config.Log, config.Notice = s.log, func(text string) { a.Notice("note: " + text) }
	s.Run = apply.Prepare(&config, in, s.Connection, apply.Order{Command: command, Files: files, Removing: flags.Removing, Prune: flags.Prune, Stop: s.signals.Stop})
	if flags.Removing {
		NoteDependents(a, in, flags.Targets)
	}
	return s, nil
}

// NoteDependents names what is removed with the targets because it depends on
// them.
func NoteDependents(a *app.App, in *work.Input, targets []string) {
	along := slices.DeleteFunc(slices.Clone(in.Remove), func(name string) bool { return slices.Contains(targets, name) })
	if len(along) > 0 {
		a.Notice("note: what depends on " + strings.Join(targets, ", ") + " is removed, too: " + strings.Join(along, ", "))
	}
}

// openExisting opens the log, where there is one, before an engine is chosen: dead
// runs are abandoned, and auto learns which engine one of them used.
func (s *Started) openExisting(a *app.App, files []string, ef *engines.Flags) error {
	log, err := a.OpenExisting(s.Ctx, a.Notices())
	if errors.Is(err, app.ErrNoLog) {
		if len(ef.Abandon) > 0 {
			return exit.Usage("--abandon %s: %w, so no run can be held", ef.Abandon[0], err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	s.log = log
	return s.preferEngine(files, ef)
}

// preferEngine has dead runs be abandoned, and auto learn which engine one of them used.
func (s *Started) preferEngine(files []string, ef *engines.Flags) (err error) {
	if err := engines.Abandon(s.Ctx, s.log, ef.Abandon); err != nil || !ef.Changes {
		return err
	}
	ef.Unfinished, err = engines.Preferred(s.Ctx, s.log, runs.RunTarget(s.Workspace, files))
	return err
}

// Close closes what was opened.
func (s *Started) Close() {
	if s.log != nil {
		if !s.signals.Interrupted() {
			// At worst it stays: a command does not fail of what old runs left.
			_ = gc.Sometimes(s.Ctx, s.log, filepath.Join(s.Workspace, engine.StateDir), s.Input.Run, s.maxWorkAll, s.now())
		}
		_ = s.log.Close()
	}
	if s.Connection != nil {
		_ = s.Engine.Close()
	}
	s.signals.Done()
}

// Interrupted marks an error as an interruption when a signal caused it.
func (s *Started) Interrupted(err error) error {
	if err != nil && s.signals.Interrupted() && !errors.Is(err, runner.ErrInterrupted) {
		return fmt.Errorf("%w: %w", runner.ErrInterrupted, err)
	}
	return err
}

// Reported marks the error of an apply as reported where its events did so.
func (s *Started) Reported(err error) error {
	if apply.Told(err) {
		return exit.Reported(err)
	}
	return err
}

// Execute executes what a command has started with: an apply or a destroy. Where
// somebody is asked, the plan is shown first: the one that was saved, or, without, one
// that is made now.
func (s *Started) Execute(a *app.App, mode runner.ConfirmMode, keepGoing bool, saved *report.Plan) error {
	var out *output.Screen // once there is nobody left to ask
	err := s.Run.Execute(s.Ctx, mode, keepGoing, func(r *runner.Runner) error {
		questions := prompt.New(a)
		questions.Each = mode == runner.ConfirmAction
		if mode != runner.ConfirmNo {
			if err := s.confirmPlan(a, r, questions, saved); err != nil {
				return err
			}
		}
		out = a.OpenScreen(s.Caller.Details["command"])
		s.Caller.Observer, s.Caller.Confirmer = out, questions
		return nil
	})
	if out == nil {
		return s.Interrupted(err)
	}
	return s.Reported(errors.Join(err, out.Close()))
}

// confirmPlan shows the plan before questions are asked, and in the mode ONCE
// asks for it. A plan without changes needs no answer; should something change
// before it is applied, that is asked for.
func (s *Started) confirmPlan(a *app.App, r *runner.Runner, questions *prompt.Prompt, plan *report.Plan) (err error) {
	out := a.OpenScreen("plan")
	s.Caller.Observer = out
	if plan == nil {
		plan, err = s.Plan(s.Ctx, r)
	}
	err = errors.Join(err, out.Close())
	questions.Plan = plan
	once := s.Caller.Confirm == runner.ConfirmOnce
	var failed *failure.Error
	switch {
	case errors.As(err, &failed) && plan != nil && s.Spec.KeepGoing && !once:
		// What failed will fail again; what does not depend on it goes on.
	case err != nil && plan != nil:
		return errors.Join(view.Plan(a.Err, plan, a.PlanOptions(a.Err)), s.Reported(err))
	case err != nil:
		return err
	case !plan.Changes():
		if once {
			s.Caller.Confirm = runner.ConfirmResource
		}
		return nil
	}
	if !once {
		return view.Plan(a.Out, plan, a.PlanOptions(a.Out))
	}
	ctx, cancel := s.signals.Context(s.Ctx)
	defer cancel()
	yes, err := questions.ConfirmPlan(ctx)
	if err == nil && !yes {
		return errors.New("declined: nothing was changed")
	}
	return err
}
