package runner

import (
	"context"
	"errors"
	"slices"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

// Plan discovers the state of every resource and says what an Apply would do.
// It runs no action and records nothing. Of a resource that depends on one that
// is not VALID it is not known what will be needed until that one is applied: what
// can be seen of it before is tentative.
//
// Plan fails where Apply refuses before it touches anything, or when any resource
// failed; the Plan it returns then names them.
func (r *Runner) Plan(ctx context.Context, caller Caller) (_ *report.Plan, err error) {
	r.caller = caller
	defer r.panics.Catch(&err, "planning")
	r.closing = nil
	if err := r.prepareApply(ctx); err != nil {
		return nil, err
	}
	plan := &report.Plan{Run: r.containers.Run, Resources: make([]report.ResourcePlan, len(r.resources)), Undeclared: r.listUndeclared()}
	entries := map[string]*report.ResourcePlan{}
	for i, res := range r.resources {
		plan.Resources[i] = report.ResourcePlan{Name: res.Name, Type: res.Type, DependsOn: res.dependsOn, Status: report.Pending, MadeBy: res.madeBy()}
		entries[res.Name] = &plan.Resources[i]
	}
	failures := make(chan error, len(r.resources))
	r.walk(ctx, func(res *resource) error {
		entry := entries[res.Name]
		for _, d := range res.dependsOn {
			if known := entries[d].Replace && r.byName[d].state != nil && r.replaces(res.Name); entries[d].Status != report.Valid && !known {
				entry.Status = report.Unknown
				entry.After = append(entry.After, d)
			}
		}
		err := r.fillConfiguration(res, entry)
		if err == nil && entry.Status == report.Unknown {
			_, err = guarded(ctx, r, res, "planning", func(ctx context.Context, res *resource) (struct{}, error) {
				return struct{}{}, r.planTentatively(ctx, res, entry)
			})
		}
		if err == nil && entry.Status == report.Unknown {
			r.show(report.Event{Kind: report.ResourceResolved, Time: r.now(), Resource: res.Name, Status: report.Unknown})
			return nil
		}
		if err == nil {
			_, err = guarded(ctx, r, res, "planning", func(ctx context.Context, res *resource) (struct{}, error) {
				return struct{}{}, r.planOne(ctx, res, entry)
			})
		}
		if err != nil {
			r.planned(entry, failed(res, err))
			failures <- err
			return err
		}
		return nil
	}, func(res *resource, why report.Skip) { r.planned(entries[res.Name], skipped(res, why)) })
	r.planPrune(ctx, entries, failures)
	close(failures)
	// Only now all secrets are known: one resource's may stand in another's.
	for i, res := range r.resources {
		r.maskPlan(res, &plan.Resources[i])
	}
	return plan, r.verdict(ctx, failures)
}

func (r *Runner) planOne(ctx context.Context, res *resource, entry *report.ResourcePlan) error {
	started := r.now()
	r.show(report.Event{Kind: report.ResourceStarted, Time: started, Resource: res.Name})
	if err := r.resolve(res); err != nil {
		return err
	}
	if r.replaces(res.Name) {
		if planned, err := r.planReplacement(ctx, res, entry); planned || err != nil {
			return err
		}
	}
	if err := r.recall(ctx, res); err != nil {
		return err
	}
	out, err := r.observe(ctx, res)
	if err != nil {
		return err
	}
	if err := r.fillObservation(res, out, entry); err != nil {
		return err
	}
	event := report.Event{Kind: report.ResourceResolved, Time: r.now(), Resource: res.Name, Status: entry.Status}
	event.Duration = event.Time.Sub(started)
	res.foresee(out)
	switch {
	case entry.Status == report.Valid:
		res.state = out.State
	case res.ReadOnly:
		entry.Actions, entry.ActionsHash = nil, ""
		return errReadOnly
	}
	for _, a := range entry.Actions {
		event.Actions = append(event.Actions, a.Name)
	}
	r.maskEvent(&event)
	r.show(event)
	return nil
}

// planned takes over into the plan, and shows, that a resource failed or is skipped.
func (r *Runner) planned(entry *report.ResourcePlan, e report.Event) {
	e.Time = r.now()
	r.maskEvent(&e)
	entry.Status, entry.Reason, entry.Error = e.Status, e.Reason, e.Error
	r.show(e)
}

// errReadOnly ends a resource that is only observed, and not as it must be.
var errReadOnly = errors.New("it is read-only, and not as configured")

// fillConfiguration fills in what is known of a resource before it is observed.
func (r *Runner) fillConfiguration(res *resource, p *report.ResourcePlan) (err error) {
	p.ImageID, p.ImageDigest = res.target.Image.ID, res.target.Image.Digest
	if res.config != nil {
		p.Config = res.config
		p.ConfigHash, err = r.fingerprint("configuration", res.config)
	}
	return err
}

// fillObservation fills in what is known of a resource once it is observed.
func (r *Runner) fillObservation(res *resource, out protocol.StateOutput, p *report.ResourcePlan) error {
	if err := r.fillConfiguration(res, p); err != nil {
		return err
	}
	p.Status, p.State = report.Status(out.Status), out.State
	if p.Status != report.Valid {
		p.State = out.StaleState
	}
	var err error
	if p.StateHash, err = r.fingerprint("state", p.State); err != nil || p.Status == report.Valid {
		return err
	}
	p.Exists, p.ReadOnly = out.StaleState != nil, res.ReadOnly
	p.Diff = diff.Of(out.StaleState, res.asked(), res.target.Secret)
	p.Actions = slices.Clone(out.Actions)
	if len(res.recalled) > 0 {
		if p.KeptHash, err = r.fingerprint("memory", res.recalled); err != nil {
			return err
		}
	}
	p.ActionsHash, err = r.fingerprint("actions", diff.Decisive(out.Actions))
	return err
}

// maskPlan hides the secrets in the plan for a resource.
func (r *Runner) maskPlan(res *resource, p *report.ResourcePlan) {
	p.Config, p.State = r.maskPart(res, p.Config), r.maskPart(res, p.State)
	r.maskChanges(p.Diff)
	for i, a := range p.Actions {
		p.Actions[i] = r.secrets.MaskAction(a)
	}
	p.Error = r.secrets.Mask(p.Error)
}

// maskPart hides the secrets in a configuration or state. What is a secret as a
// whole becomes nil, as what is not there is.
func (r *Runner) maskPart(res *resource, part map[string]any) map[string]any {
	if part == nil {
		return nil
	}
	hidden, _ := r.secrets.MaskValue(res.target.Secret.Blank(part)).(map[string]any)
	return hidden
}

func (r *Runner) maskChanges(changes []diff.Change) {
	for i := range changes {
		changes[i].Path = r.secrets.Mask(changes[i].Path)
		changes[i].Old = r.secrets.MaskValue(changes[i].Old)
		changes[i].New = r.secrets.MaskValue(changes[i].New)
	}
}

// verdict is the error of a walk: an interruption before anything else, then
// what was invalid, then what failed.
func (r *Runner) verdict(ctx context.Context, failures <-chan error) error {
	var all []error
	for err := range failures {
		all = append(all, err)
	}
	if r.containers.Stop.Requested() || ctx.Err() != nil {
		return r.panics.Join(ErrInterrupted)
	}
	if len(all) == 0 {
		return r.panics.Join(nil)
	}
	return r.panics.Join(&FailedError{Causes: all})
}

// FailedError says that some resources failed; the events and the plan or
// result name them, and why.
type FailedError struct{ Causes []error }

func (e *FailedError) Error() string   { return errors.Join(e.Causes...).Error() }
func (e *FailedError) Unwrap() []error { return e.Causes }
