package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/invoke"
)

// Result is the result of an Apply or a Destroy.
type Result struct {
	Run       string
	Resources []ResourceResult // in graph order
	Counts    Counts
	Duration  time.Duration
}

// ResourceResult is the result of an Apply or a Destroy for one resource.
type ResourceResult struct {
	Name     string
	Type     string
	Status   Status     // of an Apply Unchanged or Changed, of a Destroy Absent or Destroyed; Failed or Skipped
	Reason   ReasonCode // why it Failed or was Skipped
	Error    string     // the same as a sentence
	Duration time.Duration
}

// Apply brings every resource to its configuration, in dependency order, and
// records each step before it relies on it. It fails with a *manifest.Error
// when it refused before touching anything, with ErrInterrupted when it was
// stopped, and with a *FailedError when resources failed.
func (r *Runner) Apply(ctx context.Context, caller Caller) (*Result, error) {
	r.caller = caller
	return r.execute(ctx, r.resources, r.prepare, skip{Code: ReasonRunRefused}, r.applyAll)
}

// execute runs an operation on resources and records it from its start to its end.
// Where prepare refuses, the resources that it did not refuse are skipped, with the
// reason untried.
func (r *Runner) execute(ctx context.Context, resources []*resource, prepare func(context.Context) error, untried skip,
	run func(context.Context, map[string]*ResourceResult) error,
) (*Result, error) {
	started := r.now()
	result := &Result{Run: r.containers.Run, Resources: make([]ResourceResult, len(resources))}
	entries := map[string]*ResourceResult{}
	for i, res := range resources {
		result.Resources[i] = ResourceResult{Name: res.Name, Type: res.Type, Status: Pending}
		entries[res.Name] = &result.Resources[i]
	}
	r.applying = true
	if err := r.begin(ctx); err != nil {
		return result, err
	}
	err := r.panics.Try("preparing the run", func() error { return prepare(ctx) })
	if err == nil {
		err = r.panics.Try("walking the resources", func() error { return run(ctx, entries) })
	} else {
		for _, res := range resources {
			entry := entries[res.Name]
			if res.refused != nil {
				entry.Status, entry.Reason, entry.Error = Failed, reasonOf(res.refused), r.secrets.Mask(res.refused.Error())
				continue
			}
			entry.Status, entry.Reason, entry.Error = Skipped, untried.Code, untried.Error()
			err = errors.Join(err, r.emit(ctx, skipped(res, untried)))
		}
	}
	err = r.panics.Join(err)
	for _, res := range result.Resources {
		result.Counts.add(res.Status)
	}
	result.Duration = r.now().Sub(started)
	end := Event{Kind: RunFinished, Counts: result.Counts, Duration: result.Duration}
	if err != nil {
		end.Kind, end.Error = RunFailed, err.Error()
		if errors.Is(err, ErrInterrupted) {
			end.Data = map[string]string{"interrupted": "true"}
		}
	}
	// A run whose recorder failed ends with that failure.
	if recording := r.emit(ctx, end); recording != nil {
		err = recording
	}
	return result, err
}

// begin records the start and, where a Plan came first, what it prepared.
func (r *Runner) begin(ctx context.Context) error {
	if err := r.emit(ctx, Event{Kind: RunStarted, Resources: r.headers(), Data: r.caller.Details}); err != nil {
		return err
	}
	if !r.prepared {
		return nil
	}
	for _, res := range r.resources {
		if err := r.emit(ctx, res.initialized); err != nil {
			return err
		}
	}
	return nil
}

func (c *Counts) add(s Status) {
	switch s {
	case Changed, Destroyed:
		c.Changed++
	case Unchanged, Absent:
		c.Unchanged++
	case Failed:
		c.Failed++
	default:
		c.Skipped++
	}
}

func (r *Runner) applyAll(ctx context.Context, entries map[string]*ResourceResult) error {
	return r.visitEach(ctx, r.walk, entries, r.applyOne)
}

// walker visits resources, as Runner.walk does.
type walker func(ctx context.Context, visit func(*resource) error, skipped func(*resource, skip))

// visitEach runs an operation on every resource of a walk, and records its result.
func (r *Runner) visitEach(ctx context.Context, walk walker, entries map[string]*ResourceResult,
	run func(context.Context, *resource) (Status, error),
) error {
	failures := make(chan error, len(r.resources))
	var mu sync.Mutex // entries are written by visits and by the walk
	end := func(res *resource, status Status, why error, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		entry := entries[res.Name]
		entry.Status, entry.Duration = status, took
		if why != nil {
			entry.Reason, entry.Error = reasonOf(why), r.secrets.Mask(why.Error())
		}
	}
	walk(ctx, func(res *resource) error {
		started := r.now()
		status, err := guarded(ctx, r, res, "working on", run)
		took := r.now().Sub(started)
		if why := (skip{}); errors.As(err, &why) {
			end(res, Skipped, why, took)
			return r.emit(ctx, skipped(res, why))
		}
		if err == nil {
			err = r.emit(ctx, Event{Kind: ResourceFinished, Resource: res.Name, Status: status, Duration: took})
		} else {
			event := failed(res, err)
			event.Duration = took
			err = errors.Join(err, r.emit(ctx, event))
		}
		if err != nil {
			end(res, Failed, err, took)
			failures <- fmt.Errorf("%s: %w", res.Name, err)
			return err
		}
		end(res, status, nil, took)
		return nil
	}, func(res *resource, why skip) {
		end(res, Skipped, why, 0)
		if err := r.emit(ctx, skipped(res, why)); err != nil {
			failures <- err
		}
	})
	close(failures)
	return r.verdict(ctx, failures)
}

// applyOne brings one resource to its configuration.
func (r *Runner) applyOne(ctx context.Context, res *resource) (Status, error) {
	leave, err := r.enter(ctx, res)
	if err != nil {
		return Failed, err
	}
	defer leave()
	if err := r.emit(ctx, Event{Kind: ResourceStarted, Resource: res.Name}); err != nil {
		return Failed, err
	}
	if err := r.resolve(res); err != nil {
		return Failed, err
	}
	out, err := r.observe(ctx, res)
	if err != nil {
		return Failed, err
	}
	resolved := Event{Kind: ResourceResolved, Resource: res.Name, Status: Status(out.Status)}
	for _, a := range out.Actions {
		resolved.Actions = append(resolved.Actions, a.Name)
	}
	if err := r.emit(ctx, resolved); err != nil {
		return Failed, err
	}
	if err := r.bound(res, &out); err != nil {
		return Failed, err
	}
	if out.Status == protocol.Valid {
		res.state = out.State
		return Unchanged, nil
	}
	defer res.target.Discard()
	if err := r.runActions(ctx, res, out); err != nil {
		return Failed, err
	}
	return Changed, r.verify(ctx, res)
}

// enter waits until this run may work on a resource.
func (r *Runner) enter(ctx context.Context, res *resource) (leave func(), err error) {
	if r.caller.Guard == nil {
		return func() {}, nil
	}
	entering, cancel := r.containers.Stop.Context(ctx)
	defer cancel()
	leave, err = r.caller.Guard.Enter(entering, res.Name, func(text string) { r.notify(Waiting, res.Name, "", text) })
	if err != nil {
		return nil, r.containers.Stop.Interrupted(ctx, fmt.Errorf("waiting for its turn: %w", err))
	}
	return leave, nil
}

// differs lists how a stale resource is not as configured. One that is to be
// removed is not held against its configuration.
func (r *Runner) differs(res *resource, out protocol.StateOutput) []Change {
	if res.ensure == protocol.Absent {
		return nil
	}
	diff := difference(out.StaleState, res.config, res.target.Secret)
	r.maskChanges(diff)
	return diff
}

// runActions runs the actions of a stale resource, in order, as far as a person
// agrees.
func (r *Runner) runActions(ctx context.Context, res *resource, out protocol.StateOutput) error {
	diff := r.differs(res, out)
	if res.ReadOnly {
		return fmt.Errorf("%w:\n%s", errReadOnly, DiffText(diff))
	}
	if r.confirm(res) == ConfirmResource {
		if err := r.ask(ctx, res, diff, out.Actions...); err != nil {
			return err
		}
	}
	stale := out.StaleState
	if stale == nil {
		stale = map[string]any{}
	}
	ids := r.distinct(out.Actions)
	for i, a := range out.Actions {
		if r.containers.Stop.Requested() || ctx.Err() != nil {
			return fmt.Errorf("%w before action %q", ErrInterrupted, ids[i])
		}
		if r.confirm(res) == ConfirmAction {
			if i > 0 {
				diff = nil
			}
			if err := r.ask(ctx, res, diff, a); err != nil {
				return err
			}
		}
		// What follows, if all goes well, is made ready while this runs.
		next := r.stateCall(res)
		if i+1 < len(out.Actions) {
			next = r.actionCall(res, out.Actions[i+1], ids[i+1], stale)
		}
		res.target.Next = &next
		if err := r.runAction(ctx, res, a, ids[i], stale); err != nil {
			return err
		}
	}
	return nil
}

// distinct names actions, each by another name: an event is one of a kind by the
// name of its action, and what is run twice is no second attempt. The second "set"
// is "set#2". As files and labels have these names, too, no secret is in them.
func (r *Runner) distinct(actions []protocol.Action) []string {
	names := make([]string, len(actions))
	taken := map[string]bool{}
	for i, a := range actions {
		names[i] = r.secrets.MaskAction(a).Name
		taken[names[i]] = true
	}
	seen := map[string]bool{}
	ids := make([]string, len(actions))
	for i, name := range names {
		id := name
		for n := 2; seen[name] && taken[id]; n++ {
			id = fmt.Sprintf("%s#%d", name, n)
		}
		ids[i], seen[name], taken[id] = id, true, true
	}
	return ids
}

// runAction runs one action.
func (r *Runner) runAction(ctx context.Context, res *resource, a protocol.Action, id string, stale map[string]any) error {
	event := Event{Kind: ActionStarted, Resource: res.Name, Action: id, Attempt: 1, Plan: &a}
	var got invoke.Result
	err := r.emit(ctx, event)
	switch {
	case err == nil:
		got, err = r.invoker.Call(ctx, &res.target, r.actionCall(res, a, id, stale))
	case len(crash.All(err)) == 0:
		return err // and so it is not recorded
	}
	event.Plan, event.Duration = nil, got.Duration
	if err == nil {
		event.Exit = &got.Exit.Code
		if got.Exit.Code != 0 {
			err = fmt.Errorf("action %q %s", id, invoke.ExitText(got.Exit))
			if reason := got.Tail.Reason(); reason != "" {
				err = fmt.Errorf("%w: %s", err, reason)
			}
			err = &reasonError{ReasonActionFailed, err}
		}
	} else {
		err = fmt.Errorf("action %w", err)
	}
	if err != nil {
		event.Kind, event.Error, event.Output = ActionFailed, err.Error(), got.Tail.Lines()
		return errors.Join(err, r.emit(ctx, event))
	}
	event.Kind = ActionFinished
	return r.emit(ctx, event)
}

func (r *Runner) actionCall(res *resource, a protocol.Action, id string, stale map[string]any) invoke.Call {
	return invoke.Call{
		Action: id, TypeAction: a.Name, Attempt: 1, Invocation: a.Invocation,
		Input: protocol.ActionInput{StateInput: r.stateInput(res), StaleState: stale},
	}
}

// verify runs the state action once more; only VALID will do. Of what is to be
// removed that says that it is gone.
func (r *Runner) verify(ctx context.Context, res *resource) error {
	if r.containers.Stop.Requested() || ctx.Err() != nil {
		return fmt.Errorf("%w before it was verified", ErrInterrupted)
	}
	out, err := r.observe(ctx, res)
	if err != nil {
		return fmt.Errorf("verifying: %w", err)
	}
	removing := res.ensure == protocol.Absent
	switch {
	case out.Status != protocol.Valid && removing:
		return &reasonError{ReasonNotConverged, fmt.Errorf("all its actions succeeded, and yet it is still there: state asks for %s%s", r.requested(out.Actions), lastOutput(res))}
	case out.Status != protocol.Valid:
		text := "all its actions succeeded, and yet state answers STALE and asks for " + r.requested(out.Actions)
		if diff := r.differs(res, out); len(diff) > 0 || len(res.output) == 0 {
			text += ":\n" + DiffText(diff)
		}
		return &reasonError{ReasonNotConverged, errors.New(text + lastOutput(res))}
	case removing:
		return r.emit(ctx, Event{Kind: ResourceDestroyed, Resource: res.Name, Status: Absent})
	}
	res.state = out.State
	return r.emit(ctx, Event{Kind: ResourceVerified, Resource: res.Name, Status: Valid})
}

// requested lists what state still asks for, and why.
func (r *Runner) requested(actions []protocol.Action) string {
	var b strings.Builder
	for i, a := range actions {
		a = r.secrets.MaskAction(a)
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", a.Name)
		if a.Description != "" {
			fmt.Fprintf(&b, " (%s)", a.Description)
		}
	}
	return b.String()
}

// lastOutput is what the state action of a resource printed last for people.
func lastOutput(res *resource) string {
	var b strings.Builder
	for _, line := range res.output {
		b.WriteString("\n  │ " + line)
	}
	return b.String()
}

// errDeclined ends a resource that a person does not want changed.
var errDeclined = errors.New("declined")

func (r *Runner) ask(ctx context.Context, res *resource, diff []Change, actions ...protocol.Action) error {
	shown := make([]protocol.Action, len(actions))
	for i, a := range actions {
		shown[i] = r.secrets.MaskAction(a)
	}
	r.notify(Waiting, res.Name, "", "waits for your answer")
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
		return errDeclined
	}
	return nil
}
