package environments_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

// orphans are the targets of what an environment left.
func (w *world) orphans(name string) (targets []string) {
	w.follow()
	_ = w.environments.Ask(name, func(s *environment.State) error {
		for _, o := range s.Orphans() {
			targets = append(targets, o.Target)
		}
		return nil
	})
	return targets
}

// What was left is taken over where it is the same, unless somebody else has it by now; the
// rest stays listed, and is cleaned without what was taken over.
func TestWhatWasLeftIsTakenOverWhereItIsTheSame(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.create(daemon("old", agent), "a", "b", "d")
		w.deploy("old", 1)
		w.untilIdle()
		w.create(daemon("new", agent), "e")
		from := environment.AdoptFrom{From: "old", Revision: 1, Hosts: []string{"a", "b", "c"}}
		refused := func(c environment.AdoptFrom, want string) {
			t.Helper()
			if err := w.command("new", c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v is refused with %v, not %q", c, err, want)
			}
		}
		refused(from, "old is not deleted")
		w.do("old", environment.Delete{})
		refused(environment.AdoptFrom{From: "new", Revision: 1}, "no such environment")
		refused(environment.AdoptFrom{From: "gone", Revision: 1}, "no such environment")
		refused(environment.AdoptFrom{From: "old", Revision: 7}, "revision 7")
		refused(environment.AdoptFrom{From: "old", Revision: 1, Hosts: []string{"c"}}, "left no task on a host that revision 1 of environment new selects")
		w.create(daemon("own", func(d *definition.Definition) { d.Task.Manifest = "other.yaml" }), "a")
		if err := w.command("own", environment.AdoptFrom{From: "old", Revision: 1, Hosts: []string{"a"}}); err == nil || !strings.Contains(err.Error(), "on host a there is container agent, and it would make container other") {
			t.Errorf("what differs is refused with %v", err)
		}
		w.deployEach(map[string]string{"first": "b"}, agent)
		w.do("new", from)
		if got := w.orphans("old"); !slices.Equal(got, []string{"task/old/1/b", "task/old/1/d"}) {
			t.Errorf("left are %v", got)
		}
		_ = w.environments.Ask("new", func(s *environment.State) error {
			r := s.Report()
			if len(r.Hosts) != 2 || len(r.Hosts[0].Tasks) != 1 || r.Hosts[1].Host != "c" || len(r.Hosts[1].Tasks) != 0 {
				t.Errorf("it has %+v", r.Hosts)
			}
			return nil
		})
		w.do("old", environment.Clean{})
		w.untilIdle()
		for _, e := range w.events() {
			if e.Name == record.TaskTerminating && e.Target != "task/old/1/d" {
				t.Errorf("%s is terminated", e.Target)
			}
		}
		if err := w.command("own", environment.AdoptFrom{From: "old", Revision: 1, Hosts: []string{"a"}}); err == nil || !strings.Contains(err.Error(), "nothing to take over") {
			t.Errorf("when all is gone: %v", err)
		}
	})
}

// A task that makes more than what is to be taken over is not the same: the rest would be
// nobody's.
func TestWhatMakesMoreIsNotTakenOver(t *testing.T) {
	inWorld(t, func(w *world) {
		w.makes = func(t tasks.Task) (things []tasks.Thing) {
			for name := range strings.SplitSeq(strings.TrimSuffix(t.Spec.Manifest, ".yaml"), "+") {
				things = append(things, tasks.Thing{Key: name, Name: name})
			}
			return things
		}
		w.create(daemon("old", func(d *definition.Definition) { d.Task.Manifest = "web+cache.yaml" }), "a")
		w.deploy("old", 1)
		w.untilIdle()
		w.do("old", environment.Delete{})
		w.create(daemon("new", func(d *definition.Definition) { d.Task.Manifest = "web.yaml" }), "a")
		if err := w.command("new", environment.AdoptFrom{From: "old", Revision: 1, Hosts: []string{"a"}}); err == nil || !strings.Contains(err.Error(), "there is cache, web, and it would make web.") {
			t.Errorf("it is refused with %v", err)
		}
	})
}
