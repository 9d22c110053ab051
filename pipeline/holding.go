package pipeline

import (
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/step"
)

// Holder is what keeps a slot of a host: a deployment that has begun its steps there, and
// not finished them.
type Holder struct {
	Host       string
	Deployment string
	Revision   string
	Target     deploylog.Target
	Event      string // its next step there
}

// Holding are the deployments that keep slots of hosts. One that does not go on, because it
// ended, is paused or its host group holds, keeps none.
func (s *State) Holding() (all []Holder) {
	s.doable(func(step step.Step) bool {
		if step.Host != "" && s.inMidst(step) {
			all = append(all, Holder{step.Host, step.Deployment, step.Revision, step.Target, step.Event})
		}
		return true
	})
	return all
}

// inMidst reports whether steps were begun on the host of a step.
func (s *State) inMidst(step step.Step) bool {
	at := s.layout.HostAt[step.Target]
	host := &s.byID[step.Deployment].Stages[at.Stage].Groups[at.Group].Hosts[at.Host]
	return host.Last > 0 || step.Tries.Failed > 0 || s.Underway(step.Deployment, step.Target, step.Event)
}
