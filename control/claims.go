package control

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
	held   map[string]claim
	by     map[spot][]string
}

// claim is what an environment occupies.
type claim struct {
	manifest string
	hosts    []string
}

// spot is what one environment at most is to occupy.
type spot struct{ manifest, host string }

func newClaims(states map[string]*environment.State) *claims {
	return &claims{states: states, stale: map[string]bool{}, held: map[string]claim{}, by: map[spot][]string{}}
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
			c.set(name, claim{manifestOf(s), slices.Collect(s.Occupied())})
		}
	}
	clear(c.stale)
}

// manifestOf is the task manifest of the revision in force, or that was before the
// environment began to be deleted.
func manifestOf(s *environment.State) string {
	if m := s.Manifest(); m != "" {
		return m
	}
	for _, d := range slices.Backward(s.Deployments()) {
		if r, err := s.Revision(d.Revision); err == nil && d.Kind != environment.ByDelete {
			return r.Definition.Task.Manifest
		}
	}
	return ""
}

// set replaces what an environment claims.
func (c *claims) set(name string, to claim) {
	for _, host := range c.held[name].hosts {
		at := spot{c.held[name].manifest, host}
		if left := slices.DeleteFunc(c.by[at], func(n string) bool { return n == name }); len(left) > 0 {
			c.by[at] = left
		} else {
			delete(c.by, at)
		}
	}
	delete(c.held, name)
	if to.manifest == "" || len(to.hosts) == 0 {
		return
	}
	c.held[name] = to
	for _, host := range to.hosts {
		at := spot{to.manifest, host}
		c.by[at] = append(c.by[at], name)
	}
}

// expect takes note of hosts that an environment is about to occupy.
func (c *claims) expect(name, manifest string, hosts []string) {
	c.set(name, claim{manifest, slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(hosts), c.held[name].hosts...))))})
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
