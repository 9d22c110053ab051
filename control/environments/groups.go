package environments

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/environment"
)

// groups is what is known of the hosts that the environments' queries select.
type groups struct {
	version  int
	selected map[string]selection // by query, of this version
	due      roll                 // environments whose hosts are to be found out
	found    roll                 // whose are, and are to be recorded
	kept     troubles             // environments that can not have all their hosts
	unknown  troubles             // whose hosts can not be found out
}

type selection struct {
	hosts []string
	err   error
}

// inventoryShare is how long the inventory is asked at a time, about.
const inventoryShare = 20 * time.Millisecond

// look finds out which hosts the environments have whose turn it is, as many as
// there is time for. No lock is held: it may take long.
func (c *Controller) look() {
	started, g := c.Now(), &c.groups
	names := g.due.take()
	for i, name := range names {
		if i > 0 && c.Now().Sub(started) > inventoryShare {
			g.due.add(names[i:]...)
			return
		}
		state := c.environments.States[name]
		if _, ok := state.ActiveDeployment(); !ok {
			continue
		}
		query := state.Query()
		if _, ok := g.selected[query]; !ok && query != "" {
			hosts, err := c.Inventory.Selected(query)
			g.selected[query] = selection{hosts, err}
		}
		g.found.add(name)
	}
}

// tick looks whether the inventory is another one. What another environment had
// may be free now in any case, and so may be what another controller worked on.
func (c *Controller) tick() {
	c.wakeAfter()
	g := &c.groups
	if version := c.Inventory.Version(); version != g.version || g.selected == nil {
		g.version, g.selected = version, map[string]selection{}
		for name := range c.environments.States {
			c.find(name)
		}
		c.crew.look()
	}
	for name := range g.kept.of {
		c.find(name)
	}
	for name := range c.turns.aside {
		c.agenda.add(name)
	}
}

// find has the hosts of an environment found out.
func (c *Controller) find(name string) {
	if c.controls(name) {
		c.groups.due.add(name)
	}
}

// place is what is to be recorded of the hosts that were found out for an
// environment. While there is trouble with the inventory that is nothing: the next
// look may see better.
func (c *Controller) place(name string) deed {
	g, state := &c.groups, c.environments.States[name]
	var hosts []string
	if query := state.Query(); query != "" {
		found, ok := g.selected[query]
		if !ok { // it has another one since
			c.find(name)
			return c.deed(name, nil)
		}
		if found.err != nil {
			c.trouble(&g.unknown, name, fmt.Sprintf("environments go on with the hosts they know: %v", found.err))
			return c.deed(name, nil)
		}
		hosts = c.free(name, state, found.hosts)
	}
	events, err := state.Propose(environment.SetHosts{Selected: hosts, Known: c.Inventory.Known}, c.Now())
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.trouble(&g.unknown, name, text)
	return c.deed(name, events)
}

// free are the hosts without those that another environment occupies with the same
// manifest.
func (c *Controller) free(name string, state *environment.State, hosts []string) (free []string) {
	claims, manifest := c.environments.claims, state.Manifest()
	var kept, by []string
	for _, host := range hosts {
		other := claims.other(name, manifest, host)
		if other == "" || claims.has(name, manifest, host) {
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
	c.trouble(&c.groups.kept, name, text)
	claims.expect(name, manifest, free)
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
// same words is told once.
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
		c.tell(func(to Audience) { to.Notice(text) })
	}
}
