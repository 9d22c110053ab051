package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/redact"
	"github.com/deployster-go/deployster/runner/report"
)

// differs lists how a stale resource is not as configured. One that is to be
// removed is not held against its configuration.
func (r *Runner) differs(res *resource, out protocol.StateOutput) []diff.Change {
	if res.ensure == protocol.Absent {
		return nil
	}
	changes := diff.Of(out.StaleState, res.asked(), res.target.Secret)
	redact.Changes(r.secrets, changes)
	return changes
}

// runActions runs the actions of a stale resource, in order, as far as a person
// agrees.
func (r *Runner) runActions(ctx context.Context, res *resource, out protocol.StateOutput) error {
	changes := r.differs(res, out)
	if res.ReadOnly {
		return fmt.Errorf("%w:\n%s", failure.ErrReadOnly, diff.Text(changes))
	}
	if err := r.mayLose(res, out.Actions); err != nil {
		return err
	}
	if r.confirm(res) == ConfirmResource {
		if err := r.ask(ctx, res, changes, out.Actions...); err != nil {
			return err
		}
	}
	stale := out.StaleState
	if stale == nil {
		stale = map[string]any{}
	}
	names := make([]string, len(out.Actions))
	for i, a := range out.Actions { // files and labels have these names, too, so no secret is in them
		names[i] = r.secrets.MaskAction(a).Name
	}
	ids := invoke.Distinct(names)
	for i, a := range out.Actions {
		if r.containers.Stop.Requested() || ctx.Err() != nil {
			return fmt.Errorf("%w before action %q", ErrInterrupted, ids[i])
		}
		if r.confirm(res) == ConfirmAction {
			if i > 0 {
				changes = nil
			}
			if err := r.ask(ctx, res, changes, a); err != nil {
				return err
			}
		}
		call := r.actionCall(res, a, ids[i], stale)
		// What follows, if all goes well, is made ready while this runs.
		res.past.Interrupted = false
		next := r.stateCall(res)
		if i+1 < len(out.Actions) {
			next = r.actionCall(res, out.Actions[i+1], ids[i+1], stale)
		}
		res.target.Next = &next
		var made *report.Made
		if i == 0 && res.ensure != protocol.Absent {
			made = r.made(res)
		}
		if err := r.runAction(ctx, res, a, call, made); err != nil {
			return err
		}
	}
	return nil
}

// mayLose refuses actions by which a resource is lost that has prevent_destroy.
func (r *Runner) mayLose(res *resource, actions []protocol.Action) error {
	if !res.PreventDestroy || res.ensure == protocol.Absent {
		return nil // a removal was refused before
	}
	for _, a := range actions {
		if a.Destroys {
			a = r.secrets.MaskAction(a)
			what := "its type would destroy it with the action " + a.Name
			if a.Description != "" {
				what += " (" + a.Description + ")"
			}
			return r.prevented(res, what)
		}
	}
	return nil
}

// runAction runs one action. With the first one that makes something it is recorded what is
// made. What the action has kept is recorded before its end is.
func (r *Runner) runAction(ctx context.Context, res *resource, a protocol.Action, call invoke.Call, made *report.Made) error {
	id := call.Action
	event := res.event(report.ActionStarted)
	if made != nil {
		event.Took = res.took
	}
	event.Action, event.Attempt, event.Plan = id, res.attempt(), &a
	var got invoke.Result
	var kept error
	err := r.emit(ctx, event.With(made))
	switch {
	case err == nil:
		got, err = r.invoker.Call(ctx, &res.target, call)
		if kept = got.BadKeep; kept == nil {
			kept = r.remember(ctx, res, got.Keep)
		}
	case len(crash.All(err)) == 0:
		return err // and so it is not recorded
	}
	event.Plan, event.Duration = nil, got.Duration
	if err == nil {
		event.Exit = &got.Exit.Code
		if got.Exit.Code != 0 {
			err = fmt.Errorf("action %q %s", id, got.Exit)
			if reason := got.Tail.Reason(); reason != "" {
				err = fmt.Errorf("%w: %s", err, reason)
			}
			err = failure.Because(report.ReasonActionFailed, err)
		}
		if kept != nil {
			err = errors.Join(err, fmt.Errorf("action %q: %w", id, kept))
		}
	} else {
		event.Lost = errors.Is(err, engine.ErrLost)
		err = fmt.Errorf("action %w", err)
	}
	if err != nil {
		event.Kind, event.Error, event.Output = report.ActionFailed, err.Error(), got.Tail.Lines()
		return errors.Join(err, r.emit(ctx, event))
	}
	event.Kind = report.ActionFinished
	return r.emit(ctx, event)
}

func (r *Runner) actionCall(res *resource, a protocol.Action, id string, stale map[string]any) invoke.Call {
	return invoke.Call{
		Action: id, TypeAction: a.Name, Attempt: res.attempt(), Invocation: a.Invocation,
		Input: protocol.ActionInput{StateInput: r.stateInput(res), StaleState: stale},
		Keeps: res.init.Keeps, Discreet: res.marksSecrets(),
	}
}

// verify runs the state action once more; only VALID will do. Of what is to be
// removed that says that it is gone.
func (r *Runner) verify(ctx context.Context, res *resource) error {
	if r.containers.Stop.Requested() || ctx.Err() != nil {
		return fmt.Errorf("%w before it was verified", ErrInterrupted)
	}
	out, err := r.askState(ctx, res)
	if err != nil {
		return fmt.Errorf("verifying: %w", err)
	}
	removing := res.ensure == protocol.Absent
	switch {
	case out.Status != protocol.Valid && removing:
		return failure.Because(report.ReasonNotConverged, fmt.Errorf("all its actions succeeded, and yet it is still there: state asks for %s%s", redact.Requested(r.secrets, out.Actions), lastOutput(res)))
	case out.Status != protocol.Valid:
		text := "all its actions succeeded, and yet state answers STALE and asks for " + redact.Requested(r.secrets, out.Actions)
		if changes := r.differs(res, out); len(changes) > 0 || len(res.output) == 0 {
			text += ":\n" + diff.Text(changes)
		}
		return failure.Because(report.ReasonNotConverged, errors.New(text+lastOutput(res)))
	case removing:
		return r.emit(ctx, destroyed(res, report.ResourceDestroyed))
	}
	res.state = out.State
	verified := res.having(report.ResourceVerified, report.Valid)
	if things := out.Things(); len(things) > 0 { // by which others find them, from now on
		var err error
		if res.identity, err = r.identifyNow(res, things); err != nil && r.caller.Owners != nil {
			return err
		}
		verified = verified.With(r.made(res))
	}
	return r.emit(ctx, verified)
}

// lastOutput is what the state action of a resource printed last for people.
func lastOutput(res *resource) string {
	var b strings.Builder
	for _, line := range res.output {
		b.WriteString("\n  │ " + line)
	}
	return b.String()
}

func (r *Runner) ask(ctx context.Context, res *resource, diff []diff.Change, actions ...protocol.Action) error {
	shown := make([]protocol.Action, len(actions))
	for i, a := range actions {
		shown[i] = r.secrets.MaskAction(a)
	}
	r.notify(report.Waiting, res.Name, "", "waits for your answer")
	r.asking.Lock()
	defer r.asking.Unlock()
	ctx, cancel := r.containers.Stop.Context(ctx)
	defer cancel()
	if r.containers.Stop.Requested() || ctx.Err() != nil {
		return ErrInterrupted
	}
	yes, err := r.caller.Confirmer.Confirm(ctx, Question{Resource: res.Name, Type: res.Type, Diff: diff, Actions: shown})
	if err != nil {
		return r.containers.Stop.Interrupted(ctx, err)
	}
	if !yes {
		return failure.ErrDeclined
	}
	return nil
}
