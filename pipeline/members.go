package pipeline

import (
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// SetMembers records the hosts of host groups, by the name of the group. What a query
// selects follows from an inventory that somebody edits, so a group that would lose
// all of its hosts, or too many at once, keeps them and holds: none of its steps
// begins, and it does not finish, until a later selection is acceptable or a person
// confirms this one.
type SetMembers struct {
	Members map[string][]string
	ID      string // of a fresh deployment, for the events
	By      string // "" is a scheduler
}

// Confirm lets a host group lose the hosts for which it holds.
type Confirm struct {
	Group string
	ID    string // of a fresh deployment, for the event
	By    string
}

func (c SetMembers) propose(s *State) ([]deploylog.Event, error) {
	if err := s.isDefined(); err != nil {
		return nil, err
	}
	var names []string
	var events []deploylog.Event
	for _, g := range s.definition.Groups() {
		names = append(names, g.Name)
		hosts, given := c.Members[g.Name]
		if !given {
			continue
		}
		present, known := s.members[g.Name]
		held := s.held[g.Name]
		if held == nil && known && slices.Equal(present, hosts) {
			continue
		}
		name, p := record.MembersChanged, record.Payload{Hosts: hosts, By: c.By}
		if p.Reason = g.Refuses(present, hosts); p.Reason != "" {
			name = record.MembersHeld
			if held != nil && slices.Equal(held.Hosts, hosts) {
				continue
			}
		}
		events = append(events, deploylog.Event{
			Deployment: c.ID, Target: record.GroupTarget(s.name, g.Name), Name: name, Attempt: 1, Data: p.Data(),
		})
	}
	for name := range c.Members {
		if !slices.Contains(names, name) {
			return nil, s.unknown(UnknownGroup, "host group", name, names)
		}
	}
	return events, nil
}

func (c Confirm) propose(s *State) ([]deploylog.Event, error) {
	name, err := s.Group(c.Group)
	if err != nil {
		return nil, err
	}
	groups := s.definition.Groups()
	g := groups[slices.IndexFunc(groups, func(g *definition.HostGroup) bool { return g.Name == name })]
	held := s.held[g.Name]
	present, known := s.members[g.Name]
	empty := held == nil && known && len(present) == 0 || held != nil && len(held.Hosts) == 0
	switch {
	case empty && !g.AllowEmpty:
		return nil, refusal.New(SelectsNoHost, "host group %s cannot go on without a host: its query selects none of the inventory; correct the query or the inventory, or give the group allow_empty: true and apply the definition", g.Name)
	case held == nil:
		return nil, refusal.New(NothingToConfirm, "host group %s has nothing to confirm: it does not hold for hosts that left", g.Name)
	}
	return []deploylog.Event{{
		Deployment: c.ID, Target: record.GroupTarget(s.name, g.Name), Name: record.MembersChanged, Attempt: 1, Data: record.Payload{Hosts: held.Hosts, By: c.By}.Data(),
	}}, nil
}

// applyMembers folds in that a group has these hosts, or holds instead of taking
// them over.
func (s *State) applyMembers(e deploylog.Event) {
	if s.definition == nil {
		return
	}
	for _, g := range s.definition.Groups() {
		if record.GroupTarget(s.name, g.Name) != e.Target {
			continue
		}
		p := record.Read(e.Data)
		if s.layout = nil; e.Name == record.MembersHeld {
			s.held[g.Name] = &deployment.HeldMembers{Hosts: p.Hosts, Seq: e.Seq, Cause: p.Reason}
			return
		}
		s.members[g.Name], s.changed[g.Name] = p.Hosts, e.Seq
		delete(s.held, g.Name)
		return
	}
}

// holdReason is why a group holds.
func (s *State) holdReason(g *deployment.GroupLayout) reason.Reason {
	r := reason.Reason{Code: reason.NoHosts, Name: g.Name, By: g.Target, ByEvent: record.MembersChanged, Seq: s.changed[g.Name]}
	if g.Held != nil {
		r.ByEvent, r.Seq = record.MembersHeld, g.Held.Seq
		if len(g.Held.Hosts) > 0 {
			r.Code, r.Cause = reason.AwaitsConfirmation, g.Held.Cause
		}
	}
	return r
}

// Holds is why host groups hold, whether or not a revision waits for that.
func (s *State) Holds() []reason.Reason {
	l := s.currentLayout()
	if l == nil {
		return nil
	}
	var reasons []reason.Reason
	for i := range l.Stages {
		for g := range l.Stages[i].Groups {
			if group := &l.Stages[i].Groups[g]; group.Holds() {
				r := s.holdReason(group)
				r.Target, r.Event = group.Target, record.MembersChanged
				reasons = append(reasons, r)
			}
		}
	}
	return reasons
}
