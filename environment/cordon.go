package environment

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/refusal"
)

// CordonHosts keeps hosts as they are until UncordonHosts: no task comes to them, and none
// of theirs is changed. With Drain their tasks are terminated, within the minimum.
type CordonHosts struct {
	Hosts      []string
	Drain      bool
	By, Reason string
}

// UncordonHosts ends what CordonHosts began.
type UncordonHosts struct {
	Hosts      []string
	By, Reason string
}

func (CordonHosts) isCommand()   {}
func (UncordonHosts) isCommand() {}

// cordonHosts records nothing of hosts that are as they are to be: to cordon twice is to
// cordon once, and a host that is drained stays so.
func (s *State) cordonHosts(c CordonHosts) ([]deploylog.Event, error) {
	as := func(name string) bool {
		known := s.cordons[name]
		return known != nil && (known.Drain || !c.Drain)
	}
	return s.cordonEvents(record.HostsCordoned, c.Hosts, as, record.Payload{Drain: c.Drain, By: c.By, Reason: c.Reason})
}

func (s *State) uncordonHosts(c UncordonHosts) ([]deploylog.Event, error) {
	free := func(name string) bool { return s.cordons[name] == nil }
	return s.cordonEvents(record.HostsUncordoned, c.Hosts, free, record.Payload{By: c.By, Reason: c.Reason})
}

// cordonEvents are of the hosts that are not as they are to be already, in parts that fit
// into the log. They are of the deployment, if there is one: hosts may be cordoned before
// anything is deployed.
func (s *State) cordonEvents(event string, hosts []string, already func(string) bool, p record.Payload) (events []deploylog.Event, err error) {
	if len(hosts) == 0 {
		return nil, refusal.New(NoHostNamed, "no host of environment %s is named", s.name)
	}
	if f := s.active; f != nil && f.Kind == record.ByDelete {
		return nil, refusal.New(BeingDeleted, "environment %s is being deleted since event %d", s.name, f.Seq)
	}
	deployment, revision := fmt.Sprintf("%s:%d", s.name, len(s.revisions)), len(s.revisions)
	if s.active != nil {
		deployment, revision = s.active.ID, s.active.Revision
	}
	names := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(hosts))), already)
	for _, part := range record.Parts(names) {
		p.Hosts = &part
		events = append(events, deploylog.Event{
			Deployment: deployment, Target: s.target, Revision: strconv.Itoa(revision), Name: event, Attempt: s.cordonings + 1 + len(events), Data: p.Data(),
		})
	}
	return events, nil
}

// applyCordon folds in which hosts are cordoned. A task on a host that is not any more has
// all its time anew, and so has the deployment, which goes on there.
func (s *State) applyCordon(e deploylog.Event, p record.Payload) {
	s.cordonings = max(s.cordonings, e.Attempt)
	if p.Hosts == nil {
		return
	}
	for _, name := range *p.Hosts {
		var c *report.Cordon
		if e.Name == record.HostsCordoned {
			c = &report.Cordon{Host: name, Drain: p.Drain, By: p.By, Reason: p.Reason, Seq: e.Seq, Since: e.CreatedAt}
			s.cordons[name] = c
		} else {
			delete(s.cordons, name)
			s.lastProgress = e.CreatedAt
		}
		if h := s.byName[name]; h != nil {
			s.modify(h, e.CreatedAt, func() {
				if h.Cordon = c; c == nil {
					h.Resumed = e.CreatedAt
				}
			})
		}
	}
}

// cordonedDown are the cordoned ones of some hosts that have no healthy task. Nothing brings
// them one, so they use up what may be unavailable. What was left on one may be healthy.
func (s *State) cordonedDown(d deploymentRequest, hosts []string) (down []string) {
	for _, name := range hosts {
		if h := s.byName[name]; s.cordons[name] != nil && len(s.leftOn(d, name)) == 0 && (h == nil || h.Lost || h.AvailableTasks() == 0) {
			down = append(down, name)
		}
	}
	return down
}

// draining reports whether a host is about to lose its tasks because it is drained.
func (s *State) draining() bool {
	return s.pause == nil && !s.sets[hosts.Evict].Empty() && s.room(hosts.Evict) > 0
}

// Cordons are the hosts that are cordoned, by name; none while the environment is deleted.
func (s *State) Cordons() []report.Cordon {
	all := make([]report.Cordon, 0, len(s.cordons))
	if s.deleted {
		return all
	}
	for _, name := range slices.Sorted(maps.Keys(s.cordons)) {
		all = append(all, *s.cordons[name])
	}
	return all
}
