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

// Defines reports whether a definition is the current one.
func (s *State) Defines(d *definition.Definition) bool {
	if s.definition == nil {
		return false
	}
	other, err := json.Marshal(d)
	own, errOwn := json.Marshal(s.definition)
	return err == nil && errOwn == nil && bytes.Equal(own, other)
}

// Cause is why something failed, ended otherwise, is paused, or holds, as recorded in
// its event; "" for other events.
func Cause(e deploylog.Event) string {
	p := read(e.Data)
	switch e.Name {
	case EventMembersHeld, EventCancelled, EventDeleted, EventSkipped, EventRejected,
		EventPaused, EventResumed, EventStagePaused, EventStageResumed:
		return p.Reason
	case EventStepsEnded:
		if len(p.Steps) > 0 {
			return p.Steps[0].Error
		}
	}
	if p.SupersededBy != "" {
		return supersededText(p.SupersededBy)
	}
	return p.Error
}
