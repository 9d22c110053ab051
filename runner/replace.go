package runner

import (
	"context"
	"errors"
	"slices"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/deviation"
	"github.com/deployster-go/deployster/runner/redact"
	"github.com/deployster-go/deployster/runner/report"
)

// replaces reports whether a resource is to be removed and made again, as one of a late resource, too.
func (r *Runner) replaces(res *resource) bool {
	return slices.Contains(r.spec.Replace, res.Name) || res.of != nil && slices.Contains(r.spec.Replace, res.of.Name)
}

// replacesAny reports whether a resource, or some of what it stands for, is.
func (r *Runner) replacesAny(res *resource) bool {
	return r.replaces(res) || len(res.among(r.spec.Replace)) > 0
}

// refuseRemovals refuses what an Apply is to remove and must not, or cannot.
func (r *Runner) refuseRemovals(ctx context.Context) error {
	managed := map[string]*resource{}
	if len(r.orphans) > 0 {
		managed = r.managed()
	}
	for _, res := range r.resources {
		if res.undeclared == nil && !r.replacesAny(res) {
			continue
		}
		why := r.unremovable(res)
		switch {
		case why != nil:
		case res.ReadOnly:
			why = &manifest.Error{Problems: []manifest.Problem{{Position: res.Position, Path: "resources." + res.Name, Message: "it is read-only, so it is not replaced"}}}
		case res.undeclared != nil && !res.unprepared:
			why = r.stillDeclared(res, managed)
		}
		if why != nil {
			r.refuse(ctx, res, why)
		}
	}
	return r.refusal()
}

// replacement is the removal of what is to be made again.
func (r *Runner) replacement() *removal {
	d := r.newRemoval()
	d.again = true
	for _, res := range slices.Backward(r.declared()) {
		if r.replacesAny(res) {
			d.removing[res.Name], d.some[res.Name] = r.replaces(res), !r.replaces(res)
			d.toDestroy = append(d.toDestroy, res)
		}
		for _, name := range res.among(r.spec.Replace) {
			d.removing[name] = true
		}
		if r.replacesAny(res) || d.needed[res.Name] {
			d.resources = append(d.resources, res)
			d.need(res)
		}
	}
	slices.Reverse(d.resources)
	return d
}

// removeReplaced removes what is to be made again, dependents first. What could not be removed
// has its failure, with which it fails when its turn has come.
func (r *Runner) removeReplaced(ctx context.Context) error {
	if len(r.spec.Replace) == 0 {
		return nil
	}
	d := r.replacement()
	if err := d.resolveAll(ctx); err != nil {
		return err
	}
	d.walk(ctx, func(res *resource) error {
		_, res.failure = guarded(ctx, r, res, "removing", func(ctx context.Context, res *resource) (struct{}, error) {
			return struct{}{}, d.removeForNow(ctx, res)
		})
		res.ensure = protocol.Present
		return res.failure
	}, func(*resource, report.Skip) {}) // it is skipped once more when its turn has come
	r.expandAgain()
	return nil
}

// removeForNow removes what there is of a resource that is made again.
func (d *removal) removeForNow(ctx context.Context, res *resource) error {
	if res.refused != nil || res.Late != nil { // of which no instance is there
		return res.refused
	}
	leave, err := d.enter(ctx, res)
	if err != nil {
		return err
	}
	defer leave()
	if err := d.emit(ctx, res.event(report.ResourceStarted)); err != nil {
		return err
	}
	res.begun = true
	if d.absent[res.Name] != Unproven {
		return nil
	}
	out, event, leaveThings, err := d.findEntered(ctx, res, d.findReplaced)
	if err != nil {
		return err
	}
	defer leaveThings()
	if err = d.emit(ctx, event); err == nil {
		err = d.boundRemoval(res, out)
	}
	if err != nil || event.Status == report.Absent {
		return err
	}
	defer res.target.Discard()
	if err := d.runActions(ctx, res, out); err != nil {
		return err
	}
	return d.verify(ctx, res)
}

// findReplaced is find of what a resource is that is made again, and not of what it was before it came to be that.
func (d *removal) findReplaced(ctx context.Context, res *resource) (protocol.StateOutput, report.Event, error) {
	res.ensure = protocol.Absent
	err := d.recall(ctx, res)
	if err == nil {
		err = d.own(ctx, res)
	}
	return d.askAbsent(ctx, res, err)
}

// planReplacement plans that what there is of a resource is removed. Where there is nothing, it
// is planned like any other.
func (r *Runner) planReplacement(ctx context.Context, res *resource, entry *report.ResourcePlan) (planned bool, err error) {
	d := r.newRemoval()
	out, event, err := d.findReplaced(ctx, res)
	if err == nil {
		err = d.mine(ctx, res)
	}
	res.ensure = protocol.Present
	if err != nil || event.Status == report.Absent {
		return false, err
	}
	if err := r.fillConfiguration(res, entry); err != nil {
		return false, err
	}
	entry.Status, entry.Replace, entry.Exists, entry.Replaces = report.Stale, true, true, res.replaced
	if err := r.spec.Fingerprint.Removal(entry, out); err != nil {
		return false, err
	}
	// What else is replaced may need its state, to be asked whether it is there.
	if now, err := r.observe(ctx, res); err == nil {
		res.state = now.StaleState
		if now.Status == protocol.Valid {
			res.state = now.State
		}
	}
	event.Time, event.Status = r.now(), report.Stale
	redact.Event(r.secrets, &event)
	r.show(event)
	return true, nil
}

// boundRemoval refuses to remove what is not as the plan found it. What is gone by now is as good.
func (r *Runner) boundRemoval(res *resource, out protocol.StateOutput) error {
	if r.spec.Bound == nil || out.Status == protocol.Valid {
		return nil
	}
	planned, ok := r.spec.Bound[res.node()]
	if now, open := r.spec.Bound[res.Name]; !ok && res.deposed != "" && open && now.Status == report.Unknown {
		return nil // the plan could not know it
	}
	if !ok {
		return &deviation.Error{Reason: "the plan does not remove it"}
	}
	now := report.ResourcePlan{Name: res.Name, Type: res.Type}
	if err := errors.Join(r.fillConfiguration(res, &now), r.spec.Fingerprint.Removal(&now, out)); err != nil {
		return err
	}
	redact.Plan(r.secrets, res.target.Secret, &now)
	if d := deviation.OfRemoval(planned, now); d != nil {
		return d
	}
	return nil
}
