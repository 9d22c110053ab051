package deployment

import (
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// Application is how a deployment applies a unit: which manifest, and with which files;
// nil are the present ones of the workspace.
type Application struct {
	Manifest string
	Files    record.Files
}

// Applies is how the deployment applies a unit that has this manifest in the present
// definition.
func (d *Deployment) Applies(unit, manifest string) Application {
	if kept, ok := d.Manifests[unit]; ok {
		manifest = kept
	}
	return Application{manifest, d.files(manifest)}
}

// Files are those with which a manifest is applied; nil are the present ones of the
// workspace.
func (d *Deployment) files(manifest string) record.Files {
	if _, carried := d.Carries[manifest]; carried {
		return d.Carries
	}
	return d.Brought[manifest]
}

// Bring gives a deployment the manifests of units that are new to it, and files for those
// for which it has none. Definitions of former versions gave all deployments all of their
// manifests. One that carries nothing, which a former version released, gets nothing.
// own is what the definition names itself, which counts if who may bring no more made the one that brings them.
func (d *Deployment) Bring(present map[string]string, p record.Payload, own record.Files) {
	if d.Carries == nil {
		return
	}
	manifests, brought, bound := maps.Clone(d.Manifests), maps.Clone(d.Brought), maps.Clone(d.BroughtBound) // a preview shares them
	if manifests == nil {
		manifests = map[string]string{}
	}
	for unit, manifest := range present {
		if _, known := manifests[unit]; !known || p.Version < record.KeepsManifests {
			manifests[unit] = manifest
		}
		if _, given := p.Carries[manifest]; given && d.files(manifest) == nil {
			if brought == nil {
				brought = map[string]record.Files{}
			}
			brought[manifest] = p.Carries
			if p.Bound {
				if bound == nil {
					bound = map[string]record.Files{}
				}
				bound[manifest] = own
			}
		}
	}
	d.Manifests, d.Brought, d.BroughtBound = manifests, brought, bound
}

// Bounds are what a revision may bring that was released by who may not bring everything.
type Bounds struct {
	Allow    *allow.Rules // by the present definition; nil is nothing
	Own      record.Files // what the definition names itself, in which all else has to be; nil is not known
	Revision bool         // also its name is theirs, and not only its artifacts
}

// Bounds are those of what the deployment applies; nil is that it may apply what it carries.
func (d *Deployment) Bounds(l *Layout, manifest string) *Bounds {
	filled := d.Filled || slices.ContainsFunc(d.Takes, func(in upstream.Input) bool { return in.Bound })
	_, carried := d.Carries[manifest]
	by, bound := d.BroughtBound[manifest]
	b := &Bounds{Allow: l.Allow, Own: d.files(manifest), Revision: d.Bound}
	switch {
	case carried && d.Bound:
		b.Own = d.Own
	case !carried && bound:
		b.Own = by
	case !d.Bound && !filled:
		return nil
	}
	return b
}

// ManifestsOf are the manifests of a definition by their units.
func ManifestsOf(d *definition.Definition) map[string]string {
	all := map[string]string{}
	for i := range d.Stages {
		s := &d.Stages[i]
		if manifest, _ := s.Once(); manifest != "" {
			all[stageUnit(s)] = manifest
		}
		if s.Deploy == nil {
			continue
		}
		for _, step := range s.Deploy.Steps {
			all[StepUnit(s.Name, step.Event)] = step.Manifest
		}
	}
	return all
}

// Differs reports whether a manifest may come to something else with other files: its own
// text is another one, or that of a file that it may include, which is one that is no
// Manifest itself. Of the present files of the workspace nothing is known, nor of what is no
// file, such as images, where it is not among the others: whoever asks did not look it up.
func (a Application) Differs(files record.Files, manifests map[string]bool) bool {
	if a.Files == nil || files == nil {
		return (a.Files == nil) != (files == nil)
	}
	for name, hash := range a.Files {
		other, known := files[name]
		if _, group := record.StageOfGroup(name); group || !known && strings.HasPrefix(name, "/") {
			continue // no manifest reads what a build group is made of
		}
		if other != hash && (name == a.Manifest || !manifests[name]) {
			return true
		}
	}
	return false
}

// Application is the manifest that the definition names for an event of a stage, or of a host
// there, and how the deployment applies it.
func (d *Deployment) Application(stage *StageLayout, onHost bool, event string) (manifest string, as Application) {
	unit := stage.Unit
	if i := slices.Index(stage.Chain, event); onHost && i > 0 && i < len(stage.Chain)-1 {
		manifest, unit = stage.Deploy.Steps[i-1].Manifest, stage.Units[i-1]
	} else if event == record.StageApplied || event == record.StageBuilt {
		manifest, _ = stage.Once()
	}
	if manifest == "" {
		return "", Application{}
	}
	return manifest, d.Applies(unit, manifest)
}
