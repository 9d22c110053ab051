package environment

import (
	"slices"

	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/record"
)

// zoneOrder is in which order hosts are to be replaced, by either attribute.
var zoneOrder = []string{"gamma", "prod", "z2", "z10", ""}

// attribute is that of a real host.
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

// knowsZones wants all zones to be known that matter.
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
