package deployment

import (
	"cmp"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Redone is what a deployment goes by that does something of a stage again.
type Redone struct {
	Info     *record.RedoInfo // nil of a deployment that does nothing again
	Ending   Ending           // of the stage
	order    int              // of what is done again
	rollback bool             // that is one
	hosts    map[deploylog.Target]bool
}

// Ending is how a stage was finished last.
type Ending struct {
	Kind    string                           // of the stage, at that moment
	Failed  map[deploylog.Target]record.Mark // hosts that failed all the same, and have not been repaired
	Steps   []definition.HostStep
	Without []string // of these, steps that it was finished without
}

// did reports whether a step was done where the stage was finished.
func (f Ending) did(event string) bool {
	return !slices.Contains(f.Without, event) && slices.ContainsFunc(f.Steps, func(s definition.HostStep) bool { return s.Event == event })
}

// Repaired is the ending without a host that did not fail again; a preview shares the other.
func (f Ending) Repaired(host deploylog.Target) Ending {
	if _, failed := f.Failed[host]; failed {
		f.Failed = maps.Clone(f.Failed)
		delete(f.Failed, host)
	}
	return f
}

// Ends is how the deployment has finished a stage of a definition, nil is none, with an event;
// it was finished before as last says.
func (d *Deployment) Ends(by *definition.Definition, e deploylog.Event, last Ending) Ending {
	now := Ending{Failed: map[deploylog.Target]record.Mark{}, Without: record.SkipsOf(e).Steps}
	if d.repairs() {
		maps.Copy(now.Failed, last.Failed)
		now.Steps, now.Without = last.Steps, last.Without
	}
	if by == nil {
		return now
	}
	i := slices.IndexFunc(by.Stages, func(s definition.Stage) bool { return record.StageTarget(by.Name, s.Name) == e.Target })
	if i < 0 {
		return now
	}
	stage := &by.Stages[i]
	now.Kind = stage.Kind()
	if stage.Deploy == nil {
		return now
	}
	if !d.repairs() {
		now.Steps = stage.Deploy.Steps
	}
	for host, k := range d.FailedHosts {
		group, _, _ := record.GroupOf(host)
		if slices.ContainsFunc(stage.Deploy.HostGroups, func(g definition.HostGroup) bool { return record.GroupTarget(by.Name, g.Name) == group }) {
			now.Failed[host] = k
		}
	}
	return now
}

// Again makes the deployment one that does a stage of a revision again, which was finished as
// ending says by a deployment of that order, a rollback or not.
func (d *Deployment) Again(info *record.RedoInfo, ending Ending, order int, rollback bool) {
	ending.Failed = nil // it changes
	d.Redo = Redone{Info: info, Ending: ending, order: order, rollback: rollback}
	for _, host := range info.Hosts {
		if d.Redo.hosts == nil {
			d.Redo.hosts = map[deploylog.Target]bool{}
		}
		d.Redo.hosts[host] = true
	}
}

// Inherit has the deployment do its steps with the inputs of an earlier one of its revision,
// the first of which is original and of that order.
func (d *Deployment) Inherit(in Inputs, original string, order int) {
	d.Age, d.Original = order, original
	d.Manifests, d.Brought, d.BroughtBound, d.Adopted = in.Manifests, in.Brought, in.BroughtBound, maps.Clone(in.Adopted)
	for kind, ref := range in.Refs {
		d.Refs[kind] = ref
	}
	d.Bound, d.Own, d.Filled = d.Bound || in.Bound, in.Own, in.Filled
}

// Only is the stage in which a deployment is that does not go through the pipeline.
func (d *Deployment) Only() deploylog.Target {
	switch {
	case d.Rollback != nil:
		return d.Rollback.Target
	case d.Redo.Info != nil:
		return d.Redo.Info.Target
	}
	return ""
}

// Of is the deployment that is done again; it is the deployment itself where that does
// nothing again.
func (d *Deployment) Of() string {
	if d.Redo.Info != nil {
		return d.Redo.Info.Of
	}
	return d.ID
}

// Rank is the order that the deployment has among those that come to a stage: what does one
// again has that of what it does again.
func (d *Deployment) Rank() int { return cmp.Or(d.Redo.order, d.Order) }

// Aside reports whether the deployment counts for nobody who comes to its stage: it is a
// rollback, or does one again.
func (d *Deployment) Aside() bool { return d.Rollback != nil || d.Redo.rollback }

// repairs reports whether the deployment is of some hosts of its stage only.
func (d *Deployment) repairs() bool { return len(d.Redo.hosts) > 0 }

// LeavesOut reports whether a host group has none of the hosts that a repair is of.
func (d *Deployment) LeavesOut(group deploylog.Target) bool {
	return d.repairs() && !slices.ContainsFunc(d.Redo.Info.Hosts, func(host deploylog.Target) bool {
		of, _, _ := record.GroupOf(host)
		return of == group
	})
}

// Role is what the deployment does with its revision, in words.
func (d *Deployment) Role() string {
	switch {
	case d.Rollback != nil:
		return "the rollback of stage " + d.Rollback.Stage
	case d.Redo.Info != nil:
		return "the " + string(d.Redo.Info.What) + " of stage " + d.Redo.Info.Stage
	default:
		return "its release"
	}
}

// Elsewhere reports whether a stage is not the only one that the deployment is in.
func (d *Deployment) Elsewhere(stage *StageLayout) bool {
	return d.Only() != "" && d.Only() != stage.Target
}

// Aimless is why a deployment fails whose only stage has left the pipeline, such as by another
// name, before it was finished; "" is nothing.
func (d *Deployment) Aimless(l *Layout) string {
	only := d.Only()
	if only == "" || d.Marks[only].Has(record.StageFinished) {
		return ""
	}
	switch _, there := l.StageAt[only]; {
	case there:
		return ""
	case d.Rollback != nil:
		return "stage " + d.Rollback.Stage + " is not in the pipeline any more: roll back a stage that is"
	}
	return "stage " + d.Redo.Info.Stage + " is not in the pipeline any more"
}

// Lacks finds a manifest that a stage would apply, and that the deployment does not carry. An
// environment has what it applies.
func (d *Deployment) Lacks(stage *StageLayout) (manifest string, lacks bool) {
	carried := func(unit, manifest string) (string, bool) {
		as := d.Applies(unit, manifest)
		_, known := d.Manifests[unit]
		return as.Manifest, as.Files != nil && known
	}
	if once, _ := stage.Once(); once != "" {
		manifest, known := carried(stage.Unit, once)
		return manifest, !known
	}
	if stage.Deploy == nil {
		return "", false
	}
	for at, step := range stage.Deploy.Steps {
		late := slices.ContainsFunc(stage.Introduced, func(in Introduction) bool { return in.At == at+1 && d.Older(in) })
		if manifest, known := carried(stage.Units[at], step.Manifest); !late && !known {
			return manifest, true
		}
	}
	return "", false
}

// FailedIn are those of the hosts of a stage that failed when it was finished, and are in it
// still, that have these names, no names being all of them; and the names of all that failed.
func (f Ending) FailedIn(stage *StageLayout, names []string) (hosts []deploylog.Target, failed []string) {
	for g := range stage.Groups {
		for _, host := range stage.Groups[g].Hosts {
			if _, is := f.Failed[host.Target]; !is {
				continue
			}
			failed = append(failed, host.Name)
			if len(names) == 0 || slices.Contains(names, host.Name) {
				hosts = append(hosts, host.Target)
			}
		}
	}
	return hosts, failed
}
