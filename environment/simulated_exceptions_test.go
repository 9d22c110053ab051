package environment

import (
	"slices"
	"time"

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
