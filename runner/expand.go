package runner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/address"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/deviation"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/redact"
	"github.com/deployster-go/deployster/runner/report"
)

// A late resource (manifest.Late) is one node of a walk. Its visit expands it: of the
// states of its dependencies come its instances, which are visited next like any resource.
// Whoever depends on it waits for all of them.

// expand makes the instances of a late resource.
func (r *Runner) expand(res *resource, scope manifest.Scope) error {
	made, err := res.Expand(scope, func(text string) bool { return r.secrets.Mask(text) != text }, r.room)
	if err != nil {
		return redact.Error(r.secrets, err)
	}
	size := 0
	for _, m := range made {
		if res.Selects(m.Each.Key) && (!res.adopts || r.adoptions[m.Name] != nil) {
			one := &resource{Resource: m, dependsOn: m.After(), manifest: res.manifest, of: res}
			r.join(res, one)
			size += one.header().Size()
		}
	}
	if size > mostTold {
		return fmt.Errorf("its for_each (%s) comes to %d instances, whose names take %d KiB in the log, of at most %d: make them in several resources, or give keys that are shorter",
			res.Late.At(), len(made), size>>10, mostTold>>10)
	}
	for _, name := range append(res.among(r.spec.Replace), res.among(slices.Sorted(maps.Keys(r.adoptions)))...) {
		if was := res.before[name]; res.named[name] == nil && (was == nil || !was.begun) { // else it was removed, and is gone
			return res.NoInstance(name, made)
		}
	}
	err = r.boundInstances(res)
	res.expanded = err == nil
	return err
}

// among are those of some names that are of instances of a late resource.
func (res *resource) among(names []string) (instances []string) {
	for _, name := range names {
		if of, _, one := address.Split(name); one && res.Late != nil && of == res.Name {
			instances = append(instances, name)
		}
	}
	return instances
}

// mostTold is how many bytes what a late resource stands for may take: it is one event of the log, which
// takes twice as much.
const mostTold = 512 << 10

// join has a resource, which is not initialized, be one of those that a late one stands for.
func (r *Runner) join(late, one *resource) {
	one.target = invoke.Target{Name: one.Name, Type: one.Type, Timeout: one.Timeout}
	one.unprepared = true
	if one.Type == late.Type {
		one.first = cmp.Or(late.first, late)
	}
	one.adopted = r.adoptions[one.Name]
	if was := late.before[one.Name]; was != nil {
		one.target, one.init, one.schema, one.states, one.initialized = was.target, was.init, was.schema, was.states, was.initialized
		one.unprepared, one.failure, one.begun, one.kept = was.unprepared, was.failure, was.begun, was.kept
	}
	late.instances = append(late.instances, one)
	late.named[one.Name] = one
}

// expandNow expands a late resource all of whose dependencies are verified.
func (r *Runner) expandNow(ctx context.Context, res *resource) (struct{}, error) {
	if err := r.expand(res, r.scope()); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, r.tellInstances(ctx, res)
}

// tellInstances says what a late resource stands for.
func (r *Runner) tellInstances(ctx context.Context, res *resource) error {
	res.told++
	e := res.event(report.ResourceExpanded)
	e.Attempt = res.told
	for _, one := range res.instances {
		e.Resources = append(e.Resources, one.header())
	}
	return r.emit(ctx, e)
}

// ready initializes what was not known when the others were initialized. Where that is refused, the
// resource has failed already when it is visited.
func (r *Runner) ready(ctx context.Context, res *resource) {
	if !res.unprepared || res.failure != nil {
		return
	}
	_, res.failure = guarded(ctx, r, res, "initializing", func(ctx context.Context, res *resource) (struct{}, error) {
		if err := r.initialize(ctx, res); err != nil {
			return struct{}{}, err
		}
		if res.unprepared = false; res.undeclared != nil {
			return struct{}{}, r.unremovable(res)
		}
		return struct{}{}, nil
	})
	res.unprepared = res.failure != nil
}

// find returns a resource of the run by its node, also an instance that was found out late.
func (r *Runner) find(node string) *resource {
	if res := r.byNode[node]; res != nil {
		return res
	}
	if late := r.byNode[address.Declared(node)]; late != nil {
		return late.named[node]
	}
	return nil
}

// each returns resources with the instances in the place of late ones that are expanded.
func each(resources []*resource) []*resource {
	if !slices.ContainsFunc(resources, func(res *resource) bool { return res.expanded }) {
		return resources
	}
	var all []*resource
	for _, res := range resources {
		if res.expanded {
			all = append(all, res.instances...)
		} else {
			all = append(all, res)
		}
	}
	return all
}

// behind are the resources that a name stands for; none where it is not one of the run.
func (r *Runner) behind(name string) []*resource {
	res := r.find(name)
	if res == nil {
		return nil
	}
	return each([]*resource{res})
}

// without returns which of the resources behind names have no state, by name.
func (r *Runner) without(names []string) (lacks []string) {
	for _, name := range names {
		for _, d := range r.behind(name) {
			if d.state == nil {
				lacks = append(lacks, d.Name)
			}
		}
	}
	return lacks
}

// boundInstances refuses other instances than the plan shows. One that left them open has the late
// resource itself.
func (r *Runner) boundInstances(res *resource) error {
	if _, open := r.spec.Bound[res.Name]; open || r.spec.Bound == nil {
		return nil
	}
	names := make([]string, 0, len(res.instances))
	for _, one := range res.instances {
		names = append(names, one.Name)
	}
	if d := deviation.OfInstances(res.Name, r.spec.Bound, names); d != nil {
		return d
	}
	return nil
}

// boundTo is what a saved plan says of a resource. Of an instance that it left open it is what it
// says of all of them.
func (r *Runner) boundTo(res *resource) (report.ResourcePlan, bool) {
	planned, ok := r.spec.Bound[res.node()]
	if !ok && res.of != nil {
		planned, ok = r.spec.Bound[res.of.Name]
	}
	return planned, ok
}

// planInstances expands a late resource where a plan knows what its for_each comes to: of what is
// as configured, and of states that types foresee. planned is false where it does not.
func (r *Runner) planInstances(ctx context.Context, res *resource, after []string) (planned bool, err error) {
	scope := r.scope()
	if len(after) > 0 {
		needs, err := res.Needs(res.Decides()[1:], r.spec.Expressions)
		if err != nil || slices.ContainsFunc(needs, func(name string) bool { return slices.Contains(after, name) }) {
			return false, nil //nolint:nilerr // its error is one of the run once it is known
		}
		known, err := r.partly(res, after).Resolve(res.ForEach)
		if err != nil || len(protocol.UnknownPaths(map[string]any{"": known})) > 0 {
			return false, nil //nolint:nilerr // as before
		}
		scope.State = func(name string) any { return r.foreseen(name, after, nil) }
	}
	if err := r.expand(res, scope); err != nil {
		return true, err
	}
	return true, r.tellInstances(ctx, res)
}

// inspectLate is the survey of a late resource. Of a removal the instances are also those that
// runs have made: they are configured as they were made.
func (r *Runner) inspectLate(ctx context.Context, res *resource) finding {
	var s finding
	needs, err := res.Needs(res.Decides(), r.spec.Expressions)
	if s.err = err; err == nil {
		s.lacks = r.without(needs)
	}
	if s.err == nil && len(s.lacks) == 0 {
		if s.err = r.expand(res, r.scope()); s.err != nil {
			s.drifted = slices.DeleteFunc(needs, func(name string) bool {
				return !slices.ContainsFunc(r.behind(name), func(d *resource) bool { return d.stale })
			})
		}
	}
	if r.recalls {
		r.recallInstances(res)
	}
	if res.expanded {
		return finding{resolved: true, err: r.tellInstances(ctx, res)}
	}
	return s
}

// recallInstances adds to the instances of a late resource those that runs have made.
func (r *Runner) recallInstances(res *resource) {
	for _, u := range res.made {
		if res.named[u.Name] == nil {
			one := orphan(u)
			one.of, one.ensure = res, protocol.Present // until it is its turn
			r.join(res, one)
		}
	}
	res.expanded = res.expanded || len(res.instances) > 0 || r.spec.Recalled
}

// forgetInstances makes late resources late again, for another walk.
func (r *Runner) forgetInstances() {
	gone := func(res *resource) bool { return res.gone }
	for _, res := range r.orphans {
		if res.gone {
			delete(r.byNode, res.node())
		}
	}
	r.resources, r.orphans = slices.DeleteFunc(r.resources, gone), slices.DeleteFunc(r.orphans, gone)
	r.room = r.spec.Manifest.Room()
	for _, res := range r.resources {
		res.instances, res.expanded, res.named, res.before, res.told = nil, false, map[string]*resource{}, nil, 0
	}
}

// expandAgain makes late resources late again within a run: what is known of their instances stays.
func (r *Runner) expandAgain() {
	r.room = r.spec.Manifest.Room()
	for _, res := range r.resources {
		res.before, res.instances, res.expanded, res.named = res.named, nil, false, map[string]*resource{}
	}
}

// gone are the instances that runs made of late resources, and that these no longer have.
func (r *Runner) gone() (list []report.Undeclared) {
	for _, res := range r.declared() {
		if !res.expanded {
			continue
		}
		for _, u := range res.made {
			if _, key, _ := address.Split(u.Name); res.named[u.Name] == nil && res.Selects(key) {
				list = append(list, u)
			}
		}
	}
	return list
}

// orphanGone has the instances that late resources no longer have removed, as what else is no longer
// declared, if that is.
func (r *Runner) orphanGone() {
	if !r.spec.Prune {
		return
	}
	for _, u := range r.gone() {
		res := orphan(u)
		res.unprepared, res.gone = true, true
		r.orphan(res)
	}
}
