package environment

import (
	"errors"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

// naiveVerify is how far the present step is verified.
type naiveVerify struct {
	try      int // the last
	open     bool
	done     bool
	failures int
	rests    time.Time
}

// badTest is a manifest that never succeeds.
const badTest = "bad.yaml"

// undertakeVerify begins what verifies a step.
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

// awaitsTest reports whether the step is done, but for that.
func (n *naive) awaitsTest() bool {
	return n.test() != "" && !n.force.stepAt.IsZero() && !n.force.verify.done
}

// untested reports whether it was tried three times, and failed each time.
func (n *naive) untested() bool {
	v := n.force.verify
	return n.awaitsTest() && !v.open && v.failures >= 3
}

// testsLeft are the steps that are still to be verified.
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

// mayTest reports whether the step is to be verified now.
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
