package pipeline

import (
	"bytes"
	"encoding/json"

	"github.com/deployster-go/deployster/deploylog"
)

// Place is where something of a pipeline is deployed: the pipeline itself, a
// stage, a host group or a host.
type Place struct {
	Target deploylog.Target `json:"target"`
	Stage  string           `json:"stage,omitempty"`
	Group  string           `json:"host_group,omitempty"`
	Host   string           `json:"host,omitempty"`
	After  []string         `json:"after,omitempty"` // of a stage: those it comes directly after
}

// Places are all places of the present definition, each before those in it.
func (s *State) Places() []Place {
	places := []Place{{Target: s.target}}
	if s.currentLayout() == nil {
		return places
	}
	for i := range s.layout.stages {
		stage := &s.layout.stages[i]
		places = append(places, Place{Target: stage.target, Stage: stage.Name, After: stage.After})
		for g := range stage.groups {
			group := &stage.groups[g]
			places = append(places, Place{Target: group.target, Stage: stage.Name, Group: group.Name})
			for h := range group.hosts {
				places = append(places, Place{Target: group.hosts[h].target, Stage: stage.Name, Group: group.Name, Host: group.hosts[h].name})
			}
		}
	}
	return places
}

// Defines reports whether a definition is the present one.
func (s *State) Defines(d *Definition) bool {
	if s.definition == nil {
		return false
	}
	theirs, err := json.Marshal(d)
	ours, errOurs := json.Marshal(s.definition)
	return err == nil && errOurs == nil && bytes.Equal(ours, theirs)
}

// Manifests calls do with every manifest of the definition and the stage that it
// is of; do may change its path.
func (d *Definition) Manifests(do func(stage string, path *string)) {
	for i := range d.Stages {
		s := &d.Stages[i]
		switch {
		case s.Build != nil && s.Build.Manifest != "":
			do(s.Name, &s.Build.Manifest)
		case s.Run != nil:
			do(s.Name, &s.Run.Manifest)
		case s.Deploy != nil:
			for j := range s.Deploy.Steps {
				do(s.Name, &s.Deploy.Steps[j].Manifest)
			}
		}
	}
}

// Cause is why something failed, as its event tells; "" for other events.
func Cause(e deploylog.Event) string { return read(e.Data).Error }
