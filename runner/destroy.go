package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/order"
	"github.com/deployster-go/deployster/runner/outputs"
	"github.com/deployster-go/deployster/runner/redact"
	"github.com/deployster-go/deployster/runner/report"
)

// Destroy removes what Spec.Remove names: each resource once all that
// depends on it is gone. A type is asked for the state with "ensure": "absent",
// its actions are run, and the state is asked again. Resources that are only
// observed are left alone. What is no longer declared goes, too, with Prune.
//
// Before anything is touched it refuses resources whose types cannot remove,
// with a *manifest.Error, and those whose configuration is not known any more,
// because it needs the state of something that is gone, with a *failure.Error,
// unless Caller.Absence knows of them.
// With KeepGoing the latter only fail themselves and what they depend on.
// Otherwise it records and fails as Apply does.
func (r *Runner) Destroy(ctx context.Context, caller Caller) (*report.Result, error) {
	r.caller, r.former = caller, true
	defer r.invoker.Drain(ctx)
	d := r.removal()
	r.outputs = outputs.AfterRemoval(r.spec.Manifest, r.spec.Remove)
	return r.execute(ctx, func() []*resource { return d.removed() }, d.prepare, report.Skip{Code: report.ReasonRemovalRefused}, d.removeAll)
}

// PlanDestroy says what a Destroy would remove. It runs no action and records
// nothing. It fails as Plan does.
func (r *Runner) PlanDestroy(ctx context.Context, caller Caller) (_ *report.Plan, err error) {
	r.caller, r.former = caller, true
	defer r.panics.Catch(&err, "planning")
	defer r.invoker.Drain(ctx)
	d := r.removal()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	bad := d.refuseUnremovable(ctx)
	if err := d.advise(d.refusal(), bad, ""); err != nil {
		return nil, err
	}
	r.forgetInstances()
	if err := d.resolveAll(ctx); err != nil {
		return nil, err
	}
	plan := &report.Plan{Run: r.containers.Run, Destroy: true, Undeclared: r.listUndeclared()}
	g := graph.New[string]()
	for _, res := range d.removed() {
		res.plan = nil
		res.planned().ReadOnly = res.ReadOnly
		g.Add(res.node())
	}
	var failures failure.Several
	r.walkAlong(ctx, g, func(res *resource) error {
		entry := res.planned()
		err := r.planGuarded(ctx, res, entry, d.planOne)
		if why := (report.Skip{}); errors.As(err, &why) {
			r.planned(entry, skipped(res, why))
			return nil
		}
		if err != nil {
			r.planned(entry, failed(res, err))
			failures.Add(fmt.Errorf("%s: %w", res.Name, err))
		}
		return err
	}, func(res *resource, why report.Skip) { r.planned(res.planned(), skipped(res, why)) })
	for _, res := range d.removed() {
		plan.Resources = append(plan.Resources, *res.plan)
	}
	return plan, r.verdict(ctx, &failures)
}

// Removable reports whether a Destroy could remove all that the manifest makes. It
// fails as Plan does, and with a *manifest.Error where types cannot remove.
// Nothing is asked for its state, touched or recorded.
func (r *Runner) Removable(ctx context.Context, caller Caller) (err error) {
	r.caller = caller
	defer r.panics.Catch(&err, "looking whether it can be removed")
	defer r.invoker.Drain(ctx)
	if err := r.prepare(ctx); err != nil {
		return err
	}
	r.removal().refuseUnremovable(ctx)
	return r.refusal()
}

// removal is a Destroy, or what plans one.
type removal struct {
	*Runner
	toDestroy []*resource // in the order of removal; those that are only observed, too
	resources []*resource // those, and the ones whose states they need, in graph order
	removing  map[string]bool
	again     bool                 // it is made again; what is only looked at has its turn then
	some      map[string]bool      // late ones of which instances are removed
	needs     map[string][]string  // whose states a configuration needs
	needed    map[string]bool      // resources whose state some configuration needs
	absent    map[string]Absence   // what is known of those that cannot be asked
	managed   map[string]*resource // what stays, by what it manages; nil is nothing
	owner     string               // of orphans: the manifest whose things are removed; "" is all
}

// removal finds what is to be removed, and narrows the run down to that and to
// what its configurations need.
func (r *Runner) removal() *removal {
	d := r.newRemoval()
	d.recalls = true
	for _, name := range r.spec.Remove {
		d.removing[name] = true
		if m := r.spec.Manifest.Stands(name); m != nil {
			d.some[m.Name] = true
		}
	}
	taking := []*resource{}
	for _, m := range slices.Backward(r.spec.Manifest.Resources) {
		res := r.byNode[m.Name]
		if r.spec.Remove == nil {
			d.removing[res.Name] = true
		}
		if res.excluded = !d.removing[res.Name] && !d.some[res.Name] && !d.needed[res.Name]; res.excluded {
			continue
		}
		if d.removing[res.Name] || d.some[res.Name] {
			d.toDestroy = append(d.toDestroy, res)
		}
		if d.keeps(res) && !d.some[res.Name] && !d.needed[res.Name] {
			continue // not even its type is of interest
		}
		taking = append(taking, res)
		// What it needs stands before it in the graph's order.
		d.need(res)
	}
	slices.Reverse(taking)
	r.orphans = slices.DeleteFunc(r.orphans, func(res *resource) bool {
		return res.deposed != "" && r.spec.Remove != nil && !d.removing[res.Name] // of what stays
	})
	for _, res := range r.orphans { // they are configured as they were made, and need no state
		d.removing[res.node()] = true
	}
	d.toDestroy, taking = append(slices.Clone(r.orphans), d.toDestroy...), append(taking, r.orphans...)
	r.resources, d.resources = taking, taking
	return d
}

func (r *Runner) newRemoval() *removal {
	return &removal{Runner: r, removing: map[string]bool{}, some: map[string]bool{}, needs: map[string][]string{}, needed: map[string]bool{}, absent: map[string]Absence{}}
}

// need notes whose states the configuration of a resource needs.
func (d *removal) need(res *resource) {
	d.needs[res.Name] = d.Runner.needs(res)
	for _, name := range d.needs[res.Name] {
		d.needed[name] = true
	}
}

// goneByLog is the event of a resource that could not be asked.
func goneByLog(res *resource) report.Event {
	e := res.having(report.ResourceResolved, report.Absent)
	e.Data = map[string]string{"by": "log"}
	return e
}

// keeps reports whether a resource is not removed.
func (d *removal) keeps(res *resource) bool { return res.ReadOnly || !d.removes(res) }

// inPart reports whether only some of what a late resource stands for is removed.
func (d *removal) inPart(res *resource) bool {
	return d.some[res.Name] && !d.removing[res.Name] && !res.ReadOnly
}

// removes reports whether something is removed, as one of those that a late resource stands for, too.
func (d *removal) removes(res *resource) bool {
	return d.removing[res.node()] || res.of != nil && d.removing[res.of.Name]
}

// removed are those that are removed, with the instances in the place of late ones.
func (d *removal) removed() []*resource {
	return slices.DeleteFunc(slices.Clone(each(d.toDestroy)), func(res *resource) bool { return !d.removes(res) && (res.of != nil || res.Late != nil && res.expanded) })
}

// prepare does all that may refuse the Destroy before anything is touched.
func (d *removal) prepare(ctx context.Context) error {
	if err := d.Runner.prepare(ctx); err != nil {
		return err
	}
	bad := d.refuseUnremovable(ctx)
	if err := d.advise(d.refusal(), bad, ""); err != nil {
		return err
	}
	if err := d.resolveAll(ctx); err != nil {
		return err
	}
	if d.spec.KeepGoing {
		return nil // they fail when it is their turn
	}
	for _, res := range each(d.resources) {
		if res.refused != nil {
			bad = append(bad, res)
			d.refuse(ctx, res, res.refused)
		}
	}
	return d.advise(d.refusal(), bad, "--keep-going, or with ")
}

// destroyed is the event of a resource of which its type says that it is gone, or that is nobody's.
func destroyed(res *resource, kind report.EventKind) report.Event {
	e := res.having(kind, report.Absent)
	e.Took = res.took
	if e.Key = res.identity.Key; res.undeclared != nil {
		e.Key, e.ID, e.Owner = res.undeclared.Identity.Key, res.undeclared.ID, res.undeclared.Owner
	}
	return e
}

// resolveAll resolves the configurations of what is to be removed, and sets
// resource.refused where that is not possible.
func (d *removal) resolveAll(ctx context.Context) error {
	needed := func(res *resource) bool { return d.needed[res.Name] || res.of != nil && d.needed[res.of.Name] }
	findings := d.survey(ctx, d.resources, d.needs, needed, d.stateRead)
	if d.containers.Stop.Requested() || ctx.Err() != nil {
		return ErrInterrupted
	}
	clear(d.absent)
	for _, res := range each(d.resources) {
		s := findings[res.node()]
		switch {
		case s.resolved:
		case d.inPart(res) && len(s.lacks) > 0: // so it is not known what it stands for
			res.refused = unknownConfiguration(res, s, findings)
		case d.inPart(res):
			res.refused = s.err
		case d.keeps(res):
		case len(s.lacks) == 0:
			res.refused = s.err
		default:
			absence, err := d.absence(ctx, res)
			if err != nil {
				return err
			}
			if d.absent[res.node()] = absence; absence == Unproven {
				res.refused = unknownConfiguration(res, s, findings)
			}
		}
	}
	return d.allFound()
}

// allFound refuses to leave behind an instance that is to be removed and that its late resource does
// not come to any more, where nobody knows how it was configured.
func (d *removal) allFound() error {
	for _, name := range d.spec.Remove {
		if d.Runner.find(name) != nil {
			continue
		}
		if m := d.spec.Manifest.Stands(name); m != nil && d.byNode[m.Name].expanded {
			return failure.Because(report.ReasonUnknown, fmt.Errorf(
				"%s was made, and the for_each of %s (%s) no longer comes to it, so how it was configured is not known here: let it come to that key again, or remove what there is by hand",
				name, m.Name, m.Late.At()))
		}
	}
	return nil
}

// absence is what is known of a resource that cannot be asked.
func (d *removal) absence(ctx context.Context, res *resource) (Absence, error) {
	if d.caller.Absence == nil {
		return Unproven, nil
	}
	absence, err := d.caller.Absence(ctx, res.Name)
	if err != nil {
		return Unproven, fmt.Errorf("asking what is known of %s: %w", res.Name, err)
	}
	return absence, nil
}

// stateRead shows that the state of a resource was read for those that need it.
func (d *removal) stateRead(res *resource, _ finding) {
	if !d.removes(res) && res.Late == nil && !d.again {
		event := skipped(res, report.Skip{Code: report.ReasonNotTargeted})
		event.Time = d.now()
		d.show(event)
		return
	}
	if d.needed[res.Name] || d.again {
		d.show(report.Event{Kind: report.StateRead, Time: d.now(), Resource: res.Name})
	}
}

// walk visits what is to be removed, each once all that depends on it was
// visited well.
func (d *removal) walk(ctx context.Context, visit func(*resource) error, skipped func(*resource, report.Skip)) {
	d.walkAlong(ctx, d.order(), visit, skipped)
}

// order is the graph along which it is removed. What stays has nodes that no resource has.
func (d *removal) order() *graph.Graph[string] {
	removed := map[*resource]bool{}
	for _, res := range d.removed() {
		removed[res] = true
	}
	var things []order.Thing
	add := func(res *resource) {
		if d.owner != "" {
			if owner, _ := ofOwner(res.undeclared.Owner, "", nil); owner != d.owner {
				return
			}
		}
		t := order.Thing{Node: res.node(), Name: res.Name, DependsOn: res.dependsOn, Declared: res.undeclared == nil}
		if !t.Declared {
			t.At = res.undeclared.At
			t.Name, t.DependsOn = ofOwner(res.undeclared.Owner, t.Name, t.DependsOn)
		}
		if !removed[res] {
			t.Node = "stays " + t.Node
		}
		things = append(things, t)
	}
	for _, res := range d.orphans {
		add(res)
	}
	for _, m := range slices.Backward(d.spec.Manifest.Resources) {
		res := d.byNode[m.Name]
		add(res)
		for _, one := range res.instances {
			add(one)
		}
	}
	return order.Of(things)
}

func (d *removal) removeAll(ctx context.Context) error {
	d.mention(d.listUndeclared())
	if len(d.spec.Orphans) == 0 {
		return d.visitEach(ctx, d.walk, d.removeOne)
	}
	var errs []error
	for _, owner := range d.orphaned() {
		d.owner = owner
		errs = append(errs, d.visitEach(ctx, d.walk, d.removeOne))
	}
	d.owner = ""
	return errors.Join(errs...)
}

// orphaned are the manifests of orphans, which have their turn one after the other: it is not recorded what depends on
// what between them.
func (d *removal) orphaned() (owners []string) {
	for _, res := range d.orphans {
		if owner, _ := ofOwner(res.undeclared.Owner, "", nil); !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
	}
	return owners
}

// removeOne removes one resource.
func (d *removal) removeOne(ctx context.Context, res *resource) (report.Status, error) {
	if err := d.skipReason(res); err != nil {
		return report.Failed, err
	}
	leave, err := d.enter(ctx, res)
	if err != nil {
		return report.Failed, err
	}
	defer leave()
	return d.removeThings(ctx, res)
}

// removeThings removes one resource, on which no other run works. Those that work on its things may be of other manifests.
func (d *removal) removeThings(ctx context.Context, res *resource) (report.Status, error) {
	if res.undeclared != nil && res.of == nil {
		left, _, err := d.enterThings(ctx, res)
		if err != nil {
			return report.Failed, err
		}
		defer left()
	}
	if err := d.stays(ctx, res); err != nil {
		return report.Failed, err
	}
	stays, err := d.staysAsAnother(ctx, res)
	if err == nil && stays {
		err = errors.Join(d.emit(ctx, destroyed(res, report.ResourceForgotten)), report.Skip{Code: report.ReasonOwned})
	}
	if err != nil {
		return report.Failed, err
	}
	return d.removeEntered(ctx, res)
}

// removeEntered removes one resource. The things of what is undeclared are locked.
func (d *removal) removeEntered(ctx context.Context, res *resource) (report.Status, error) {
	if res.times != firstGone { // else it is a part of what is done to the resource of its name
		if err := d.emit(ctx, res.event(report.ResourceStarted)); err != nil {
			return report.Failed, err
		}
	}
	if d.absent[res.node()] == Verified {
		return report.Absent, d.emit(ctx, goneByLog(res))
	}
	if d.missingPlug(res) != nil {
		if err := d.recall(ctx, res); err != nil {
			return report.Failed, err
		}
		return report.Absent, errors.Join(d.emit(ctx, goneByLog(res)), d.emit(ctx, destroyed(res, report.ResourceDestroyed)))
	}
	instead, err := d.recorded(ctx, res)
	if err != nil {
		return report.Failed, err
	}
	if instead != nil {
		return d.removeThings(ctx, instead)
	}
	out, event, leave, err := d.findEntered(ctx, res, d.find)
	if err != nil {
		return report.Failed, err
	}
	defer leave()
	if err := d.emit(ctx, event); err != nil {
		return report.Failed, err
	}
	if err := d.boundRemoval(res, out); err != nil {
		return report.Failed, err
	}
	switch {
	case event.Status == report.Absent && (res.undeclared != nil || res.past.Made != nil):
		return report.Absent, d.emit(ctx, destroyed(res, report.ResourceDestroyed)) // so that nobody is told of it any more
	case event.Status == report.Absent:
		return report.Absent, nil
	}
	defer res.target.Discard()
	if err := d.runActions(ctx, res, out); err != nil {
		return report.Failed, err
	}
	return report.Destroyed, d.verify(ctx, res)
}

func (d *removal) planOne(ctx context.Context, res *resource, entry *report.ResourcePlan) error {
	if err := d.skipReason(res); err != nil {
		return err
	}
	if err := d.stays(ctx, res); err != nil {
		return err
	}
	if stays, err := d.staysAsAnother(ctx, res); err != nil {
		return err
	} else if stays {
		return report.Skip{Code: report.ReasonOwned}
	}
	event := goneByLog(res)
	started := d.now()
	instead, err := d.recordedNow(ctx, res)
	if err != nil {
		return err
	}
	if instead != nil {
		return d.planOne(ctx, instead, entry)
	}
	if d.absent[res.node()] != Verified && d.missingPlug(res) == nil {
		d.show(report.Event{Kind: report.ResourceStarted, Time: started, Resource: res.Name})
		out, found, err := d.find(ctx, res)
		if err == nil {
			err = d.mine(ctx, res)
		}
		if err != nil {
			return err
		}
		event = found
		if res.undeclared == nil {
			for _, a := range out.Actions {
				entry.Actions = append(entry.Actions, d.secrets.MaskAction(a))
			}
		} else if err := d.spec.Fingerprint.Removal(entry, out); err != nil {
			return err
		}
	}
	entry.Status = event.Status
	event.Time = d.now()
	event.Duration = event.Time.Sub(started)
	redact.Event(d.secrets, &event)
	d.show(event)
	return nil
}

// skipReason is why nothing is done with a resource, nil when something is.
func (d *removal) skipReason(res *resource) error {
	switch {
	case (res.orphan || res.deposed != "") && failure.Reason(res.failure) == report.ReasonNotRemovable:
		return report.Skip{Code: report.ReasonNotRemovable, Resource: res.undeclared.Reference()}
	case res.failure != nil: // it could not be initialized, or nobody knows what it stands for
		return res.failure
	case res.ReadOnly:
		return report.Skip{Code: report.ReasonOnlyObserved}
	case d.absent[res.node()] == NeverCreated:
		return report.Skip{Code: report.ReasonNeverApplied}
	default:
		return res.refused
	}
}

// find asks a type whether a resource is gone, and returns its answer with the
// event to record.
func (d *removal) find(ctx context.Context, res *resource) (protocol.StateOutput, report.Event, error) {
	res.ensure = protocol.Absent
	err := d.recall(ctx, res)
	if err == nil && res.took != nil {
		err = d.takeOver(ctx, res, res.took)
	}
	return d.askAbsent(ctx, res, err)
}

// askAbsent is find of a resource whose past is known, unless that failed.
func (d *removal) askAbsent(ctx context.Context, res *resource, failed error) (out protocol.StateOutput, event report.Event, err error) {
	event = res.having(report.ResourceResolved, report.Present)
	event.Attempt = res.attempt()
	if failed != nil {
		return out, event, failed
	}
	if res.init.MakesNothing {
		out, err = d.observe(ctx, res)
	} else {
		out, err = d.observeAnswered(ctx, res)
	}
	if out.Status == protocol.Valid {
		event.Status = report.Absent
	}
	for _, a := range out.Actions {
		event.Actions = append(event.Actions, a.Name)
	}
	return out, event, err
}

// findEntered looks for a resource, and has no other run do anything with its things until leave is called. It fails if
// they are of another manifest. The things of what is undeclared are locked before.
func (d *removal) findEntered(ctx context.Context, res *resource, find func(context.Context, *resource) (protocol.StateOutput, report.Event, error)) (
	out protocol.StateOutput, event report.Event, leave func(), err error,
) {
	leave = func() {}
	out, event, err = find(ctx, res)
	if err != nil || res.undeclared != nil || res.init.MakesNothing {
		return out, event, leave, err
	}
	leave, waited, err := d.enterThings(ctx, res)
	if err == nil && waited {
		out, event, err = find(ctx, res)
	}
	if err == nil {
		err = d.mine(ctx, res)
	}
	if err != nil {
		leave()
	}
	return out, event, leave, err
}

// mine refuses to remove a declared resource if another manifest declares one of the things that it is, or made: its type
// removes all.
func (d *removal) mine(ctx context.Context, res *resource) error {
	if d.caller.Owners == nil || res.undeclared != nil || res.init.MakesNothing || res.took != nil {
		return nil
	}
	keys := res.identity.Known()
	if was := res.past.Made; was != nil {
		keys = slices.Concat(keys, was.Identity.Known(), was.Identity.Lost)
	}
	other, err := d.theirs(ctx, keys)
	if err == nil && other != nil {
		err = d.ownedElsewhere(res, other)
	}
	return err
}
