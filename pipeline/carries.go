package pipeline

import (
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/pipeline/definition"
)

// Files are the SHA-256 of files, in hexadecimal, by their paths below the workspace:
// manifests, and all that these include.
type Files map[string]string

// application is how a deployment applies a unit: which manifest, and with which files;
// nil are the present ones of the workspace.
type application struct {
	manifest string
	files    Files
}

// applies is how the deployment applies a unit that has this manifest in the present
// definition.
func (d *deployment) applies(unit, manifest string) application {
	if kept, ok := d.manifests[unit]; ok {
		manifest = kept
	}
	return application{manifest, d.files(manifest)}
}

// files are those with which a manifest is applied; nil are the present ones of the
// workspace.
func (d *deployment) files(manifest string) Files {
	if _, carried := d.carries[manifest]; carried {
		return d.carries
	}
	return d.brought[manifest]
}

// take lets the deployments that have not finished have a definition that has just become
// the current one. A step that a deployment had when its revision was released keeps its
// manifest, with the files that the revision carries: what changed in a step must not run
// for the first time in the middle of a rollout. A step that is new has the manifest of the
// first definition that has it, with the files of the first that brings them, so that all
// hosts get the same. A revision that adopts the definition is as if it had been released
// with it.
func (s *State) take(p payload) {
	s.manifests = manifestsOf(s.definition)
	present := units(s.definition)
	for _, d := range s.deployments {
		maps.DeleteFunc(d.adopted, func(unit string, _ bool) bool { return !slices.Contains(present, unit) })
		switch {
		case slices.Contains(p.Adopt, d.revision):
			s.adopt(d, p.Carries)
		case d.carries != nil:
			d.bring(s.manifests, p)
		}
	}
}

// bring gives a deployment the manifests of units that are new to it, and files for those
// for which it has none. Definitions of former versions gave all deployments all of their
// manifests.
func (d *deployment) bring(present map[string]string, p payload) {
	manifests, brought := maps.Clone(d.manifests), maps.Clone(d.brought) // a preview shares them
	if manifests == nil {
		manifests = map[string]string{}
	}
	for unit, manifest := range present {
		if _, known := manifests[unit]; !known || p.Version < keepsManifests {
			manifests[unit] = manifest
		}
		if _, given := p.Carries[manifest]; given && d.files(manifest) == nil {
			if brought == nil {
				brought = map[string]Files{}
			}
			brought[manifest] = p.Carries
		}
	}
	d.manifests, d.brought = manifests, brought
}

// adopt makes a revision one that was released with the present definition.
func (s *State) adopt(d *deployment, carries Files) {
	d.manifests, d.carries, d.brought, d.adopted = nil, carries, nil, map[string]bool{}
	if carries != nil {
		d.manifests = s.manifests
	}
	for _, unit := range units(s.definition) {
		d.adopted[unit] = true
	}
	s.revisions[d.order-1].Carries = carries
}

// Takes reports whether there are revisions that a change of the definition may bring
// anything to: those that are under way, and those that are kept to be retried.
func (s *State) Takes() bool { return len(s.deployments) > 0 }

// manifestsOf are the manifests of a definition by their units.
func manifestsOf(d *definition.Definition) map[string]string {
	all := map[string]string{}
	for i := range d.Stages {
		s := &d.Stages[i]
		if manifest, _ := s.Once(); manifest != "" {
			all[stageUnit(s.Name)] = manifest
		}
		if s.Deploy == nil {
			continue
		}
		for _, step := range s.Deploy.Steps {
			all[stepUnit(s.Name, step.Event)] = step.Manifest
		}
	}
	return all
}

// differs reports whether a manifest may come to something else with other files: its own
// text is another one, or that of a file that it may include, which is one that is no
// manifest itself. Of the present files of the workspace nothing is known, nor of what is no
// file, such as images, where it is not among the others: whoever asks did not look it up.
func (a application) differs(files Files, manifests map[string]bool) bool {
	if a.files == nil || files == nil {
		return (a.files == nil) != (files == nil)
	}
	for name, hash := range a.files {
		other, known := files[name]
		if !known && strings.HasPrefix(name, "/") {
			continue
		}
		if other != hash && (name == a.manifest || !manifests[name]) {
			return true
		}
	}
	return false
}
