package runner

import (
	"context"
	"errors"
)

// Plan discovers the state of every resource and says what an Apply would do.
// It runs no action and records nothing. A resource that depends on one that
// is not VALID is not asked: until that one is applied, its state, and with it
// everything that depends on it, is not known.
//
// Plan fails when Prepare does, or when any resource failed; the Plan it
// returns then tells which.
func (r *Runner) Plan(ctx context.Context) (*Plan, error) {
	if err := r.Prepare(ctx); err != nil {
		return nil, err
	}
	plan := &Plan{Run: r.Run, Resources: make([]ResourcePlan, len(r.resources))}
	entries := map[string]*ResourcePlan{}
	for i, res := range r.resources {
		plan.Resources[i] = ResourcePlan{Name: res.Name, Type: res.Type, DependsOn: res.dependsOn, Status: Pending}
		entries[res.Name] = &plan.Resources[i]
	}
	failures := make(chan error, len(r.resources))
	r.walk(ctx, func(res *resource) error {
		entry := entries[res.Name]
		for _, d := range res.dependsOn {
			if entries[d].Status != Valid {
				entry.Status = Unknown
				entry.After = append(entry.After, d)
			}
		}
		if entry.Status == Unknown {
			r.show(Event{Kind: ResourceResolved, Time: r.Now(), Resource: res.Name, Status: Unknown})
			return nil
		}
		if err := r.planOne(ctx, res, entry); err != nil {
			entry.Status, entry.Error = Failed, r.secrets.mask(err.Error())
			r.show(Event{Kind: ResourceFailed, Time: r.Now(), Resource: res.Name, Status: Failed, Error: entry.Error})
			failures <- err
			return err
		}
		return nil
	}, func(res *resource, reason string) {
		entries[res.Name].Status, entries[res.Name].Error = Skipped, reason
		r.show(Event{Kind: ResourceSkipped, Time: r.Now(), Resource: res.Name, Status: Skipped, Error: reason})
	})
	close(failures)
	return plan, r.verdict(ctx, failures)
}

func (r *Runner) planOne(ctx context.Context, res *resource, entry *ResourcePlan) error {
	started := r.Now()
	r.show(Event{Kind: ResourceStarted, Time: started, Resource: res.Name})
	if err := r.resolve(res); err != nil {
		return err
	}
	out, err := r.observe(ctx, res)
	if err != nil {
		return err
	}
	entry.Status = Status(out.Status)
	event := Event{Kind: ResourceResolved, Resource: res.Name, Status: entry.Status, Duration: r.Now().Sub(started)}
	if entry.Status == Valid {
		res.state = out.State
		entry.State, _ = r.secrets.value(out.State).(map[string]any)
	} else {
		entry.Exists = out.StaleState != nil
		entry.ReadOnly = res.ReadOnly
		entry.Diff = difference(out.StaleState, res.config, res.hidden)
		for _, a := range out.Actions {
			event.Actions = append(event.Actions, a.Name)
			entry.Actions = append(entry.Actions, r.secrets.action(a))
		}
	}
	r.maskChanges(entry.Diff)
	event.Time = r.Now()
	r.show(event)
	return nil
}

func (r *Runner) maskChanges(changes []Change) {
	for i := range changes {
		changes[i].Old = r.secrets.value(changes[i].Old)
		changes[i].New = r.secrets.value(changes[i].New)
	}
}

// verdict is the error of a walk: an interruption before anything else, then
// what was invalid, then what failed.
func (r *Runner) verdict(ctx context.Context, failures <-chan error) error {
	var all []error
	for err := range failures {
		all = append(all, err)
	}
	if r.stopped() || ctx.Err() != nil {
		return ErrInterrupted
	}
	if len(all) == 0 {
		return nil
	}
	return &FailedError{Causes: all}
}

// FailedError says that some resources failed; the events and the plan or
// result have told which and why.
type FailedError struct{ Causes []error }

func (e *FailedError) Error() string   { return errors.Join(e.Causes...).Error() }
func (e *FailedError) Unwrap() []error { return e.Causes }
