package pipeline

import (
	"bytes"
	"encoding/json"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
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

// Places are all places of the current definition, each before those in it.
func (s *State) Places() []Place {
	places := []Place{{Target: s.target}}
	if s.currentLayout() == nil {
		return places
	}
	for i := range s.layout.Stages {
		stage := &s.layout.Stages[i]
		places = append(places, Place{Target: stage.Target, Stage: stage.Name, After: stage.After})
		for g := range stage.Groups {
			group := &stage.Groups[g]
			places = append(places, Place{Target: group.Target, Stage: stage.Name, Group: group.Name})
			for h := range group.Hosts {
				places = append(places, Place{Target: group.Hosts[h].Target, Stage: stage.Name, Group: group.Name, Host: group.Hosts[h].Name})
			}
		}
	}
	return places
}

// Defines reports whether a definition is the current one.
func (s *State) Defines(d *definition.Definition) bool {
	if s.definition == nil {
		return false
	}
	other, err := json.Marshal(d)
	own, errOwn := json.Marshal(s.definition)
	return err == nil && errOwn == nil && bytes.Equal(own, other)
}
