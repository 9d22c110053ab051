package environment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// hopeless reports whether a host was given its chance, and is not as it is to be: it is
// not seen, the same was tried there three times, or it has missed its deadline.
func (n *naive) hopeless(h *naiveHost) bool {
	f, do := n.force, n.next(h)
	if !n.unsettled(h) || f.kind == record.ByDelete || h.absent {
		return false
	}
	late := slices.Contains(n.failed(), h) && f.late[place{h.name, f.task}]
	return do.kind == hosts.AwaitProbe || do.kind != tasks.Confirm && n.inVain(h, do) || late
}

// inVain reports whether what is to be done was tried three times.
func (n *naive) inVain(h *naiveHost, do todo) bool {
	if do.kind == tasks.Check {
		return h.check.failures >= tasks.MaxRetries
	}
	t := h.tasks[do.revision]
	if t == nil || do.kind == tasks.Terminate && t.status != report.TaskTerminating || do.kind == tasks.Start && t.status == report.TaskTerminating {
		return false
	}
	return t.blamed == n.force.id && t.failures >= tasks.MaxRetries
}

// tolerated is how many hosts may be left behind.
func (n *naive) tolerated() int {
	if most := n.force.configuration.MaxFailed; most != nil && most.Of(n.wanted()) > n.force.tolerates {
		return most.Of(n.wanted())
	}
	return n.force.tolerates
}

// leavesBehind reports whether the deployment ends without some hosts: all others are as
// they are to be, and of these nothing more is to be expected soon.
func (n *naive) leavesBehind(now time.Time) bool {
	f, left := n.force, n.there(n.unsettled)
	if f.kind == record.ByDelete || f.paused || f.waits || len(left) > n.tolerated() || len(left) >= n.wanted() || !n.runs() {
		return false
	}
	failed, at := n.failed(), n.stuckAt()
	over := !at.IsZero() && !at.After(now)
	return !slices.ContainsFunc(left, func(h *naiveHost) bool {
		tried := h.begun || slices.Contains(failed, h)
		return h.absent || !n.hopeless(h) && (!over || !tried)
	})
}

// leftBehind wants a deployment that ends to say how many hosts it leaves behind, and a
// rollback to bear with as many as there were.
func (n *naive) leftBehind(s *simulation, p record.Payload) {
	if left := len(n.there(n.unsettled)); p.Exceptions != left {
		s.fail("it ends with %d exceptions, and says %d", left, p.Exceptions)
	}
	if p.Exceptions > 0 {
		s.tally["exceptions"]++
		if n.force.kind == record.ByRollback {
			s.tally["exceptions of a rollback"]++
		}
	}
}

// bearsWith wants a rollback to tolerate as many as there are.
func (n *naive) bearsWith(s *simulation, p record.Payload) {
	if n.force != nil && p.Kind == record.ByRollback && p.Tolerates != len(n.unwell()) {
		s.fail("%s tolerates %d exceptions after %s, and there were %d", p.Kind, p.Tolerates, n.force.id, len(n.unwell()))
	}
}

// runs reports whether the revision in force is up on any host.
func (n *naive) runs() bool {
	return len(n.there(func(h *naiveHost) bool { return n.mine(h).up() })) > 0
}

// awaitsHosts reports whether there is nothing to do, for no host is to have a task.
func (n *naive) awaitsHosts() bool {
	return n.known && !n.force.reached && n.force.kind != record.ByDelete && n.wanted() == 0 && len(n.there(n.unsettled)) == 0
}

// ends reports whether the deployment ends.
func (n *naive) ends(now time.Time, seen bool) bool {
	f := n.force
	if !n.known || f.kind != record.ByDelete && (f.reached || !seen || n.testsLeft() > 0) {
		return false
	}
	return len(n.there(n.unsettled)) == 0 && (f.kind == record.ByDelete || n.runs()) || n.leavesBehind(now)
}

// unwell are the hosts that a report is to name as exceptions.
func (n *naive) unwell() (names []string) {
	failed := n.failed()
	for _, h := range n.there(func(h *naiveHost) bool { return slices.Contains(failed, h) || n.hopeless(h) }) {
		names = append(names, h.name)
	}
	return names
}

// settled reports whether all is as it is to be, or cannot be otherwise.
func (s *simulation) settled() bool { return s.unsettled() == "" }

// unsettled is what is not as it is to be. A host may have a task that its revision
// lets fail there. Others may have to wait, but only for those, or because the
// percentage leaves no room for any.
func (s *simulation) unsettled() string {
	n, f := s.naive, s.naive.force
	switch {
	case f == nil:
		return ""
	case !n.known:
		return "the hosts are not known"
	case !f.stuck && n.awaitsHosts():
		s.tally["waits for hosts"]++
	case !f.reached && !f.stuck:
		return f.id + " has not ended"
	}
	failing, waiting, problem := s.unsettledHosts()
	if problem == "" {
		problem = s.unfounded(failing, waiting)
	}
	if problem == "" {
		problem = s.busy(len(failing) > 0)
	}
	return problem
}

// unsettledHosts are the hosts that are not as they are to be and cannot be
// otherwise. Any other that is not as it is to be is a problem.
func (s *simulation) unsettledHosts() (failing, waiting []string, problem string) {
	n, f := s.naive, s.naive.force
	for _, h := range n.there(func(*naiveHost) bool { return true }) {
		switch do, t := n.next(h), n.mine(h); {
		case do.kind == "":
			if problem := s.misplaced(h); problem != "" {
				return nil, nil, problem
			}
		case t != nil && !t.up() && t.failures >= 3 && do.revision == f.task && (s.behaves(place{h.name, f.task}) == bad || s.unfit(place{h.name, f.task})):
			failing = append(failing, h.name)
		case do.kind == tasks.Check && h.check.failures >= 3 && s.unfit(place{h.name, f.task}):
			failing = append(failing, h.name)
		case n.bounded(h, do) && n.mayBegin() <= 0:
			waiting = append(waiting, h.name)
			s.tally["waits for its step"]++
		case n.keepsBack(h, do):
			waiting = append(waiting, h.name)
			s.tally["waits for its zone"]++
		case do.class != hosts.Free && n.rooms(Can{Disrupt: true})[do.class] <= 0:
			waiting = append(waiting, h.name)
		default:
			return nil, nil, fmt.Sprintf("%s on %s is to be done", do, h.name)
		}
	}
	return failing, waiting, ""
}

// misplaced is what is wrong on a host where nothing is to be done.
func (s *simulation) misplaced(h *naiveHost) string {
	drain, cordoned := s.naive.cordons[h.name]
	switch is, want := s.really(h); {
	case cordoned && s.naive.cordoned(h) && drain && is != "":
		return fmt.Sprintf("%s is drained, and has %s", h.name, is)
	case !s.naive.cordoned(h) && is != want:
		return fmt.Sprintf("on %s is %s, not %s", h.name, is, want)
	}
	return ""
}

// unfounded is what the hosts that fail or wait are no reason for.
func (s *simulation) unfounded(failing, waiting []string) string {
	n, f := s.naive, s.naive.force
	if len(waiting) > 0 && len(failing) == 0 && n.minimum() < n.wanted() && !n.leavesNoRoom() {
		return fmt.Sprintf("%s wait for nothing", waiting)
	}
	if slices.ContainsFunc(n.failed(), func(h *naiveHost) bool { return !slices.Contains(failing, h.name) && !slices.Contains(waiting, h.name) }) {
		return "hosts count as failed that are not"
	}
	if n.untested() {
		return "it could not be verified, and nobody goes on all the same"
	}
	if f.stuck && len(failing) == 0 && len(waiting) == 0 && n.runs() {
		return "it is stuck, and nothing is to be done"
	}
	if len(waiting) > 0 && len(failing) == 0 {
		s.tally["no room"]++
		if f.automatic {
			s.tally["no room for an automatic rollback"]++
		}
	}
	return ""
}

// leavesNoRoom reports whether cordoned hosts have no task, or two, and nobody may give them
// one, or take one away.
func (n *naive) leavesNoRoom() bool {
	return len(n.there(func(h *naiveHost) bool { return n.cordoned(h) && (h.ups() == 0 || len(h.tasks) > 1) })) > 0
}

// busy is what is still done, or would be. Where hosts fail they are tried again.
func (s *simulation) busy(retrying bool) string {
	if len(s.works) > 0 {
		return "there is work"
	}
	if !s.control.state.Idle() {
		return "it is not idle"
	}
	if retrying {
		return ""
	}
	s.tally["at rest"]++
	for step := range s.control.state.Decide(s.now, Can{Disrupt: true, Back: s.back}) {
		return fmt.Sprintf("it would %s %d on %s", step.Kind, step.Revision, step.Host)
	}
	return ""
}

// really is what is on a host, and what is to be.
func (s *simulation) really(h *naiveHost) (is, want string) {
	var all []string
	m := s.machine(h.name)
	for _, revision := range sortedKeys(m.tasks) {
		now := m.tasks[revision]
		if now == drifted && s.naive.force.configuration.Drift == definition.ReportDrift {
			now = sound
		}
		all = append(all, fmt.Sprintf("%s %d", now, revision))
	}
	if want = ""; h.wanted {
		want = fmt.Sprintf("%s %d", sound, s.naive.force.task)
	}
	return strings.Join(all, ", "), want
}
