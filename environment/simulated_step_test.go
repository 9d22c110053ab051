package environment

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
)

// steps are those of a deployment, at times none.
func (s *simulation) steps() []definition.Wave {
	wait := func() *definition.Duration {
		d := definition.Duration(pick(s, 0, time.Minute, 10*time.Minute, 30*time.Minute))
		return pick(s, &d, &d, nil)
	}
	test := func() string { return pick(s, "", "", "good.yaml", "good.yaml", badTest) }
	step := func(b budget.Budget) definition.Wave { return definition.Wave{Hosts: b, Pause: wait(), Verify: test()} }
	all := definition.Wave{Hosts: budget.Budget{Percent: 100}, Verify: test()}
	return pick(s, nil, nil, nil,
		[]definition.Wave{step(budget.Budget{Count: 1}), all},
		[]definition.Wave{step(budget.Budget{Count: 1}), step(budget.Budget{Percent: 25}), step(budget.Budget{Percent: 60})},
		[]definition.Wave{step(budget.Budget{Percent: 30}), step(budget.Budget{Count: 2}), all},
	)
}

// promote lets a deployment go on that waits; it must be refused just when none does.
func (s *simulation) promote() {
	f := s.naive.force
	may := f != nil && s.told.Exists() && s.naive.stepped() && !f.stepAt.IsZero() && s.naive.stepIsDone() && !f.verify.open
	if done := s.command(Promote{By: "alice@host"}); done != may {
		s.fail("it is promoted: %t, and may be: %t", done, may)
	}
}

// stepped reports whether a step bounds the deployment.
func (n *naive) stepped() bool {
	f := n.force
	return !f.reached && f.kind != record.ByDelete && f.step < len(f.configuration.Steps)
}

// mostBegun is how many hosts may have the new task, or be about to: the least number that
// is no less than the percentages, for no step has fewer than those before it.
func (n *naive) mostBegun() (most int) {
	for _, step := range n.force.configuration.Steps[:n.force.step+1] {
		if step.Hosts.Count > most {
			most = step.Hosts.Count
		}
		for step.Hosts.Count == 0 && float64(100*most) < step.Hosts.Percent*float64(n.wanted()) {
			most++
		}
	}
	return most
}

// beginning reports whether the deployment is at work on a host, or was.
func (n *naive) beginning(h *naiveHost) bool {
	t := n.mine(h)
	return h.wanted && (t.up() || t != nil && t.blamed == n.force.id || h.begun || n.force.taken[h.name] && h.ups() == 0)
}

func (n *naive) begun() []*naiveHost { return n.there(n.beginning) }

// bounded reports whether something counts for the step.
func (n *naive) bounded(h *naiveHost, do todo) bool {
	return n.stepped() && n.enters(h, do)
}

// enters reports whether the deployment begins its work on a host with something.
func (n *naive) enters(h *naiveHost, do todo) bool {
	return h.wanted && !n.isCordoned(h) && !n.beginning(h) && (do.kind == tasks.Start || do.kind == tasks.Terminate && n.takes(h, h.tasks[do.revision]))
}

// takes reports whether a host is without any task, or any that is up, when one leaves.
func (n *naive) takes(h *naiveHost, t *naiveTask) bool {
	return t.status != report.TaskTerminating && (len(h.tasks) == 1 || h.ups() == 1 && t.up())
}

// losesStep wants a step to be done again when its hosts are not well any more.
func (n *naive) losesStep(e deploylog.Event) {
	if n.force != nil && n.stepped() && !n.force.stepAt.IsZero() && !n.stepIsDone() {
		n.force.stepAt, n.force.verify = time.Time{}, naiveVerify{}
		if !n.force.stepLost {
			n.force.stepLost, n.force.progress = true, e.CreatedAt
		}
	}
}

// mayBegin is how many more hosts the step lets begin.
func (n *naive) mayBegin() int {
	if !n.stepped() {
		return 1 << 30
	}
	return n.mostBegun() - len(n.begun())
}

// stepIsDone reports whether enough hosts are begun, and are as they are to be, but for some
// failures; and others are left.
func (n *naive) stepIsDone() bool {
	if n.allWell() {
		return n.testsLeft() > 0 || n.force.verify.done
	}
	failed, may := 0, 0
	if b := n.force.configuration.MaxFailed; b != nil {
		may = min(b.Of(n.mostBegun()), n.mostBegun()-1)
	}
	for _, h := range n.begun() {
		if n.unsettled(h) {
			if failed++; !slices.Contains(n.failed(), h) {
				return false
			}
		}
	}
	others := n.there(func(h *naiveHost) bool { return h.wanted && !n.beginning(h) && !n.isCordoned(h) })
	return failed <= may && n.mayBegin() <= 0 && len(others) > 0 && n.runs()
}

func (n *naive) isCordoned(h *naiveHost) bool {
	_, is := n.cordons[h.name]
	return is
}

// dueStep is what is to be recorded of the steps.
func (n *naive) dueStep(now time.Time, seen bool) string {
	f := n.force
	if !n.stepped() || !n.known || !seen || f.waits || !n.stepIsDone() {
		return ""
	}
	pause := f.configuration.Steps[f.step].Pause
	switch {
	case f.stepAt.IsZero():
		return "a step"
	case n.awaitsTest():
		return ""
	case n.allWell(), pause != nil && !now.Before(f.stepAt.Add(time.Duration(*pause))):
		return "a promotion"
	}
	return ""
}

// noteStep takes note that a step is done or over, and wants it to be.
func (n *naive) noteStep(s *simulation, e deploylog.Event, p record.Payload) {
	f := n.force
	want := map[bool]string{true: "a promotion", false: "a step"}[e.Name == record.EnvironmentPromoted]
	person := e.Name == record.EnvironmentPromoted && !p.Automatic
	if p.StepNumber != f.step+1 || !person && n.due(s.now, true) != want || person && (f.stepAt.IsZero() || !n.stepIsDone() || f.verify.open) {
		s.fail("%s of step %d, which it is not: %q is due", e.Name, p.StepNumber, n.due(s.now, true))
	}
	f.moved, f.stuck = true, f.stuck && n.halted()
	if e.Name == record.EnvironmentPromoted || !f.stepLost {
		f.progress = e.CreatedAt
	}
	if f.stepAt = e.CreatedAt; e.Name == record.EnvironmentPromoted {
		f.step, f.stepAt, f.stepLost, f.verify = f.step+1, time.Time{}, false, naiveVerify{}
	}
}

// noteTaken takes note that the deployment takes a task away that may be of use.
func (n *naive) noteTaken(e deploylog.Event, h *naiveHost, t *naiveTask) {
	if e.Name == record.TaskTerminating && e.Deployment == n.force.id && h.wanted && !n.isCordoned(h) && n.takes(h, t) {
		n.force.taken[h.name] = true
	}
}
