package runs

import (
	"maps"
	"slices"

	"github.com/deployster-go/deployster/runner/report"
)

// Visit is what a deployment of a pipeline did on a host in one of its stages.
type Visit struct {
	Last    Step   // its last step on the host, which is done
	Done    []Step // its earlier steps on the host
	LeftOut []Step // steps of the stage that it leaves out, which came to the pipeline after its revision

	// RollsBack says that it deploys an earlier revision: what the steps made that it leaves out goes.
	RollsBack bool

	// Elsewhere are the steps of other host groups of the pipeline that have the host. They remove what
	// they made themselves.
	Elsewhere []Step
}

// done are the steps that the deployment did.
func (v Visit) done() []Step { return append(slices.Clone(v.Done), v.Last) }

// others are the steps of the pipeline on the host that it did not do.
func (v Visit) others() []Step { return append(slices.Clone(v.LeftOut), v.Elsewhere...) }

// Steps are all steps of the pipeline on the host.
func (v Visit) Steps() []Step { return append(v.done(), v.others()...) }

// Leftovers returns what the steps of a pipeline made on a host and none of them declares any more, in the
// order of its names. It leaves out
//
//   - what any step of another pipeline declares there;
//   - what a step made that keeps it, or that is done in another stage;
//   - what a step made that the pipeline no longer has, until all of its other steps with the host
//     have been there: one of them may declare it under another name. A rollback leaves it, too: the
//     earlier revision may have had it.
func (h *Host) Leftovers(v Visit) (list []StepMade) {
	if !h.knows(v.done()) {
		return nil // an older version did not record what is declared
	}
	pipeline := v.Last.pipeline()
	counts := h.counting(v)
	for _, name := range slices.Sorted(maps.Keys(h.Made[pipeline])) {
		for _, m := range h.Made[pipeline][name] {
			if h.mayGo(m, v) && !slices.ContainsFunc(counts, func(d declared) bool { return d.has(m) }) {
				list = append(list, m)
			}
		}
	}
	return list
}

// counting are the declarations that keep on the host what they declare.
func (h *Host) counting(v Visit) (all []declared) {
	own := append(v.done(), v.Elsewhere...)
	if !v.RollsBack {
		own = append(own, v.LeftOut...)
	}
	for step, d := range h.Declared {
		if step.pipeline() != v.Last.pipeline() || slices.Contains(own, step) {
			all = append(all, d)
		}
	}
	return all
}

// mayGo reports whether a thing goes if nothing declares it.
func (h *Host) mayGo(m StepMade, v Visit) bool {
	switch {
	case h.Declared[m.Step].Keeps:
		return false
	case slices.Contains(v.done(), m.Step):
		return true
	case slices.Contains(v.LeftOut, m.Step):
		return v.RollsBack && slices.Contains(v.LeftOut, m.First)
	case slices.ContainsFunc(v.Elsewhere, func(s Step) bool { return s.Target == m.Step.Target }):
		return false
	default:
		return !v.RollsBack && h.knows(v.others())
	}
}

// knows reports whether it is known what all of some steps declare.
func (h *Host) knows(steps []Step) bool {
	return !slices.ContainsFunc(steps, func(s Step) bool {
		d, known := h.Declared[s]
		return !known || d.Gone
	})
}

// has reports whether a thing may be declared, under its name or another one.
func (d declared) has(m StepMade) bool {
	for name, may := range d.Things {
		for _, thing := range may {
			if report.Same(thing, m.Thing) || name == m.Name && !report.Differ(thing, m.Thing) {
				return true
			}
		}
	}
	return false
}
