package environment

import (
	"maps"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/ordered"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
)

// Where a configuration orders hosts by an attribute, its values are zones: no healthy task
// of a zone is replaced before all hosts of the zones before it are as they should be, or
// are exceptions. Hosts without a healthy task get theirs at any time, for that stops none.

// zones is what is recorded of the attribute by which hosts are ordered.
type zones struct {
	by            string // the attribute of which all values are known; "" is none
	ordered.Zones        // of the hosts that are not settled
}

// zoneEvents record the zones of hosts that are not known or have changed, in parts that
// fit into the log.
func (s *State) zoneEvents(c SetHosts) (events []deploylog.Event) {
	by := s.configuration().OrderBy
	if by == "" || c.Attribute == nil || s.active.Kind == record.ByDelete {
		return nil
	}
	names := slices.Clone(c.Selected)
	for _, h := range s.hosts {
		if h.Desired && (c.Known == nil || c.Known(h.Name)) {
			names = append(names, h.Name)
		}
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	zone := map[string]string{}
	for _, name := range names {
		zone[name] = c.Attribute(name, by)
	}
	others := slices.DeleteFunc(names, func(name string) bool {
		h := s.byName[name]
		return s.zones.by == by && (h == nil && zone[name] == "" || h != nil && h.Zone == zone[name])
	})
	parts := record.Parts(others)
	if len(parts) == 0 && s.zones.by != by {
		parts = [][]string{nil}
	}
	for i, part := range parts {
		p := record.Payload{OrderBy: by, Zones: map[string][]string{}, More: i < len(parts)-1}
		for _, name := range part {
			p.Zones[zone[name]] = append(p.Zones[zone[name]], name)
		}
		e := s.event(record.HostsZoned, p)
		e.Attempt += i
		events = append(events, e)
	}
	return events
}

func (s *State) applyZones(e deploylog.Event, p record.Payload) {
	if s.zones.by != p.OrderBy && s.zones.by != "" {
		for _, h := range s.hosts {
			s.modify(h, e.CreatedAt, func() { h.Zone = "" })
		}
	}
	if s.zones.by = p.OrderBy; p.More {
		s.zones.by = ""
	}
	for _, zone := range slices.Sorted(maps.Keys(p.Zones)) {
		for _, name := range p.Zones[zone] {
			h := s.addHost(name)
			s.modify(h, e.CreatedAt, func() { h.Zone = zone })
		}
	}
}

// countZone adds a host to its zone (by is 1), or removes it (by is -1).
func (s *State) countZone(h *hosts.Host, by int) {
	if !h.Status.Settled && h.Desired && !h.Absent {
		s.zones.Count(h.Zone, h.Status.Exhausted, by)
	}
}

// zoned reports whether the active deployment replaces hosts zone by zone.
func (s *State) zoned() bool {
	return s.active != nil && !s.finished && s.active.Kind != record.ByDelete && s.active.Configuration.OrderBy != ""
}

// turn is which hosts may be replaced at one moment.
type turn struct {
	ordered, known bool
	zone           string
	any            bool // zone
	waves          bool
	left           int // hosts that may be begun
	halted         bool
}

func (s *State) turn() *turn {
	t := &turn{ordered: s.zoned(), halted: s.halted()}
	if t.ordered {
		t.known = s.zones.by == s.active.Configuration.OrderBy
		zone, ok := s.zones.First(s.total.exhausted > s.tolerated())
		t.zone, t.any = zone, !ok
	}
	if t.waves = s.waves(); t.waves {
		t.left = s.mostBegun() - s.total.begun
	}
	return t
}

// took takes note of a host whose next step begins.
func (t *turn) took(h *hosts.Host) {
	if h.Status.Begins {
		t.left--
	}
}

// keeps is why a host must wait for others, "" when it need not.
func (t *turn) keeps(h *hosts.Host) reason.Code {
	if t.waves && t.left <= 0 && h.Status.Begins {
		return reason.AwaitsStep
	}
	replaces := h.Status.Class == hosts.Replace || h.Status.Class == hosts.Surge
	if t.ordered && replaces && !h.Status.Begun && (!t.known || !t.any && ordered.Compare(h.Zone, t.zone) > 0) {
		return reason.AwaitsZone
	}
	return ""
}
