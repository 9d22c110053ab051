package environments_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

// containers has every task make a container, which its manifest names.
func (w *world) containers() {
	w.makes = func(t tasks.Task) []tasks.Thing {
		name := "container " + strings.TrimSuffix(t.Spec.Manifest, ".yaml")
		return []tasks.Thing{{Key: name, Name: name}}
	}
}

func TestWhatAnotherEnvironmentMakesOnAHostIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.deployed(daemon("prod", agent), "a", "b")
		all := daemon("all", agent)
		err := w.command("all", environment.Create{Definition: all}, "a", "b", "c")
		require.Error(t, err, "it was created")
		for _, want := range []string{"environment all would make the container agent on host a", "environment prod makes it", "1 more", "env delete prod"} {
			assert.Contains(t, err.Error(), want, "%q does not tell of %q", err, want)
		}
		assert.NoError(t, w.environments.Overlaps(all, []string{"c"}))
		assert.NoError(t, w.environments.Overlaps(daemon("prod", agent), []string{"a"}))
		w.create(all, "c")
		w.deploy("all", 1)
		w.untilIdle()
		for _, c := range []environment.Command{
			environment.Deploy{Revision: 1, Hosts: []string{"b"}}, environment.Update{Base: 1, Definition: daemon("all", agent, image("2"))},
		} {
			assert.ErrorContains(t, w.command("all", c, "b"), "host b")
		}
		w.update(1, daemon("all")) // another manifest
		w.inventory("all", "b", "c")
		w.deploy("all", 2)
		w.untilIdle()
		assert.ErrorContains(t, w.command("all", environment.Rollback{Revision: 1, Hosts: []string{"a", "b"}}), "host a")
		w.do("prod", environment.Delete{TerminateTasks: true})
		assert.ErrorContains(t, w.command("all", environment.Rollback{Revision: 1, Hosts: []string{"a", "b"}}), "environment prod makes")
		w.untilIdle()
		w.do("all", environment.Rollback{Revision: 1, Hosts: []string{"b", "d"}})
	})
}

func TestARollbackLeavesOutHostsThatAnotherEnvironmentHas(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.deployEach(map[string]string{"prod": "b", "all": "c"}, agent)
		w.update(1, daemon("all"))
		w.inventory("all", "b", "c", "d")
		w.deploy("all", 2)
		w.untilIdle()
		w.wantRunning("b all:2", "b prod:1", "c all:2", "d all:2")
		w.rollback("all", 1)
		w.untilIdle()
		w.wantRunning("b prod:1", "c all:1", "d all:1")
		w.wantRows("all", "1 Active 2 2; 2 Reverted 0 0")
		left, _ := w.environments.LeftOut("all", []string{"b", "c", "d"})
		assert.Equal(t, []string{"b"}, left)
		w.start()
		w.do("prod", environment.Delete{TerminateTasks: true})
		wait(time.Minute)
		w.wantRunning("b all:1", "c all:1", "d all:1")
	})
}

// Nor does a rollback that nobody asks for take a host that another environment has; where all
// would be, or more than may leave at once, it is left to a person.
func TestAnAutomaticRollbackTakesNoHostOfAnotherEnvironment(t *testing.T) {
	auto := func(d *definition.Definition) { verified(d); d.Deployment.AutoRollback = true }
	elsewhere := func(d *definition.Definition) { d.InstanceGroup.Query = "elsewhere" }
	for name, tc := range map[string]struct {
		prod, all []string
		change    []func(*definition.Definition)
		rows      string
	}{
		"one host is left to it":               {[]string{"b"}, []string{"b", "c", "d"}, nil, "1 Active 2 2; 2 Reverted 0 0"},
		"more than may leave would be":         {[]string{"a", "b"}, []string{"a", "b", "c"}, nil, "1 Undeploying 0 1; 2 Stuck 3 1"},
		"the hosts are those of another query": {[]string{"b"}, []string{"b", "c"}, []func(*definition.Definition){elsewhere}, "1 Active 2 2; 2 Reverted 0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.containers()
				w.tests(time.Second, errors.New("no answer"))
				w.deployed(daemon("prod", agent), tc.prod...)
				w.deployed(daemon("all", agent), "c")
				w.untilIdle()
				d := daemon("all", append(tc.change, auto)...)
				w.update(1, d)
				w.inventory(d.InstanceGroup.Query, tc.all...)
				if len(tc.change) > 0 {
					w.inventory("all", "b", "c", "d")
				}
				w.deploy("all", 2)
				w.start()
				wait(30 * time.Minute)
				w.wantRows("all", tc.rows)
				for _, running := range w.running() {
					if host, of, _ := strings.Cut(running, " "); of == "all:1" && slices.Contains(tc.prod, host) {
						t.Errorf("it has the host of another: %q", w.running())
					}
				}
			})
		})
	}
}

func TestARollbackThatWouldKeepHostsOfAnotherEnvironmentIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.deployed(daemon("prod", agent), "a", "b")
		w.deployed(daemon("all", agent), "c")
		w.untilIdle()
		w.update(1, daemon("all"))
		w.inventory("all", "a", "b", "c")
		w.deploy("all", 2)
		w.untilIdle()
		if err := w.command("all", environment.Rollback{Revision: 1, Hosts: []string{"a", "b", "c"}}); err == nil || !strings.Contains(err.Error(), "on host a, where environment prod makes it, and other environments are in its way on 1 more") || !strings.Contains(err.Error(), "instance_group.max_leaving of revision 1") {
			t.Errorf("%v", err)
		}
	})
}

// Nothing is left out of what was never deployed, or is to be on other hosts: whoever wants that has asked for all of them.
func TestAFirstDeploymentLeavesNoHostToAnotherEnvironment(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.create(daemon("prod", agent), "a", "b")
		w.create(daemon("all", agent), "a", "b", "c")
		w.deploy("prod", 1)
		for _, c := range []environment.Command{
			environment.Deploy{Revision: 1, Hosts: []string{"a", "b", "c"}}, environment.Update{Base: 1, Definition: daemon("all", agent, image("2"))},
		} {
			assert.ErrorContains(t, w.command("all", c, "a", "b", "c"), "on host a, where environment prod makes it")
		}
		w.inventory("all", "c")
		w.deploy("all", 1)
		w.untilIdle()
		w.do("all", environment.Update{Base: 1, Definition: daemon("all", agent, func(d *definition.Definition) { d.InstanceGroup.Query = "other" })})
		assert.ErrorContains(t, w.command("all", environment.Deploy{Revision: 2, Hosts: []string{"a", "c"}}), "on host a")
		w.do("all", environment.Deploy{Revision: 1, Hosts: []string{"a", "c"}})
		left, why := w.environments.LeftOut("all", []string{"a", "c"})
		assert.Equal(t, []string{"a"}, left)
		assert.ErrorContains(t, why, "environment all leaves out a, where prod makes the container agent")
	})
}

func TestAHostThatAnotherEnvironmentHasIsLeftOutUntilItIsFree(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployEach(map[string]string{"prod": "a", "all": "c"}, agent)
		w.start()
		wait(time.Minute)
		w.inventory("all", "a", "b", "c")
		wait(time.Minute)
		w.wantRunning("a prod:1", "b all:1", "c all:1")
		w.wantNotice("environment all leaves out a, where prod makes the task of agent.yaml, which it would make, too")
		w.do("prod", environment.Delete{TerminateTasks: true})
		wait(2 * time.Second)
		w.wantRunning("a all:1", "b all:1", "c all:1")
	})
}

func TestANewHostOfTwoEnvironmentsIsOneOfThem(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployEach(map[string]string{"prod": "a", "all": "c"}, agent)
		w.start()
		wait(time.Minute)
		w.inventory("all", "b", "c")
		w.inventory("prod", "a", "b")
		wait(time.Minute)
		assert.Len(t, w.running(), 3)
	})
}

// What one was about to have, but could not, is free for another.
func TestAHostThatTheLogRefusesToOneEnvironmentIsFreeForAnother(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployEach(map[string]string{"prod": "a", "all": "c"}, agent)
		w.options.Log = &reconciletest.Hooked{Log: w.DeployLog, Event: record.HostsChanged, Hook: reconciletest.Refuse(record.Target("prod"))}
		w.start()
		wait(time.Minute)
		w.inventory("prod", "a", "b")
		wait(time.Minute)
		w.inventory("all", "b", "c")
		wait(time.Minute)
		w.wantRunning("a prod:1", "b all:1", "c all:1")
	})
}

// What is told apart is what is made, not the manifest that makes it.
func TestEnvironmentsShareHostsWhereTheyMakeDifferentThings(t *testing.T) {
	inWorld(t, func(w *world) {
		w.makes = func(t tasks.Task) []tasks.Thing {
			name, _ := t.Spec.Vars["image"].(string)
			if name == "task" {
				name = t.Name()
			}
			return []tasks.Thing{{Key: name, Name: "container " + name}}
		}
		w.deployed(daemon("prod", agent, image("task")), "a")
		w.create(daemon("blue", agent, image("task")), "a", "b") // the same manifest and variables
		w.deploy("blue", 1)
		w.untilIdle()
		w.wantRunning("a blue:1", "a prod:1", "b blue:1")
		w.deployed(daemon("web", image("web")), "b")
		err := w.command("copy", environment.Create{Definition: daemon("copy", image("web"))}, "a", "b") // another manifest
		assert.ErrorContains(t, err, "environment copy would make the container web on host b, where environment web makes it")
		w.deployed(daemon("copy", image("web")), "a")
		w.start()
		wait(time.Minute)
		w.inventory("copy", "a", "b")
		wait(time.Minute)
		w.wantRunning("a blue:1", "a copy:1", "a prod:1", "b blue:1", "b web:1")
		w.wantNotice("environment copy leaves out b, where web makes the container web, which it would make, too")
		w.set(func() { w.makes = nil }) // as when an attribute of a host changes a name
		w.inventory("other", "z")
		wait(time.Minute)
		w.wantRunning("a blue:1", "a copy:1", "a prod:1", "b blue:1", "b copy:1", "b web:1")
	})
}

// Where it is not known what a task makes, it is what the same text and variables make.
func TestWhatIsNotKnownIsTakenForWhatItIsAppliedFrom(t *testing.T) {
	inWorld(t, func(w *world) {
		text := func(manifest, digest string) func(d *definition.Definition) {
			return func(d *definition.Definition) { d.Task.Manifest, d.Task.Digest = manifest, digest }
		}
		w.deployed(daemon("prod", text("a.yaml", "1"), image("1")), "a")
		for _, test := range []struct {
			d  *definition.Definition
			ok bool
		}{
			{daemon("copy", text("b.yaml", "1"), image("1")), false},
			{daemon("other", text("a.yaml", "2"), image("1")), true},
			{daemon("vars", text("a.yaml", "1"), image("2")), true},
		} {
			assert.Equal(t, test.ok, w.environments.Overlaps(test.d, []string{"a"}) == nil, test.d.Name)
		}
	})
}

// What a deleted environment left is not terminated where another one makes it now.
func TestWhatAnotherEnvironmentHasTakenIsNotCleaned(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.active("prod", "a", "b")
		w.do("prod", environment.Delete{})
		w.deployed(daemon("next", func(d *definition.Definition) { d.Task.Manifest = "prod.yaml" }), "b")
		w.untilIdle()
		w.wantRunning("a prod:1", "b next:1", "b prod:1")
		w.do("prod", environment.Clean{})
		w.untilIdle()
		w.wantRunning("b next:1", "b prod:1") // which are one container
		assert.ErrorContains(t, w.command("prod", environment.Clean{}), "there is nothing to clean")
	})
}

func TestAConfirmationTakesNoHostOfAnotherEnvironment(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.deployEach(map[string]string{"all": "d"}, agent)
		w.deployed(daemon("prod", agent), "a", "b", "c")
		w.untilIdle()
		w.inventory("prod", "a", "d")
		w.inventory("all", "d")
		w.do("prod", environment.SetHosts{Selected: []string{"a"}}) // which the environment holds for
		w.do("prod", environment.ConfirmHosts{Hosts: []string{"a", "d"}, By: "alice@host"})
		w.untilIdle()
		w.wantRunning("a prod:1", "b prod:1", "c prod:1", "d all:1") // of b and c nothing is known any more
	})
}

func TestARestartTakesNoHostOfAnotherEnvironment(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.deployEach(map[string]string{"all": "d", "prod": "a"}, agent)
		w.inventory("prod", "a", "d")
		w.untilIdle()
		none := 0
		w.do("prod", environment.Restart{Change: record.Change{MinHealthyPercent: &none}, Hosts: []string{"a", "d"}, By: "alice@host"})
		w.untilIdle()
		w.wantRunning("a prod:1", "d all:1")
		assert.ErrorContains(t, w.command("prod", environment.Restart{Only: []string{"d"}, Hosts: []string{"a", "d"}}), "no task on host d")
	})
}

// What was left is taken over where it is the same, unless somebody else has it by now; the
// rest stays listed, and is cleaned without what was taken over.
func TestWhatWasLeftIsTakenOverWhereItIsTheSame(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.deployed(daemon("old", agent), "a", "b", "d")
		w.untilIdle()
		w.create(daemon("new", agent), "e")
		from := environment.AdoptFrom{From: "old", Revision: 1, Hosts: []string{"a", "b", "c"}}
		refused := func(c environment.AdoptFrom, want string) { assert.ErrorContains(t, w.command("new", c), want) }
		refused(from, "old is not deleted")
		w.do("old", environment.Delete{})
		refused(environment.AdoptFrom{From: "new", Revision: 1}, "no such environment")
		refused(environment.AdoptFrom{From: "gone", Revision: 1}, "no such environment")
		refused(environment.AdoptFrom{From: "old", Revision: 7}, "revision 7")
		refused(environment.AdoptFrom{From: "old", Revision: 1, Hosts: []string{"c"}}, "left no task on a host that revision 1 of environment new selects")
		w.create(daemon("own", func(d *definition.Definition) { d.Task.Manifest = "other.yaml" }), "a")
		assert.ErrorContains(t, w.command("own", environment.AdoptFrom{From: "old", Revision: 1, Hosts: []string{"a"}}), "on host a there is container agent, and it would make container other")
		w.deployEach(map[string]string{"first": "b"}, agent)
		w.do("new", from)
		w.follow()
		_ = w.environments.Ask("old", func(s *environment.State) error {
			left := s.Orphans()
			assert.Len(t, left, 2)
			assert.Equal(t, "task/old/1/b task/old/1/d", left[0].Target+" "+left[1].Target)
			return nil
		})
		_ = w.environments.Ask("new", func(s *environment.State) error {
			hosts := s.Report().Hosts
			assert.Len(t, hosts, 2)
			assert.Equal(t, []int{1, 0}, []int{len(hosts[0].Tasks), len(hosts[1].Tasks)})
			return nil
		})
		w.do("old", environment.Clean{})
		w.untilIdle()
		for _, e := range w.Events() {
			assert.True(t, e.Name != record.TaskTerminating || e.Target == "task/old/1/d", "%s is terminated", e.Target)
		}
		assert.ErrorContains(t, w.command("own", environment.AdoptFrom{From: "old", Revision: 1, Hosts: []string{"a"}}), "nothing to take over")
	})
}

// A task that makes more than what is to be taken over is not the same: the rest would be nobody's.
func TestWhatMakesMoreIsNotTakenOver(t *testing.T) {
	inWorld(t, func(w *world) {
		w.makes = func(t tasks.Task) (things []tasks.Thing) {
			for name := range strings.SplitSeq(strings.TrimSuffix(t.Spec.Manifest, ".yaml"), "+") {
				things = append(things, tasks.Thing{Key: name, Name: name})
			}
			return things
		}
		w.deployed(daemon("old", func(d *definition.Definition) { d.Task.Manifest = "web+cache.yaml" }), "a")
		w.untilIdle()
		w.do("old", environment.Delete{})
		w.create(daemon("new", func(d *definition.Definition) { d.Task.Manifest = "web.yaml" }), "a")
		assert.ErrorContains(t, w.command("new", environment.AdoptFrom{From: "old", Revision: 1, Hosts: []string{"a"}}), "there is cache, web, and it would make web.")
	})
}

func TestAHostThatJoinsTwoEnvironmentsHoldsNeither(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.deployEach(map[string]string{"prod": "b", "all": "c"}, agent, surge)
		w.untilIdle()
		w.inventory("all", "b", "c")
		require.NoError(t, w.command("all", environment.Update{Base: 1, Definition: daemon("all", agent, surge, image("2"))}, "b", "c"))
		w.deploy("all", 2)
		w.untilIdle()
		w.wantRunning("b prod:1", "c all:2")
		w.wantRows("all", "1 Inactive 0 0; 2 Active 1 1")
		w.rollback("all", 1)
		w.untilIdle()
		w.wantRunning("b prod:1", "c all:1")
		w.wantRows("all", "1 Active 1 1; 2 Reverted 0 0")
	})
}
