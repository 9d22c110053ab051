package environment

import (
	"slices"

	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
)

// takeOver deploys a revision with what another environment left on some of its hosts: tasks
// that are well, that differ, or that are gone by now.
func (s *simulation) takeOver(revision int) bool {
	hosts := s.selected(s.naive.revisions[revision-1].InstanceGroup.Query)
	same := slices.DeleteFunc(slices.Clone(hosts), func(string) bool { return s.chance(0.3) })
	if !s.command(AdoptFrom{From: "Other", Revision: revision, Hosts: hosts, Same: same, By: "alice@host"}) {
		return false
	}
	for _, name := range same {
		if now := pick(s, sound, sound, drifted, sick, ""); now != "" {
			s.machine(name).tasks[revision] = now
		}
		s.tally["taken over"]++
	}
	return true
}

// noteTakenOver takes note of tasks of which nobody knows yet how they are.
func (n *naive) noteTakenOver(p record.Payload) {
	for _, name := range *p.Hosts {
		n.host(name).tasks[n.force.task] = &naiveTask{of: n.force.revision, status: report.TaskLost}
	}
}
