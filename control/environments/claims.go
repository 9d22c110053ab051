package environments

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
)

// claims tell which environments occupy a host with a task manifest. Two must not:
// each would undo what the other does. What an environment claims is found out
// when somebody asks after something has happened to it.
type claims struct {
	states map[string]*environment.State
	stale  map[string]bool
	held   map[string][]spot
	by     map[spot][]string
}

// spot is what one environment at most is to occupy.
type spot struct{ manifest, host string }

func newClaims(states map[string]*environment.State) *claims {
	return &claims{states: states, stale: map[string]bool{}, held: map[string][]spot{}, by: map[spot][]string{}}
}

func (c *claims) note(e deploylog.Event) {
	if name, ok := environment.NameOf(e.Target); ok {
		c.doubt(name)
	}
}

// doubt has it found out again what an environment claims.
func (c *claims) doubt(name string) { c.stale[name] = true }

func (c *claims) refresh() {
	for name := range c.stale {
		if s := c.states[name]; s != nil {
			var spots []spot
			for host, manifest := range s.HostManifests() {
				spots = append(spots, spot{manifest, host})
			}
			c.set(name, spots)
		}
	}
	clear(c.stale)
}

// set replaces what an environment claims.
func (c *claims) set(name string, to []spot) {
	for _, at := range c.held[name] {
		if left := slices.DeleteFunc(c.by[at], func(n string) bool { return n == name }); len(left) > 0 {
			c.by[at] = left
		} else {
			delete(c.by, at)
		}
	}
	if delete(c.held, name); len(to) == 0 {
		return
	}
	c.held[name] = to
	for _, at := range to {
		if !slices.Contains(c.by[at], name) {
			c.by[at] = append(c.by[at], name)
		}
	}
}

// expect takes note of hosts that an environment is about to occupy.
func (c *claims) expect(name, manifest string, hosts []string) {
	spots := slices.Clone(c.held[name])
	for _, host := range hosts {
		spots = append(spots, spot{manifest, host})
	}
	c.set(name, spots)
}

// other is an environment, not the one named, that occupies a host with a
// manifest, "" when there is none.
func (c *claims) other(name, manifest, host string) string {
	c.refresh()
	for _, by := range c.by[spot{manifest, host}] {
		if by != name {
			return by
		}
	}
	return ""
}

// has tells whether an environment occupies the host itself.
func (c *claims) has(name, manifest, host string) bool {
	c.refresh()
	return slices.Contains(c.by[spot{manifest, host}], name)
}

func (c *claims) overlaps(name, manifest string, hosts []string) error {
	var first, by string
	n := 0
	for _, host := range slices.Sorted(slices.Values(hosts)) {
		if other := c.other(name, manifest, host); other != "" {
			if n++; n == 1 {
				first, by = host, other
			}
		}
	}
	if n == 0 {
		return nil
	}
	more := ""
	if n > 1 {
		more = fmt.Sprintf(", and other environments have %d more of its hosts", n-1)
	}
	return fmt.Errorf("environment %s has a task of %s on host %s%s; each environment would undo what another does: "+
		"let instance_group.query select other hosts, use another manifest, or end the other one first: deployster env delete %s --terminate-tasks",
		by, manifest, first, more, by)
}
