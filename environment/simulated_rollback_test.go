package environment

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
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

// bake is a deployment after its end, while what dies still counts.
type bake struct {
	until  time.Time
	failed map[string]bool // hosts
	broken bool            // it is recorded that too many have
}

// beginBake wants a deployment that ends to count on from its exceptions.
func (n *naive) beginBake(e deploylog.Event) {
	f := n.force
	f.bake = bake{failed: map[string]bool{}}
	if f.kind == record.ByDelete || f.configuration.Bake == 0 {
		return
	}
	f.bake.until = e.CreatedAt.Add(time.Duration(f.configuration.Bake))
	for _, h := range n.there(n.unsettled) {
		f.bake.failed[h.name] = true
	}
}

// noteBaked notes a task of the revision in force that fails while it bakes.
func (n *naive) noteBaked(s *simulation, e deploylog.Event, h *naiveHost, revision int) {
	f := n.force
	if !f.reached || !e.CreatedAt.Before(f.bake.until) || revision != f.task || !h.wanted || h.absent || n.cordoned(h) {
		return
	}
	if e.Name == record.TaskDied || e.Name == record.TaskFailed {
		f.bake.failed[h.name] = true
		s.tally["failed in a bake"]++
	}
}

// breaksBake reports whether it is to be recorded that too many failed.
func (n *naive) breaksBake() bool {
	f := n.force
	return f.reached && !f.paused && !f.bake.until.IsZero() && !f.bake.broken && len(f.bake.failed) > n.tolerated()
}

// noteBroken wants a bake to fail when it does, and the revision before to be deployed
// again where that is wanted.
func (n *naive) noteBroken(s *simulation) {
	f := n.force
	if !n.breaksBake() {
		s.fail("%s failed in its bake because of %v", f.id, slices.Sorted(maps.Keys(f.bake.failed)))
	}
	f.bake.broken = true
	n.good = n.good[:len(n.good)-1]
	if f.configuration.AutoRollback && f.kind == record.ByDeploy {
		n.goesBack = n.backTo(s, n.lastGood(func(revision int) bool { return n.tasks[revision-1] != f.task }))
	}
}
