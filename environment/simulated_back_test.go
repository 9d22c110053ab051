package environment

import (
	"errors"
	"slices"

	"github.com/deployster-go/deployster/environment/record"
)

// leavesTo reports whether a host is left to another environment when this one goes back.
func (s *simulation) leavesTo(name string, revision int) bool {
	i := slices.IndexFunc(s.hosts, func(m *machine) bool { return m.name == name })
	h := s.naive.hosts[name]
	return s.others > 0 && i%s.others == 0 && (h == nil || h.tasks[s.naive.tasks[revision-1]] == nil)
}

// back has automatic rollbacks leave hosts to others.
func (s *simulation) back(revision int, hosts []string) ([]string, error) {
	rest := slices.DeleteFunc(slices.Clone(hosts), func(name string) bool { return s.leavesTo(name, revision) })
	if len(rest) == 0 && len(hosts) > 0 {
		return nil, errors.New("all hosts are another environment's")
	}
	return rest, nil
}

// stayBack are the hosts that the environment keeps when it goes back, and those that it
// leaves to others; none where it has to be asked for them.
func (n *naive) stayBack(s *simulation, revision int) (keeps, leaves []string) {
	if f := n.force; !n.known || n.revisions[f.revision-1].InstanceGroup.Query != n.revisions[revision-1].InstanceGroup.Query {
		return nil, nil
	}
	for _, name := range n.names {
		switch {
		case !n.hosts[name].wanted:
		case s.leavesTo(name, revision):
			leaves = append(leaves, name)
		default:
			keeps = append(keeps, name)
		}
	}
	return keeps, leaves
}

// backTo is the revision to which it goes back by itself; 0 where it would be left with none of
// its hosts, or with fewer than may leave at once.
func (n *naive) backTo(s *simulation, revision int) int {
	if revision == 0 {
		return 0
	}
	keeps, leaves := n.stayBack(s, revision)
	all := slices.DeleteFunc(slices.Clone(n.names), func(name string) bool { return slices.Contains(keeps, name) })
	if _, ok := n.lets(all, false); len(leaves) > 0 && (len(keeps) == 0 || !ok) {
		s.tally["not rolled back onto the hosts of others"]++
		return 0
	}
	if n.without = leaves; len(leaves) > 0 {
		s.tally["rolled back without the hosts of others"]++
	}
	return revision
}

// leavesOthers wants an automatic rollback to begin without the hosts of others.
func (n *naive) leavesOthers(s *simulation, p record.Payload) {
	if !p.Automatic {
		return
	}
	if (p.Hosts != nil) != (len(n.without) > 0) {
		s.fail("it goes back with the hosts %v, and is to leave %s", p.Hosts, n.without)
	}
	for _, name := range n.without {
		if slices.Contains(*p.Hosts, name) {
			s.fail("it goes back with %s, which is another environment's", name)
		}
	}
	n.without = nil
}
