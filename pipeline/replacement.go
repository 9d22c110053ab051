package pipeline

import (
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/deployment"
)

// Replacement is that a revision in progress is to come to the hosts of a stage, in place of another one.
type Replacement struct {
	Stage      string
	Revision   string
	Deployment string
	Before     string // the deployment that finished the stage last
}

// Replacements returns which revisions are to come to the hosts at or below a target that have another one,
// oldest first.
func (s *State) Replacements(t deploylog.Target) (all []Replacement) {
	at, why := s.find(t)
	if why != nil || s.currentLayout() == nil {
		return nil
	}
	for _, d := range s.deployments {
		for i := range s.layout.Stages {
			stage := &s.layout.Stages[i]
			place := deployment.Place{Stage: i, Group: deployment.None, Host: deployment.None}
			v := s.visits[stage.Target]
			only := d.Only()
			if d.Status != deployment.Running || stage.Deploy == nil || d.Stages[i].Passed || !at.Touches(place) || only != "" && only != stage.Target || len(v.finished) == 0 {
				continue
			}
			if before := s.revisions[v.finished[len(v.finished)-1]]; before.Revision != d.Revision {
				all = append(all, Replacement{Stage: stage.Name, Revision: d.Revision, Deployment: d.ID, Before: before.Deployment})
			}
		}
	}
	return all
}
