package environment

import (
	"errors"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/hosts"
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

func (n *naive) beginning(h *naiveHost) bool {
	t := n.mine(h)
	return h.wanted && (t.up() || t != nil && t.blamed == n.force.id || h.begun || n.force.taken[h.name] && h.ups() == 0)
}

func (n *naive) begun() []*naiveHost { return n.there(n.beginning) }

// bounded reports whether something counts for the step.
func (n *naive) bounded(h *naiveHost, do todo) bool { return n.stepped() && n.enters(h, do) }

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

func (n *naive) mayBegin() int {
	if !n.stepped() {
		return 1 << 30
	}
	return n.mostBegun() - len(n.begun())
}

// stepIsDone reports whether enough hosts are begun, and are as they are to be, but for some failures; and others are left.
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

func (n *naive) isCordoned(h *naiveHost) bool { _, is := n.cordons[h.name]; return is }

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

// naiveVerify is how far the present step is verified.
type naiveVerify struct {
	try        int // the last
	open, done bool
	failures   int
	rests      time.Time
}

// badTest is a manifest that never succeeds.
const badTest = "bad.yaml"

func (c *controller) undertakeVerify(step tasks.Step) {
	if w := c.working[""]; w != nil {
		c.fail("step %d is verified, and so is step %d already", step.Number, w.step.Number)
	}
	v := c.state.Verification(step)
	if v.Manifest != c.naive.test() || v.Step != c.naive.force.step+1 || len(v.Hosts) == 0 {
		c.fail("it verifies %+v", v)
	}
	w := &work{step: step, of: c, begins: c.now}
	for _, other := range c.works { // what a dead process left is waited for
		if other.step.Kind == tasks.Verify && !other.lost && other.ends.After(w.begins) {
			w.begins = other.ends
		}
	}
	w.ends = w.begins.Add(c.lasts(w))
	c.works, c.working[""] = append(c.works, w), w
	c.at(w.ends, func() {
		c.over(w)
		if failing := !c.calm && c.chance(c.nature.failures); v.Manifest == badTest || failing {
			w.err = errors.New("there is no answer")
		}
		if now := c.control; now != nil && w.of == now {
			delete(now.working, "")
			now.ended, now.news = append(now.ended, w), true
		}
	})
	c.record("a beginning", step.Events)
}

// test is the manifest that verifies the present step.
func (n *naive) test() string {
	if !n.stepped() {
		return ""
	}
	return n.force.configuration.Steps[n.force.step].Verify
}

func (n *naive) awaitsTest() bool {
	return n.test() != "" && !n.force.stepAt.IsZero() && !n.force.verify.done
}

// untested reports whether it was tried three times, and failed each time.
func (n *naive) untested() bool {
	v := n.force.verify
	return n.awaitsTest() && !v.open && v.failures >= 3
}

func (n *naive) testsLeft() (left int) {
	if !n.stepped() {
		return 0
	}
	for i, step := range n.force.configuration.Steps {
		if step.Verify != "" && (i > n.force.step || i == n.force.step && !n.force.verify.done) {
			left++
		}
	}
	return left
}

// allWell reports whether all hosts are as they are to be, but for those that had their chance.
func (n *naive) allWell() bool {
	left := n.there(n.unsettled)
	if n.force.kind == record.ByDelete || !n.runs() || len(left) > 0 && (len(left) > n.tolerated() || len(left) >= n.wanted()) {
		return false
	}
	for _, h := range left {
		if !n.hopeless(h) {
			return false
		}
	}
	return true
}

func (n *naive) mayTest(now time.Time, can Can) bool {
	v := n.force.verify
	return n.awaitsTest() && n.known && can.Disrupt && !n.force.paused && !n.force.waits && !n.untested() && !v.rests.After(now) && n.stepIsDone() && (can.Verify == nil || can.Verify())
}

// noteTest takes note of a try to verify a step, and of its end.
func (n *naive) noteTest(s *simulation, e deploylog.Event, p record.Payload) {
	f := n.force
	if e.Name == record.StepVerifying {
		if f == nil || e.Deployment != f.id || p.StepNumber != f.step+1 || !n.mayTest(s.now, Can{Disrupt: true}) {
			s.fail("step %d is verified, and is not to be", p.StepNumber)
		}
		f.verify.try, f.verify.open, f.verify.rests = e.Attempt, true, time.Time{}
		return
	}
	if f == nil || e.Deployment != f.id || !n.awaitsTest() || p.StepNumber != f.step+1 || !f.verify.open || f.verify.try != e.Attempt {
		s.tally["failed its verification"]++
		return
	}
	f.verify.open = false
	if e.Name == record.StepVerified {
		f.verify.done, f.progress, f.moved = true, e.CreatedAt, true
		f.stuck = f.stuck && n.halted()
		return
	}
	f.verify.failures++
	f.verify.rests = e.CreatedAt.Add(time.Second << (f.verify.failures - 1))
	if n.untested() {
		s.tally["could not be verified"]++
	}
}

// zoneOrder is in which order hosts are to be replaced, by either attribute.
var zoneOrder = []string{"gamma", "prod", "z2", "z10", ""}

func (s *simulation) attribute(host, name string) string {
	m := s.machine(host)
	return map[string]string{"zone": m.zone, "stack": m.group}[name]
}

// noteZones takes note of which zones hosts are in, and wants them to be those.
func (n *naive) noteZones(s *simulation, p record.Payload) {
	if n.force == nil || p.OrderBy != n.force.configuration.OrderBy {
		s.fail("zones by %q are recorded", p.OrderBy)
	}
	if n.zonedBy != p.OrderBy {
		for _, h := range n.hosts {
			h.zone = ""
		}
	}
	n.zonedBy = p.OrderBy
	for zone, names := range p.Zones {
		for _, name := range names {
			if n.host(name).zone = zone; s.attribute(name, p.OrderBy) != zone {
				s.fail("%s is said to be in %q, and is in %q", name, zone, s.attribute(name, p.OrderBy))
			}
		}
	}
}

func (n *naive) knowsZones(s *simulation) {
	by := n.force.configuration.OrderBy
	if by == "" || n.force.kind == record.ByDelete {
		return
	}
	for _, h := range n.there(func(h *naiveHost) bool { return h.wanted && s.machine(h.name).in }) {
		if real := s.attribute(h.name, by); n.zonedBy != by || h.zone != real {
			s.fail("%s is known to be in %q by %q, and is in %q by %q", h.name, h.zone, n.zonedBy, real, by)
		}
	}
}

// keepsBack reports whether something must not be done on a host, for hosts that come before
// it are not done: they are not as they are to be, and no exceptions that are tolerated.
func (n *naive) keepsBack(h *naiveHost, do todo) bool {
	f := n.force
	by := f.configuration.OrderBy
	if by == "" || f.reached || n.beginning(h) || f.kind == record.ByDelete || do.class != hosts.Replace && do.class != hosts.Surge {
		return false
	}
	if n.zonedBy != by {
		return true
	}
	left := n.there(func(h *naiveHost) bool { return n.unsettled(h) && h.wanted && !h.absent })
	hopeless := len(n.there(n.hopeless))
	return slices.ContainsFunc(left, func(other *naiveHost) bool {
		before := slices.Index(zoneOrder, other.zone) < slices.Index(zoneOrder, h.zone)
		return before && (!n.hopeless(other) || hopeless > n.tolerated())
	})
}
