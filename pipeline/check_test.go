package pipeline

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// check is run by tests after each event. It finds the cases that the seed
// calls impossible, edges3() (x, y, z) in which y is complete (000, 001) or x is
// not (100, 101, 110, 111), and drift.
func (s *State) check() string {
	for step := range s.Decide(noon, Can{}) {
		d := s.byID[step.Deployment]
		if d.Marks[step.Target].Has(step.Event) {
			return fmt.Sprintf("edges3 would be (x, COMPLETE, z): %s of %s is to be done and is complete", step.Event, step.Target)
		}
		if x := s.incompleteBefore(d, step); x != "" {
			return fmt.Sprintf("edges3 would be (INCOMPLETE, y, z): %s of %s is to be done before %s", step.Event, step.Target, x)
		}
	}
	return s.drift()
}

// due reports whether the work of a step is still what is decided.
func (s *State) due(step step.Step) bool {
	for now := range s.Decide(noon, Can{}) {
		if now.Deployment == step.Deployment && now.Target == step.Target && now.Event == step.Event && now.Attempt == step.Attempt {
			return now.Work() && now.Manifest == step.Manifest && now.Environment == step.Environment && slices.Equal(now.Artifacts, step.Artifacts)
		}
	}
	return false
}

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

// incompleteBefore finds a predecessor of a step that is neither complete nor
// gone by nor left out.
func (s *State) incompleteBefore(d *deployment.Deployment, step step.Step) string {
	at, ok := s.layout.Place(step.Target)
	if !ok || record.IsFailure(step.Event) {
		return ""
	}
	stage, run := &s.layout.Stages[at.Stage], &d.Stages[at.Stage]
	if at.Group == deployment.None && step.Event == record.StageStarted {
		for _, b := range stage.Before {
			if !d.Stages[b].Passed {
				return "the end of stage " + s.layout.Stages[b].Name
			}
		}
		return ""
	}
	if at.Group == deployment.None && step.Event == record.StageFinished {
		for g := range stage.Groups {
			if !run.Groups[g].Marks.Has(record.GroupFinished) && !d.LeavesOut(stage.Groups[g].Target) {
				return "the end of group " + stage.Groups[g].Name
			}
		}
	}
	if !run.Begun {
		return "the start of stage " + stage.Name
	}
	if at.Group == deployment.None {
		return ""
	}
	return incompleteInGroup(d, stage, at, step)
}

// incompleteInGroup is incompleteBefore for steps of groups and of hosts.
func incompleteInGroup(d *deployment.Deployment, stage *deployment.StageLayout, at deployment.Place, step step.Step) string {
	layout, group := &stage.Groups[at.Group], &d.Stages[at.Stage].Groups[at.Group]
	if at.Host == deployment.None {
		for h, host := range group.Hosts {
			if step.Event == record.GroupFinished && !host.Beside && !host.Marks.Has(record.HostFinished) && !host.Marks.Has(record.HostFailed) {
				return "the end of host " + layout.Hosts[h].Name
			}
		}
		return ""
	}
	if !group.Begun {
		return "the start of group " + layout.Name
	}
	m := group.Hosts[at.Host].Marks
	for c, event := range stage.Chain[:slices.Index(stage.Chain, step.Event)] {
		isLate := slices.ContainsFunc(stage.Introduced, func(l deployment.Introduction) bool { return l.At == c && d.Skips(l) })
		goneBy := slices.ContainsFunc(stage.Chain[c+1:], m.Has)
		if !m.Has(event) && !isLate && !goneBy {
			return event
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

// fold makes a state of a log.
func fold(name string, log []deploylog.Event) *State {
	s := New(name)
	for _, e := range log {
		s.Apply(e)
	}
	return s
}
