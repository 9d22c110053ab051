package environments

import (
	"maps"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
)

// takeOver has an environment take over what a deleted one left. What both are told is
// recorded at once, so that a task never is of both or of neither.
func (e *Environments) takeOver(s *environment.State, c environment.AdoptFrom) ([]deploylog.Event, error) {
	from := e.States[c.From]
	if from == nil || from == s {
		from = environment.New(c.From) // which says that there is none
	}
	if err := from.CheckLeft(c); err != nil {
		return nil, err
	}
	wanted := s.Task(c.Revision, "")
	c.Hosts = e.reservations.unclaimed(wanted, true, c.Hosts, e.reservations.present)
	hosts, targets, differs := e.reservations.leftFor(wanted, from, c.Hosts)
	c.Same = hosts
	events, err := s.Propose(c, e.Now())
	switch {
	case err != nil:
		return nil, err
	case len(hosts) == 0 && differs == "":
		return nil, refusal.New(environment.NothingToAdopt, "environment %s left no task on a host that revision %d of environment %s selects: deployster env list --orphans says where they are",
			c.From, c.Revision, s.Name())
	case len(hosts) == 0:
		return nil, refusal.New(environment.NothingToAdopt, "revision %d of environment %s makes other things than environment %s left, so none of it can be taken over: %s. Have them exist again under their own name (deployster env adopt %s), or deploy revision %d and terminate them then (deployster env clean %s)",
			c.Revision, s.Name(), c.From, differs, c.From, c.Revision, c.From)
	}
	if err := e.reservations.overlaps(wanted, true, c.Hosts); err != nil {
		return nil, err
	}
	return append(events, from.Leave(targets, events[len(events)-1], c)...), nil
}

// leftFor are the hosts on which a deleted environment left a task that makes just what a task
// would make there, and the targets of those; and how the first of the others differs. What
// another environment makes by now is left to that.
func (r *reservations) leftFor(t tasks.Task, from *environment.State, hosts []string) (same, targets []string, differs string) {
	selected := make(map[string]bool, len(hosts))
	for _, name := range hosts {
		selected[name] = true
	}
	on := map[string]bool{}
	for _, o := range from.Orphans() {
		if t.Host = o.Host; !selected[o.Host] {
			continue
		}
		left := from.Task(o.Revision, o.Host)
		if other, _ := r.other(left, true); other != "" {
			continue
		}
		mine, theirs := byKey(r.thingsOf(t)), byKey(r.thingsOf(left))
		if sameKeys(mine, theirs) {
			on[o.Host], targets = true, append(targets, o.Target)
		} else if differs == "" {
			differs = "on host " + o.Host + " there is " + named(theirs) + ", and it would make " + named(mine)
		}
	}
	return slices.Sorted(maps.Keys(on)), targets, differs
}

// byKey are the names of things, by what they are.
func byKey(things []tasks.Thing) map[string]string {
	all := make(map[string]string, len(things))
	for _, thing := range things {
		all[thing.Key] = thing.Name
	}
	return all
}

// sameKeys reports whether two are of the same things, whatever these are called.
func sameKeys(a, b map[string]string) bool {
	return maps.EqualFunc(a, b, func(string, string) bool { return true })
}

// named names the first of some things.
func named(things map[string]string) string {
	names := slices.Sorted(maps.Values(things))
	const most = 3
	return phrase.First(names, most)
}
