package environments

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
)

// hosts is what is known of the hosts that the environments' queries select.
type hosts struct {
	version  int
	selected map[string]selection         // by query, of this version
	stale    reconcile.OrderedSet[string] // environments whose hosts are to be selected
	found    reconcile.OrderedSet[string] // whose are, and are to be recorded
	kept     troubles                     // environments that cannot have all their hosts
	unknown  troubles                     // whose hosts cannot be selected
	expected []string                     // environments of which more is reserved than they have in the log
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
	for n := 0; h.stale.Len() > 0; n++ {
		if n > 0 && c.Now().Sub(started) > inventoryShare {
			break
		}
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
		for name := range c.environments.States {
			c.find(name)
		}
		c.loop.SlotsChanged()
	}
	for name := range h.kept.of {
		c.find(name)
	}
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
			c.trouble(&h.unknown, name, fmt.Sprintf("environments go on with the hosts they know: %v", found.err))
			return nil
		}
		hosts = c.free(name, state, found.hosts)
	}
	events, err := state.Propose(environment.SetHosts{Selected: hosts, Known: c.Inventory.Known}, c.Now())
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.trouble(&h.unknown, name, text)
	return events
}

// free are the hosts without those that another environment occupies with the same
// manifest.
func (c *Controller) free(name string, state *environment.State, hosts []string) (free []string) {
	reserved, manifest := c.environments.reservations, state.Manifest()
	var kept, by []string
	for _, host := range hosts {
		other := reserved.other(name, manifest, host)
		if other == "" || reserved.has(name, manifest, host) {
			free = append(free, host)
			continue
		}
		kept = append(kept, host)
		by = append(by, other)
	}
	text := ""
	if len(kept) > 0 {
		by = slices.Compact(slices.Sorted(slices.Values(by)))
		text = fmt.Sprintf("environment %s leaves out %s, where %s has tasks of %s", name, listed(kept), listed(by), manifest)
	}
	c.trouble(&c.hosts.kept, name, text)
	reserved.expect(name, manifest, free)
	return free
}

// listed names the first few.
func listed(names []string) string {
	const few = 5
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// troubles are what is wrong with environments. What is wrong with many in the
// same words is notified once.
type troubles struct {
	of map[string]string
	n  map[string]int
}

// trouble takes note of what is wrong with an environment now, "" is nothing.
func (c *Controller) trouble(t *troubles, name, text string) {
	was := t.of[name]
	if was == text {
		return
	}
	if t.of == nil {
		t.of, t.n = map[string]string{}, map[string]int{}
	}
	delete(t.of, name)
	if t.n[was]--; t.n[was] <= 0 {
		delete(t.n, was)
	}
	if text == "" {
		return
	}
	t.of[name] = text
	if t.n[text]++; t.n[text] == 1 {
		c.loop.Notify(func() { c.Observer.Notice(text) })
	}
}
