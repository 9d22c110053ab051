package pipeline

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
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

// heldMembers is a selection that a group did not take over.
type heldMembers struct {
	hosts []string
	seq   int64
	cause string
}

// refuses is why a group that has hosts does not take over a selection; "" if it
// does.
func refuses(g *definition.HostGroup, present, selected []string) string {
	const named = 5
	switch {
	case len(present) == 0:
		return ""
	case len(selected) == 0 && g.AllowEmpty:
		return ""
	case len(selected) == 0:
		return fmt.Sprintf("none of its %s is left", phrase.Count(len(present), "host"))
	}
	stays := make(map[string]bool, len(selected))
	for _, host := range selected {
		stays[host] = true
	}
	var leaving []string
	for _, host := range present {
		if !stays[host] {
			leaving = append(leaving, host)
		}
	}
	most := g.MostLeaving(len(present))
	if len(leaving) <= most {
		return ""
	}
	return fmt.Sprintf("%d of %s would leave it at once, and max_leaving lets %d go: %s",
		len(leaving), phrase.Count(len(present), "host"), most, phrase.First(leaving, named))
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
		name, p := EventMembersChanged, payload{Hosts: hosts, By: c.By}
		if p.Reason = refuses(g, present, hosts); p.Reason != "" {
			name = EventMembersHeld
			if held != nil && slices.Equal(held.hosts, hosts) {
				continue
			}
		}
		events = append(events, deploylog.Event{
			Deployment: c.ID, Target: GroupTarget(s.name, g.Name), Name: name, Attempt: 1, Data: p.data(),
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
	empty := held == nil && known && len(present) == 0 || held != nil && len(held.hosts) == 0
	switch {
	case empty && !g.AllowEmpty:
		return nil, refusal.New(SelectsNoHost, "host group %s cannot go on without a host: its query selects none of the inventory; correct the query or the inventory, or give the group allow_empty: true and apply the definition", g.Name)
	case held == nil:
		return nil, refusal.New(NothingToConfirm, "host group %s has nothing to confirm: it does not hold for hosts that left", g.Name)
	}
	return []deploylog.Event{{
		Deployment: c.ID, Target: GroupTarget(s.name, g.Name), Name: EventMembersChanged, Attempt: 1, Data: payload{Hosts: held.hosts, By: c.By}.data(),
	}}, nil
}

// applyMembers folds in that a group has these hosts, or holds instead of taking
// them over.
func (s *State) applyMembers(e deploylog.Event) {
	if s.definition == nil {
		return
	}
	for _, g := range s.definition.Groups() {
		if GroupTarget(s.name, g.Name) != e.Target {
			continue
		}
		p := read(e.Data)
		if s.layout = nil; e.Name == EventMembersHeld {
			s.held[g.Name] = &heldMembers{hosts: p.Hosts, seq: e.Seq, cause: p.Reason}
			return
		}
		s.members[g.Name], s.changed[g.Name] = p.Hosts, e.Seq
		delete(s.held, g.Name)
		return
	}
}

// holds reports whether nothing of a group may begin or finish, because what selects
// its hosts may be a mistake.
func (g *groupLayout) holds() bool {
	return g.held != nil || g.known && len(g.hosts) == 0 && !g.AllowEmpty
}

// holdReason is why a group holds.
func (s *State) holdReason(g *groupLayout) Reason {
	r := Reason{Code: NoHosts, Name: g.Name, By: g.target, ByEvent: EventMembersChanged, Seq: s.changed[g.Name]}
	if g.held != nil {
		r.ByEvent, r.Seq = EventMembersHeld, g.held.seq
		if len(g.held.hosts) > 0 {
			r.Code, r.Cause = AwaitsConfirmation, g.held.cause
		}
	}
	return r
}

// Holds is why host groups hold, whether or not a revision waits for that.
func (s *State) Holds() []Reason {
	l := s.currentLayout()
	if l == nil {
		return nil
	}
	var reasons []Reason
	for i := range l.stages {
		for g := range l.stages[i].groups {
			if group := &l.stages[i].groups[g]; group.holds() {
				r := s.holdReason(group)
				r.Target, r.Event = group.target, EventMembersChanged
				reasons = append(reasons, r)
			}
		}
	}
	return reasons
}
