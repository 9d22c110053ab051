package pipeline

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// checkMixed holds that a deployment that finishes a stage has left its own on every host
// there on which it did something: nothing that came between is mixed with it.
func (w *world) checkMixed(end deploylog.Event) string {
	if end.Name != "stage-finished-successfully" {
		return ""
	}
	last, did := map[deploylog.Target]string{}, map[deploylog.Target]bool{}
	for _, e := range w.log {
		if e.Target.Kind() == "host" && slices.Contains(someEvents, e.Name) {
			last[e.Target], did[e.Target] = e.Deployment, did[e.Target] || e.Deployment == end.Deployment
		}
	}
	for _, s := range w.oracle.definition.Stages {
		if s.Deploy == nil || end.Target != deploylog.Target("stage/p/"+s.Name) {
			continue
		}
		for _, g := range s.Deploy.HostGroups {
			for _, h := range w.oracle.members[g.Name] {
				if t := deploylog.Target("host/p/" + g.Name + "/" + h); did[t] && last[t] != end.Deployment {
					return fmt.Sprintf("%s finishes the stage with %s of %s", end.Deployment, t, last[t])
				}
			}
		}
	}
	return ""
}

// stagesOf are the stages that a revision goes through: all, or the one that it rolls back.
func (n *naive) stagesOf(r *revision) []definition.Stage {
	if r.only == "" {
		return n.definition.Stages
	}
	for _, s := range n.definition.Stages {
		if s.Name == r.only {
			s.After = nil
			return []definition.Stage{s}
		}
	}
	return nil
}
