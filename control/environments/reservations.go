package environments

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
)

// reservations are which environments have tasks on which hosts. Two must not make one
// thing there: each would undo what the other does. What an environment has on hosts is
// found out when it is asked for, after something has happened to the environment; what its
// tasks make there, only where another one is on the same host, and once.
type reservations struct {
	states  map[string]*environment.State
	things  func(tasks.Task) []tasks.Thing // may be nil, and return none: then it is not known
	version func() int                     // of what things depends on beside the tasks; may be nil
	asOf    int                            // the version of what is known
	stale   map[string]bool
	held    map[string]map[string][]int // revisions of tasks, by environment and host
	on      map[string]*occupancy       // by host
}

// occupancy is what environments have on a host.
type occupancy struct {
	names   []string                 // of the environments, sorted
	known   map[holder][]tasks.Thing // what tasks make
	unknown map[holder]bool          // tasks of which that is not found out yet
	makers  map[string][]holder      // by the key of what they make
}

// holder is a task on a host.
type holder struct {
	environment string
	revision    int
}

func newReservations(states map[string]*environment.State) *reservations {
	return &reservations{states: states, stale: map[string]bool{}, held: map[string]map[string][]int{}, on: map[string]*occupancy{}}
}

func (r *reservations) receive(e deploylog.Event) {
	if name, ok := record.NameOf(e.Target); ok {
		r.doubt(name)
	}
}

// doubt has it found out again what an environment has on hosts.
func (r *reservations) doubt(name string) { r.stale[name] = true }

// forget has it found out again what tasks make: that may depend on attributes of hosts.
func (r *reservations) forget() {
	for _, o := range r.on {
		for h := range o.known {
			o.unknown[h] = true
		}
		clear(o.known)
		clear(o.makers)
	}
}

// renew forgets what depends on an older version, once for each command.
func (r *reservations) renew() {
	if r.version == nil {
		return
	}
	if now := r.version(); now != r.asOf {
		r.asOf = now
		r.forget()
	}
}

func (r *reservations) refresh() {
	for name := range r.stale {
		if s := r.states[name]; s != nil {
			on := map[string][]int{}
			for t := range s.HostTasks() {
				on[t.Host] = append(on[t.Host], t.Revision)
			}
			r.set(name, on)
		}
	}
	clear(r.stale)
}

// set replaces what an environment has on hosts.
func (r *reservations) set(name string, on map[string][]int) {
	for host, revisions := range r.held[name] {
		o := r.on[host]
		for _, revision := range revisions {
			if !slices.Contains(on[host], revision) {
				o.remove(holder{name, revision})
			}
		}
		if len(on[host]) > 0 {
			continue
		}
		o.names = slices.DeleteFunc(o.names, func(n string) bool { return n == name })
		if len(o.names) == 0 {
			delete(r.on, host)
		}
	}
	for host, revisions := range on {
		o := r.on[host]
		if o == nil {
			o = &occupancy{known: map[holder][]tasks.Thing{}, unknown: map[holder]bool{}, makers: map[string][]holder{}}
			r.on[host] = o
		}
		if i, known := slices.BinarySearch(o.names, name); !known {
			o.names = slices.Insert(o.names, i, name)
		}
		for _, revision := range revisions {
			if h := (holder{name, revision}); o.known[h] == nil {
				o.unknown[h] = true
			}
		}
	}
	r.held[name] = on
}

// remove forgets a task that is no longer on the host.
func (o *occupancy) remove(h holder) {
	for _, thing := range o.known[h] {
		o.makers[thing.Key] = slices.DeleteFunc(o.makers[thing.Key], func(other holder) bool { return other == h })
		if len(o.makers[thing.Key]) == 0 {
			delete(o.makers, thing.Key)
		}
	}
	delete(o.known, h)
	delete(o.unknown, h)
}

// add notes what a task makes.
func (o *occupancy) add(h holder, things []tasks.Thing) {
	delete(o.unknown, h)
	o.known[h] = things
	for _, thing := range things {
		o.makers[thing.Key] = append(o.makers[thing.Key], h)
	}
}

// complete finds out what all tasks on a host make.
func (r *reservations) complete(host string, o *occupancy) {
	for h := range o.unknown {
		o.add(h, r.identify(r.states[h.environment].Task(h.revision, host)))
	}
}

// expect adds tasks of a revision that an environment is about to have on hosts.
func (r *reservations) expect(name string, revision int, hosts []string) {
	r.refresh()
	on := maps.Clone(r.held[name])
	if on == nil {
		on = map[string][]int{}
	}
	for _, host := range hosts {
		if !slices.Contains(on[host], revision) {
			on[host] = append(slices.Clone(on[host]), revision)
		}
	}
	r.set(name, on)
}

// has reports whether an environment has a task on its host itself.
func (r *reservations) has(t tasks.Task) bool {
	r.refresh()
	return slices.Contains(r.held[t.Environment][t.Host], t.Revision)
}

// present reports whether an environment has any task on the host of one.
func (r *reservations) present(t tasks.Task) bool { return len(r.held[t.Environment][t.Host]) > 0 }

// other is another environment whose tasks make something on the host of a task that
// this would make, too, and what that is; "" when there is none. kept is whether the task
// is one of a revision that is recorded.
func (r *reservations) other(t tasks.Task, kept bool) (by string, shared tasks.Thing) {
	r.refresh()
	o := r.on[t.Host]
	if o == nil || len(o.names) == 1 && o.names[0] == t.Environment {
		return "", tasks.Thing{}
	}
	things := r.identify
	if kept {
		things = r.thingsOf
	}
	r.complete(t.Host, o)
	for _, thing := range things(t) {
		for _, h := range o.makers[thing.Key] {
			if h.environment != t.Environment && (by == "" || h.environment < by) {
				by, shared = h.environment, thing
			}
		}
	}
	return by, shared
}

// taken are the targets of tasks that a deleted environment left running, and whose things
// another environment makes now: to terminate them would be to take those away.
func (r *reservations) taken(s *environment.State) (taken []string) {
	for _, o := range s.Orphans() {
		if by, _ := r.other(s.Task(o.Revision, o.Host), true); by != "" {
			taken = append(taken, o.Target)
		}
	}
	return taken
}

// without are hosts without those that an environment does not have, and on which another
// one makes what it would make, too: they are left to that, as when they join both.
func (r *reservations) without(s *environment.State, hosts []string) []string {
	f, deployed := s.ActiveDeployment()
	return slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		if !deployed {
			return false
		}
		t := s.Task(f.Revision, host)
		other, _ := r.other(t, true)
		return other != "" && !r.has(t)
	})
}

// thingsOf are what a task of a revision that is recorded makes.
func (r *reservations) thingsOf(t tasks.Task) []tasks.Thing {
	if o := r.on[t.Host]; o != nil {
		if things := o.known[holder{t.Environment, t.Revision}]; things != nil {
			return things
		}
	}
	return r.identify(t)
}

// identify finds out what a task makes. Where that is not known, it is taken to make what
// any other makes that applies the same text with the same variables.
func (r *reservations) identify(t tasks.Task) []tasks.Thing {
	if r.things != nil {
		if things := r.things(t); len(things) > 0 {
			return things
		}
	}
	spec := t.Spec
	if spec.Digest != "" {
		spec.Manifest = ""
	}
	key, err := json.Marshal(spec)
	if err != nil {
		return nil // no definition that was read is like that
	}
	return []tasks.Thing{{Key: "task " + string(key), Name: "task of " + t.Spec.Manifest}}
}

// joined are hosts without those that have joined an environment since it was deployed, and on
// which another one makes what a task of the definition would make: they are left to that one, as
// when they join both. It is the same query that selects them, so nobody has asked for them: an
// environment that is not deployed yet, or a query that is another one, is to be refused instead.
func (r *reservations) joined(s *environment.State, d *definition.Definition, t tasks.Task, kept bool, hosts []string) []string {
	if query := s.Query(); query == "" || query != d.InstanceGroup.Query {
		return hosts
	}
	return r.unclaimed(t, kept, hosts, r.present)
}

// backTo are hosts without those on which an environment does not have the task of a revision to
// which it is to go back, and another one makes what that would make: they lose what they have,
// as hosts that leave, but the others go back.
func (r *reservations) backTo(s *environment.State, revision int, hosts []string) []string {
	return r.unclaimed(s.Task(revision, ""), true, hosts, r.has)
}

// unclaimed are hosts without those on which another environment makes what a task would make,
// but for what is this environment's own. Where all would be, that is a mistake, and they stay.
func (r *reservations) unclaimed(t tasks.Task, kept bool, hosts []string, own func(tasks.Task) bool) []string {
	r.refresh()
	rest := slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		if t.Host = host; own(t) {
			return false
		}
		other, _ := r.other(t, kept)
		return other != ""
	})
	if len(rest) == 0 {
		return hosts
	}
	return rest
}

// MadeByAnother is the code of commands that would have two environments make one thing.
const MadeByAnother refusal.Code = "made-by-another"

// mostNamed is how many names a notice lists.
const mostNamed = 5

// divide tells the hosts that the task of the active deployment may have from those that are left
// to other environments, which make there what it would make, too; why names these.
func (r *reservations) divide(s *environment.State, hosts []string) (free, occupied []string, why error) {
	f, _ := s.ActiveDeployment()
	by := map[string]string{} // what it makes
	for _, host := range hosts {
		t := s.Task(f.Revision, host)
		other, thing := r.other(t, true)
		if other == "" || r.has(t) {
			free = append(free, host)
			continue
		}
		occupied = append(occupied, host)
		if by[other] == "" {
			by[other] = fmt.Sprintf("%s makes the %s", other, thing.Name)
		}
	}
	if len(occupied) > 0 {
		why = fmt.Errorf("environment %s leaves out %s, where %s, which it would make, too",
			s.Name(), phrase.First(occupied, mostNamed), phrase.First(slices.Sorted(maps.Values(by)), mostNamed))
	}
	return free, occupied, why
}

// overlaps refuses a task on hosts where another environment makes what it would make.
func (r *reservations) overlaps(t tasks.Task, kept bool, hosts []string) error {
	first, by, n := "", "", 0
	var shared tasks.Thing
	for _, host := range slices.Sorted(slices.Values(hosts)) {
		t.Host = host
		other, thing := r.other(t, kept)
		if other == "" {
			continue
		}
		if n++; n == 1 {
			first, by, shared = host, other, thing
		}
	}
	if n == 0 {
		return nil
	}
	more := ""
	if n > 1 {
		more = fmt.Sprintf(", and other environments are in its way on %d more of its hosts", n-1)
	}
	return refusal.New(MadeByAnother, "environment %s would make the %s on host %s, where environment %s makes it%s; each would undo what the other does: "+
		"let instance_group.query select other hosts, name what is made by {{ task }}, or end the other one first: deployster env delete %s --terminate-tasks",
		t.Environment, shared.Name, first, by, more, by)
}
