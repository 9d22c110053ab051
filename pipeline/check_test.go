package pipeline

import (
	"fmt"

	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

// drift finds what of the derived state is not what a fresh derivation gives.
func (s *State) drift() string {
	if s.currentLayout() == nil {
		return ""
	}
	fresh := s.clone()
	fresh.currentLayout()
	for i, d := range s.deployments {
		if got, want := derived(d), derived(fresh.deployments[i]); got != want {
			return fmt.Sprintf("deployment %s has become\n%s, derived anew it is\n%s", d.ID, got, want)
		}
	}
	return ""
}

// derived is everything that lay finds, as text.
func derived(d *deployment.Deployment) string {
	text := fmt.Appendf(nil, "left %d without %v\n", d.Left, d.Skipped)
	for i := range d.Stages {
		run := &d.Stages[i]
		text = fmt.Appendf(text, "%d begun %t passed %t %v\n", i, run.Begun, run.Passed, allOf(run.Marks))
		for g := range run.Groups {
			group := &run.Groups[g]
			text = fmt.Appendf(text, "  %d begun %t finished %t failed %d beside %d open %d in flight %d again %d %v:", g, group.Begun, group.Finished, group.Failed, group.Beside, group.Open, group.InFlight, group.Reopened, allOf(group.Marks))
			for h := group.Head; h != deployment.None; h = group.Hosts[h].Next {
				text = fmt.Appendf(text, " %d", h)
			}
			for h, host := range group.Hosts {
				text = fmt.Appendf(text, "\n    %d last %d broken %t failed %t closed %t %v", h, host.Last, host.StepFailed, host.Failed, host.Closed, allOf(host.Marks))
			}
		}
	}
	return string(text)
}

func allOf(m *record.Marks) []record.Mark {
	if m == nil {
		return nil
	}
	return *m
}
