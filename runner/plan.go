package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/pins"
	"github.com/deployster-go/deployster/runner/redact"
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
	plan := &report.Plan{Run: r.containers.Run}
	r.forgetInstances()
	for _, res := range r.resources {
		res.plan = nil
	}
	var failures failure.Several
	r.walk(ctx, func(res *resource) error {
		err := r.planNow(ctx, res, res.planned())
		if err != nil {
			r.planned(res.planned(), failed(res, err))
			failures.Add(err)
		}
		return err
	}, func(res *resource, why report.Skip) { r.planned(res.planned(), skipped(res, why)) })
	plan.Unmatched = r.unmatched(false)
	r.orphanGone()
	r.addReplaced()
	r.planPrune(ctx, &failures)
	if plan.Undeclared = r.listUndeclared(); !r.spec.Prune {
		plan.Undeclared = append(plan.Undeclared, report.Bare(r.gone())...)
	}
	// Only now all secrets are known: one resource's may stand in another's.
	for _, res := range each(r.resources) {
		redact.Plan(r.secrets, res.target.Secret, res.planned())
		plan.Resources = append(plan.Resources, *res.plan)
	}
	r.shown = plan.Changes()
	return plan, r.verdict(ctx, &failures)
}

// planNow fills in the plan for a resource, when those are planned that it depends on.
func (r *Runner) planNow(ctx context.Context, res *resource, entry *report.ResourcePlan) error {
	for _, d := range res.dependsOn {
		if slices.ContainsFunc(r.behind(d), func(d *resource) bool { return d.plan.Status != report.Valid && !r.replacedWith(res, d) }) {
			entry.Status = report.Unknown
			entry.After = append(entry.After, d)
		}
	}
	if res.failure != nil {
		return res.failure
	}
	if res.Late != nil {
		if planned, err := r.planInstances(ctx, res, entry.After); planned || err != nil {
			return err
		}
		if r.replacesAny(res) {
			return failure.Because(report.ReasonUnknown, fmt.Errorf("which instances it has to replace is known after apply of %s (%s): apply without --replace first", strings.Join(entry.After, ", "), res.Late.At()))
		}
	}
	if err := r.fillConfiguration(res, entry); err != nil {
		return err
	}
	if entry.Status != report.Unknown {
		return r.planGuarded(ctx, res, entry, r.planOne)
	}
	if res.Late == nil {
		if err := r.planGuarded(ctx, res, entry, r.planTentatively); err != nil {
			return err
		}
	}
	r.show(report.Event{Kind: report.ResourceResolved, Time: r.now(), Resource: res.Name, Status: report.Unknown})
	return nil
}

func (r *Runner) planGuarded(ctx context.Context, res *resource, entry *report.ResourcePlan, plan func(context.Context, *resource, *report.ResourcePlan) error) error {
	_, err := guarded(ctx, r, res, "planning", func(ctx context.Context, res *resource) (struct{}, error) {
		return struct{}{}, plan(ctx, res, entry)
	})
	return err
}

// replacedWith reports whether the state of what is replaced is known to what is replaced with it.
func (r *Runner) replacedWith(res, d *resource) bool {
	return d.plan.Replace && d.state != nil && r.replaces(res)
}

// planned is what a plan says of a resource.
func (res *resource) planned() *report.ResourcePlan {
	if res.plan == nil {
		res.plan = &report.ResourcePlan{Name: res.Name, Type: res.Type, DependsOn: res.dependsOn, Late: res.Late != nil, Status: report.Pending, MadeBy: res.madeBy(), Deposed: res.deposed}
		if res.of != nil {
			res.plan.Of = res.of.Name
		}
		if res.orphan {
			res.plan.From = res.undeclared.Owner.String()
		} else if res.deposed != "" {
			res.plan.Replaces = res.undeclared.Identity.Text()
		}
	}
	return res.plan
}

func (r *Runner) planOne(ctx context.Context, res *resource, entry *report.ResourcePlan) error {
	started := r.now()
	r.show(report.Event{Kind: report.ResourceStarted, Time: started, Resource: res.Name})
	if err := r.resolve(res); err != nil {
		return err
	}
	if r.replaces(res) {
		if planned, err := r.planReplacement(ctx, res, entry); planned || err != nil {
			return err
		}
	}
	out, err := r.observeOwned(ctx, res)
	entry.Replaces = res.replaced
	if err == nil && out.Status == protocol.Stale {
		err = r.mayLose(res, out.Actions)
	}
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
		return failure.ErrReadOnly
	}
	for _, a := range entry.Actions {
		event.Actions = append(event.Actions, a.Name)
	}
	redact.Event(r.secrets, &event)
	r.show(event)
	return nil
}

// planned takes over into the plan, and shows, that a resource failed or is skipped.
func (r *Runner) planned(entry *report.ResourcePlan, e report.Event) {
	e.Time = r.now()
	redact.Event(r.secrets, &e)
	entry.Status, entry.Reason, entry.Error = e.Status, e.Reason, e.Error
	r.show(e)
}

// fillConfiguration fills in what is known of a resource before it is observed.
func (r *Runner) fillConfiguration(res *resource, p *report.ResourcePlan) error {
	return r.spec.Fingerprint.Configuration(p, res.target.Image, res.config)
}

// fillObservation fills in what is known of a resource once it is observed.
func (r *Runner) fillObservation(res *resource, out protocol.StateOutput, p *report.ResourcePlan) error {
	if err := r.fillConfiguration(res, p); err != nil {
		return err
	}
	return r.spec.Fingerprint.Observation(p, pins.Seen{Answer: out, Asked: res.asked(), Secret: res.target.Secret, Kept: res.recalled.Kept, ReadOnly: res.ReadOnly})
}

// verdict is the error of a walk: an interruption before anything else, then what failed.
func (r *Runner) verdict(ctx context.Context, failures *failure.Several) error {
	if r.containers.Stop.Requested() || ctx.Err() != nil {
		return r.panics.Join(ErrInterrupted)
	}
	return r.panics.Join(failures.Err())
}
