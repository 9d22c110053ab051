package environments

import (
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
)

// hosts is what is known of the hosts that the environments' queries select.
type hosts struct {
	inventory  *string // what it is known as; nil is not known yet
	version    int
	selected   map[string]selection         // by query, of this version
	stale      reconcile.OrderedSet[string] // environments whose hosts are to be selected
	found      reconcile.OrderedSet[string] // whose are, and are to be recorded
	incomplete map[string]string            // environments that cannot have all their hosts, and why
	unknown    map[string]string            // whose hosts cannot be selected, and why
	expected   []string                     // environments of which more is reserved than they have in the log
}

type selection struct {
	hosts []string
	err   error
}

// inventoryShare is how long the inventory is asked at a time, about.
const inventoryShare = 20 * time.Millisecond

// Observe implements reconcile.Tenant: it selects the hosts of as many environments
// as there is time for.
func (c *Controller) Observe() (found bool) {
	started, h := c.Now(), &c.hosts
	for n := 0; h.stale.Len() > 0 && (n == 0 || c.Now().Sub(started) <= inventoryShare); n++ {
		name := h.stale.Pop()
		state := c.environments.States[name]
		if _, ok := state.ActiveDeployment(); !ok {
			continue
		}
		query := state.Query()
		if _, ok := h.selected[query]; !ok && query != "" {
			hosts, err := c.Inventory.Selected(query)
			h.selected[query] = selection{hosts, err}
		}
		if c.refreshInventory(); c.Declines(state) != "" { // what was selected may be of another inventory
			continue
		}
		h.found.Add(name)
	}
	return c.pending()
}

// pending reports whether something was observed that is to be recorded.
func (c *Controller) pending() bool { return len(c.probes.results) > 0 || c.hosts.found.Len() > 0 }

// refreshHosts has the hosts of all environments selected when the inventory is
// another one, and of those that could not have all of theirs, for what another
// environment had may be free now.
func (c *Controller) refreshHosts() {
	h := &c.hosts
	if version := c.Inventory.Version(); version != h.version || h.selected == nil {
		h.version, h.selected = version, map[string]selection{}
		c.environments.reservations.forget()
		for name := range c.environments.States {
			c.find(name)
		}
		c.loop.SlotsChanged()
	}
	for name := range h.incomplete {
		c.find(name)
	}
}

// refreshInventory finds out which inventory there is now.
func (c *Controller) refreshInventory() {
	now, h := c.Inventory.Identity(), &c.hosts
	if h.inventory != nil && *h.inventory != now {
		h.selected = map[string]selection{}
		c.loop.Reconsider()
	}
	h.inventory = &now
}

// find has the hosts of an environment selected.
func (c *Controller) find(name string) {
	if c.loop.Controls(name) {
		c.hosts.stale.Add(name)
	}
}

// Observed implements reconcile.Tenant: first the results of probes, then the hosts.
func (c *Controller) Observed(most int) (all []reconcile.Observation, more bool) {
	if len(c.probes.results) > 0 {
		return c.probed(most), c.pending()
	}
	for _, name := range c.hosts.expected {
		c.environments.reservations.doubt(name)
	}
	c.hosts.expected = c.hosts.found.First(most)
	for _, name := range c.hosts.expected {
		if c.loop.Controls(name) && !c.loop.LeftOut(name) {
			if events := c.placement(name); len(events) > 0 {
				all = append(all, reconcile.Observation{Entity: name, Events: events})
			}
		}
	}
	return all, c.pending()
}

// placement is what is to be recorded of the hosts that were selected for an
// environment. While there is trouble with the inventory that is nothing: the next
// selection may be better.
func (c *Controller) placement(name string) []deploylog.Event {
	h, state := &c.hosts, c.environments.States[name]
	var hosts []string
	if query := state.Query(); query != "" {
		found, ok := h.selected[query]
		if !ok { // it has another one since
			c.find(name)
			return nil
		}
		if found.err != nil {
			c.trouble(h.unknown, name, fmt.Errorf("environments go on with the hosts they know: %w", found.err))
			return nil
		}
		hosts = c.free(name, state, found.hosts)
	}
	events, err := state.Propose(environment.SetHosts{Selected: hosts, Known: c.Inventory.Known, Attribute: c.Inventory.Attribute}, c.Now())
	c.trouble(h.unknown, name, err)
	return events
}

// free are the hosts without those on which another environment makes what the task
// would make, too: it was there first.
func (c *Controller) free(name string, state *environment.State, hosts []string) []string {
	reserved := c.environments.reservations
	free, _, why := reserved.divide(state, hosts)
	c.trouble(c.hosts.incomplete, name, why)
	f, _ := state.ActiveDeployment()
	reserved.expect(name, state.Task(f.Revision, "").Revision, free)
	return free
}

// back are those hosts of an environment with which it may go back to a revision by itself, as
// of a rollback that somebody asks for: it is left out where another environment makes what it
// would make. Where its query is another one, what that selects is recorded before any work.
func (c *Controller) back(s *environment.State, revision int, hosts []string) ([]string, error) {
	reserved, rest := c.environments.reservations, hosts
	if r, err := s.Revision(revision); err == nil && len(hosts) == 0 {
		rest, _ = c.Inventory.Selected(r.Definition.InstanceGroup.Query)
	}
	rest = reserved.backTo(s, revision, rest)
	if err := reserved.overlaps(s.Task(revision, ""), true, slices.DeleteFunc(slices.Clone(rest), func(host string) bool {
		t := s.Task(revision, host)
		return reserved.has(t)
	})); err != nil || len(hosts) == 0 {
		return nil, err
	}
	return rest, nil
}

// trouble records what is wrong with an environment now, nil is nothing. What is wrong
// with many in the same words is noticed once.
func (c *Controller) trouble(of map[string]string, name string, err error) {
	if err == nil {
		delete(of, name)
		return
	}
	text := err.Error()
	if of[name] == text {
		return
	}
	delete(of, name)
	known := false
	for _, other := range of {
		if known = other == text; known {
			break
		}
	}
	if of[name] = text; !known {
		c.loop.Notify(func() { c.Observer.Notice(text) })
	}
}
