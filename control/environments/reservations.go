package environments

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
)

// reservations are which environments occupy a host with a task manifest. Two must not:
// each would undo what the other does. What an environment reserves is found
// out when it is asked for, after something has happened to the environment.
type reservations struct {
	states map[string]*environment.State
	stale  map[string]bool
	held   map[string][]reserved // by environment
	by     map[reserved][]string // environments
}

// reserved is what at most one environment is to occupy.
type reserved struct{ manifest, host string }

func newReservations(states map[string]*environment.State) *reservations {
	return &reservations{states: states, stale: map[string]bool{}, held: map[string][]reserved{}, by: map[reserved][]string{}}
}

func (r *reservations) receive(e deploylog.Event) {
	if name, ok := environment.NameOf(e.Target); ok {
		r.doubt(name)
	}
}

// doubt has it found out again what an environment reserves.
func (r *reservations) doubt(name string) { r.stale[name] = true }

func (r *reservations) refresh() {
	for name := range r.stale {
		if s := r.states[name]; s != nil {
			var places []reserved
			for host, manifest := range s.HostManifests() {
				places = append(places, reserved{manifest, host})
			}
			r.set(name, places)
		}
	}
	clear(r.stale)
}

// set replaces what an environment reserves.
func (r *reservations) set(name string, to []reserved) {
	for _, at := range r.held[name] {
		r.by[at] = slices.DeleteFunc(r.by[at], func(n string) bool { return n == name })
		if len(r.by[at]) == 0 {
			delete(r.by, at)
		}
	}
	r.held[name] = to
	for _, at := range to {
		if !slices.Contains(r.by[at], name) {
			r.by[at] = append(r.by[at], name)
		}
	}
}

// expect adds hosts that an environment is about to occupy.
func (r *reservations) expect(name, manifest string, hosts []string) {
	places := slices.Clone(r.held[name])
	for _, host := range hosts {
		places = append(places, reserved{manifest, host})
	}
	r.set(name, places)
}

// other is an environment, not the one named, that occupies a host with a
// manifest, "" when there is none.
func (r *reservations) other(name, manifest, host string) string {
	r.refresh()
	for _, by := range r.by[reserved{manifest, host}] {
		if by != name {
			return by
		}
	}
	return ""
}

// has reports whether an environment occupies the host itself.
func (r *reservations) has(name, manifest, host string) bool {
	r.refresh()
	return slices.Contains(r.by[reserved{manifest, host}], name)
}

func (r *reservations) overlaps(name, manifest string, hosts []string) error {
	occupied := slices.DeleteFunc(slices.Sorted(slices.Values(hosts)), func(host string) bool { return r.other(name, manifest, host) == "" })
	if len(occupied) == 0 {
		return nil
	}
	by, more := r.other(name, manifest, occupied[0]), ""
	if n := len(occupied) - 1; n > 0 {
		more = fmt.Sprintf(", and other environments have %d more of its hosts", n)
	}
	return fmt.Errorf("environment %s has a task of %s on host %s%s; each environment would undo what another does: "+
		"let instance_group.query select other hosts, use another manifest, or end the other one first: deployster env delete %s --terminate-tasks",
		by, manifest, occupied[0], more, by)
}
