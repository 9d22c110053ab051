package pipeline

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
)

// check is run by tests after each event. It finds the cases that the seed
// calls impossible, edges3() (x, y, z) in which y is complete (000, 001) or x is
// not (100, 101, 110, 111), and drift.
func (s *State) check() string {
	for step := range s.Decide(noon, Can{}) {
		d := s.byID[step.Deployment]
		if d.marks[step.Target].has(step.Event) {
			return fmt.Sprintf("edges3 would be (x, COMPLETE, z): %s of %s is to be done and is complete", step.Event, step.Target)
		}
		if x := s.incompleteBefore(d, step); x != "" {
			return fmt.Sprintf("edges3 would be (INCOMPLETE, y, z): %s of %s is to be done before %s", step.Event, step.Target, x)
		}
	}
	return s.drift()
}

// due reports whether the work of a step is still what is decided.
func (s *State) due(step Step) bool {
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
		if got, want := d.derived(), fresh.deployments[i].derived(); got != want {
			return fmt.Sprintf("deployment %s has become\n%s, derived anew it is\n%s", d.id, got, want)
		}
	}
	return ""
}

// incompleteBefore finds a predecessor of a step that is neither complete nor
// gone by nor left out.
func (s *State) incompleteBefore(d *deployment, step Step) string {
	at, ok := s.layout.place(step.Target)
	if !ok || isFailure(step.Event) {
		return ""
	}
	stage, run := &s.layout.stages[at.stage], &d.stages[at.stage]
	if at.group == none && step.Event == stageStarted {
		for _, b := range stage.before {
			if !d.stages[b].passed {
				return "the end of stage " + s.layout.stages[b].Name
			}
		}
		return ""
	}
	if at.group == none && step.Event == stageFinished {
		for g := range stage.groups {
			if !run.groups[g].marks.has(groupFinished) {
				return "the end of group " + stage.groups[g].Name
			}
		}
	}
	if !run.begun {
		return "the start of stage " + stage.Name
	}
	if at.group == none {
		return ""
	}
	return d.incompleteInGroup(stage, at, step)
}

// incompleteInGroup is incompleteBefore for steps of groups and of hosts.
func (d *deployment) incompleteInGroup(stage *stageLayout, at place, step Step) string {
	layout, group := &stage.groups[at.group], &d.stages[at.stage].groups[at.group]
	if at.host == none {
		for h, host := range group.hosts {
			if step.Event == groupFinished && !host.marks.has(hostFinished) && !host.marks.has(hostFailed) {
				return "the end of host " + layout.hosts[h].name
			}
		}
		return ""
	}
	if !group.begun {
		return "the start of group " + layout.Name
	}
	m := group.hosts[at.host].marks
	for c, event := range stage.chain[:slices.Index(stage.chain, step.Event)] {
		isLate := slices.ContainsFunc(stage.introduced, func(l introduction) bool { return l.at == c && d.skips(l) })
		goneBy := slices.ContainsFunc(stage.chain[c+1:], m.has)
		if !m.has(event) && !isLate && !goneBy {
			return event
		}
	}
	return ""
}

// derived is everything that lay finds, as text.
func (d *deployment) derived() string {
	text := fmt.Appendf(nil, "left %d without %v\n", d.left, d.skipped)
	for i := range d.stages {
		run := &d.stages[i]
		text = fmt.Appendf(text, "%d begun %t passed %t %v\n", i, run.begun, run.passed, run.marks.all())
		for g := range run.groups {
			group := &run.groups[g]
			text = fmt.Appendf(text, "  %d begun %t finished %t failed %d open %d in flight %d again %d %v:", g, group.begun, group.finished, group.failed, group.open, group.inFlight, group.reopened, group.marks.all())
			for h := group.head; h != none; h = group.hosts[h].next {
				text = fmt.Appendf(text, " %d", h)
			}
			for h, host := range group.hosts {
				text = fmt.Appendf(text, "\n    %d last %d broken %t failed %t closed %t %v", h, host.last, host.stepFailed, host.failed, host.closed, host.marks.all())
			}
		}
	}
	return string(text)
}

func (m *marks) all() []mark {
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
