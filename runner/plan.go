package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
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
	var failures failures
	r.walk(ctx, func(res *resource) error {
		err := r.planNow(ctx, res, res.planned())
		if err != nil {
			r.planned(res.planned(), failed(res, err))
			failures.add(err)
		}
		return err
	}, func(res *resource, why report.Skip) { r.planned(res.planned(), skipped(res, why)) })
	r.orphanGone()
	r.planPrune(ctx, &failures)
	if plan.Undeclared = r.listUndeclared(); !r.spec.Prune {
		plan.Undeclared = append(plan.Undeclared, report.Bare(r.gone())...)
	}
	// Only now all secrets are known: one resource's may stand in another's.
	for _, res := range each(r.resources) {
		redact.Plan(r.secrets, res.target.Secret, res.planned())
		plan.Resources = append(plan.Resources, *res.plan)
	}
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
			return &reasonError{report.ReasonUnknown, fmt.Errorf("which instances it has to replace is known after apply of %s (%s): apply without --replace first", strings.Join(entry.After, ", "), res.Late.At())}
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
		res.plan = &report.ResourcePlan{Name: res.Name, Type: res.Type, DependsOn: res.dependsOn, Late: res.Late != nil, Status: report.Pending, MadeBy: res.madeBy()}
		if res.of != nil {
			res.plan.Of = res.of.Name
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
	if len(res.recalled.Kept) > 0 {
		if p.KeptHash, err = r.fingerprint("memory", res.recalled.Kept); err != nil {
			return err
		}
	}
	p.ActionsHash, err = r.fingerprint("actions", diff.Decisive(out.Actions))
	return err
}

// verdict is the error of a walk: an interruption before anything else, then
// what was invalid, then what failed.
func (r *Runner) verdict(ctx context.Context, failures *failures) error {
	all := failures.all
	if r.containers.Stop.Requested() || ctx.Err() != nil {
		return r.panics.Join(ErrInterrupted)
	}
	if len(all) == 0 {
		return r.panics.Join(nil)
	}
	return r.panics.Join(&FailedError{Causes: all})
}

// failures are why visits, which are beside each other, failed.
type failures struct {
	mu  sync.Mutex
	all []error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, err)
}

// FailedError says that some resources failed; the events and the plan or
// result name them, and why.
type FailedError struct{ Causes []error }

func (e *FailedError) Error() string   { return errors.Join(e.Causes...).Error() }
func (e *FailedError) Unwrap() []error { return e.Causes }
