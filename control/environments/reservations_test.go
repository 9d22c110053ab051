package environments_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

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
		w.create(daemon("prod", agent), "a", "b")
		w.deploy("prod", 1)
		all := daemon("all", agent)
		err := w.command("all", environment.Create{Definition: all}, "a", "b", "c")
		if err == nil {
			t.Fatal("it was created")
		}
		for _, want := range []string{"environment all would make the container agent on host a", "environment prod makes it", "1 more", "env delete prod"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not tell of %q", err, want)
			}
		}
		if w.environments.Overlaps(all, []string{"c"}) != nil || w.environments.Overlaps(daemon("prod", agent), []string{"a"}) != nil {
			t.Error("an environment is in the way where it is not")
		}
		w.create(all, "c")
		w.deploy("all", 1)
		w.untilIdle()
		for _, c := range []environment.Command{
			environment.Deploy{Revision: 1, Hosts: []string{"b"}}, environment.Update{Base: 1, Definition: daemon("all", agent, image("2"))},
		} {
			if err := w.command("all", c, "b"); err == nil || !strings.Contains(err.Error(), "host b") {
				t.Errorf("%T: %v", c, err)
			}
		}
		w.update(1, daemon("all")) // another manifest
		w.inventory("all", "b", "c")
		w.deploy("all", 2)
		w.untilIdle()
		if err := w.command("all", environment.Rollback{Revision: 1, Hosts: []string{"a", "b"}}); err == nil || !strings.Contains(err.Error(), "host a") {
			t.Errorf("rollback to hosts of which all are another's: %v", err)
		}
		w.do("prod", environment.Delete{TerminateTasks: true})
		if err := w.command("all", environment.Rollback{Revision: 1, Hosts: []string{"a", "b"}}); err == nil || !strings.Contains(err.Error(), "environment prod makes") {
			t.Errorf("while the other is being deleted: %v", err)
		}
		w.untilIdle()
		w.do("all", environment.Rollback{Revision: 1, Hosts: []string{"b", "d"}})
	})
}

// A rollback must not have to wait for another environment: it leaves out the hosts on which
// that makes what the earlier revision would make, and what it has there leaves.
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
		if left, why := w.environments.LeftOut("all", []string{"b", "c", "d"}); len(left) != 1 || left[0] != "b" {
			t.Errorf("it leaves out %q: %v", left, why)
		}
		r := w.start()
		w.do("prod", environment.Delete{TerminateTasks: true})
		wait(time.Minute)
		w.wantRunning("b all:1", "c all:1", "d all:1")
		r.end()
	})
}

// Nor does a rollback that nobody asks for take a host that another environment has; where all
// would be, or more than may leave at once, it is left to a person.
func TestAnAutomaticRollbackTakesNoHostOfAnotherEnvironment(t *testing.T) {
	auto := func(d *definition.Definition) {
		verified(d)
		d.Deployment.AutoRollback = true
	}
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
				w.create(daemon("prod", agent), tc.prod...)
				w.deploy("prod", 1)
				w.create(daemon("all", agent), "c")
				w.deploy("all", 1)
				w.untilIdle()
				d := daemon("all", append(tc.change, auto)...)
				w.update(1, d)
				w.inventory(d.InstanceGroup.Query, tc.all...)
				if len(tc.change) > 0 {
					w.inventory("all", "b", "c", "d")
				}
				w.deploy("all", 2)
				r := w.start()
				wait(30 * time.Minute)
				w.wantRows("all", tc.rows)
				for _, running := range w.running() {
					if host, of, _ := strings.Cut(running, " "); of == "all:1" && slices.Contains(tc.prod, host) {
						t.Errorf("it has the host of another: %q", w.running())
					}
				}
				r.end()
			})
		})
	}
}

// Where so many hosts would leave that it keeps them, it would be on those that are another's.
func TestARollbackThatWouldKeepHostsOfAnotherEnvironmentIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.create(daemon("prod", agent), "a", "b")
		w.deploy("prod", 1)
		w.create(daemon("all", agent), "c")
		w.deploy("all", 1)
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

// A host that has joined two environments is left to the first, and the rest of the second
// goes on.
func TestAHostThatJoinsTwoEnvironmentsHoldsNeither(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.deployEach(map[string]string{"prod": "b", "all": "c"}, agent, surge)
		w.untilIdle()
		w.inventory("all", "b", "c")
		if err := w.command("all", environment.Update{Base: 1, Definition: daemon("all", agent, surge, image("2"))}, "b", "c"); err != nil {
			t.Fatal(err)
		}
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

// Nothing is left out of what was never deployed, or is to be on other hosts: whoever wants that
// has asked for all of them.
func TestAFirstDeploymentLeavesNoHostToAnotherEnvironment(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.create(daemon("prod", agent), "a", "b")
		w.create(daemon("all", agent), "a", "b", "c")
		w.deploy("prod", 1)
		for _, c := range []environment.Command{
			environment.Deploy{Revision: 1, Hosts: []string{"a", "b", "c"}}, environment.Update{Base: 1, Definition: daemon("all", agent, image("2"))},
		} {
			if err := w.command("all", c, "a", "b", "c"); err == nil || !strings.Contains(err.Error(), "on host a, where environment prod makes it") {
				t.Errorf("%T: %v", c, err)
			}
		}
		w.inventory("all", "c")
		w.deploy("all", 1)
		w.untilIdle()
		w.do("all", environment.Update{Base: 1, Definition: daemon("all", agent, func(d *definition.Definition) { d.InstanceGroup.Query = "other" })})
		if err := w.command("all", environment.Deploy{Revision: 2, Hosts: []string{"a", "c"}}); err == nil || !strings.Contains(err.Error(), "on host a") {
			t.Errorf("on the hosts of another query: %v", err)
		}
		w.do("all", environment.Deploy{Revision: 1, Hosts: []string{"a", "c"}})
		left, why := w.environments.LeftOut("all", []string{"a", "c"})
		if len(left) != 1 || left[0] != "a" || !strings.Contains(why.Error(), "environment all leaves out a, where prod makes the container agent") {
			t.Errorf("it leaves out %q: %v", left, why)
		}
	})
}

func TestAHostThatAnotherEnvironmentHasIsLeftOutUntilItIsFree(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployEach(map[string]string{"prod": "a", "all": "c"}, agent)
		r := w.start()
		wait(time.Minute)
		w.inventory("all", "a", "b", "c")
		wait(time.Minute)
		w.wantRunning("a prod:1", "b all:1", "c all:1")
		if got := w.notices("notice"); len(got) != 1 || !strings.Contains(got[0], "environment all leaves out a, where prod makes the task of agent.yaml, which it would make, too") {
			t.Errorf("notified %q", got)
		}
		w.do("prod", environment.Delete{TerminateTasks: true})
		wait(2 * time.Second)
		w.wantRunning("a all:1", "b all:1", "c all:1")
		r.end()
	})
}

// Of two that would have the same new host, one has it.
func TestANewHostOfTwoEnvironmentsIsOneOfThem(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployEach(map[string]string{"prod": "a", "all": "c"}, agent)
		r := w.start()
		wait(time.Minute)
		w.inventory("all", "b", "c")
		w.inventory("prod", "a", "b")
		wait(time.Minute)
		if got := w.running(); len(got) != 3 {
			t.Errorf("there are %q", got)
		}
		r.end()
	})
}

// What one was about to have, but could not, is free for another.
func TestAHostThatTheLogRefusesToOneEnvironmentIsFreeForAnother(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployEach(map[string]string{"prod": "a", "all": "c"}, agent)
		w.options.Log = &reconciletest.Hooked{Log: w.log, Event: record.HostsChanged, Hook: reconciletest.Refuse(record.Target("prod"))}
		r := w.start()
		wait(time.Minute)
		w.inventory("prod", "a", "b")
		wait(time.Minute)
		w.inventory("all", "b", "c")
		wait(time.Minute)
		w.wantRunning("a prod:1", "b all:1", "c all:1")
		r.end()
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
		w.create(daemon("prod", agent, image("task")), "a")
		w.deploy("prod", 1)
		w.create(daemon("blue", agent, image("task")), "a", "b") // the same manifest and variables
		w.deploy("blue", 1)
		w.untilIdle()
		w.wantRunning("a blue:1", "a prod:1", "b blue:1")
		w.create(daemon("web", image("web")), "b")
		w.deploy("web", 1)
		err := w.command("copy", environment.Create{Definition: daemon("copy", image("web"))}, "a", "b") // another manifest
		if err == nil || !strings.Contains(err.Error(), "environment copy would make the container web on host b, where environment web makes it") {
			t.Errorf("another manifest that makes the same container: %v", err)
		}
		w.create(daemon("copy", image("web")), "a")
		w.deploy("copy", 1)
		r := w.start()
		wait(time.Minute)
		w.inventory("copy", "a", "b")
		wait(time.Minute)
		w.wantRunning("a blue:1", "a copy:1", "a prod:1", "b blue:1", "b web:1")
		if got := w.notices("notice"); len(got) != 1 || !strings.Contains(got[0], "environment copy leaves out b, where web makes the container web, which it would make, too") {
			t.Errorf("notified %q", got)
		}
		w.set(func() { w.makes = nil }) // as when an attribute of a host changes a name
		w.inventory("other", "z")
		wait(time.Minute)
		w.wantRunning("a blue:1", "a copy:1", "a prod:1", "b blue:1", "b copy:1", "b web:1")
		r.end()
	})
}

// Where it is not known what a task makes, it is what the same text and variables make.
func TestWhatIsNotKnownIsTakenForWhatItIsAppliedFrom(t *testing.T) {
	inWorld(t, func(w *world) {
		text := func(manifest, digest string) func(d *definition.Definition) {
			return func(d *definition.Definition) { d.Task.Manifest, d.Task.Digest = manifest, digest }
		}
		w.create(daemon("prod", text("a.yaml", "1"), image("1")), "a")
		w.deploy("prod", 1)
		for _, test := range []struct {
			d  *definition.Definition
			ok bool
		}{
			{daemon("copy", text("b.yaml", "1"), image("1")), false},
			{daemon("other", text("a.yaml", "2"), image("1")), true},
			{daemon("vars", text("a.yaml", "1"), image("2")), true},
		} {
			if err := w.environments.Overlaps(test.d, []string{"a"}); (err == nil) != test.ok {
				t.Errorf("%s: %v", test.d.Name, err)
			}
		}
	})
}

// What a deleted environment left is not terminated where another one makes it now.
func TestWhatAnotherEnvironmentHasTakenIsNotCleaned(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.active("prod", "a", "b")
		w.do("prod", environment.Delete{})
		w.create(daemon("next", func(d *definition.Definition) { d.Task.Manifest = "prod.yaml" }), "b")
		w.deploy("next", 1)
		w.untilIdle()
		w.wantRunning("a prod:1", "b next:1", "b prod:1")
		w.do("prod", environment.Clean{})
		w.untilIdle()
		w.wantRunning("b next:1", "b prod:1") // which are one container
		if err := w.command("prod", environment.Clean{}); err == nil || !strings.Contains(err.Error(), "there is nothing to clean") {
			t.Errorf("cleaning again: %v", err)
		}
	})
}

// Who confirms that hosts leave gets no host that another environment has.
func TestAConfirmationTakesNoHostOfAnotherEnvironment(t *testing.T) {
	inWorld(t, func(w *world) {
		w.containers()
		w.deployEach(map[string]string{"all": "d"}, agent)
		w.create(daemon("prod", agent), "a", "b", "c")
		w.deploy("prod", 1)
		w.untilIdle()
		w.inventory("prod", "a", "d")
		w.inventory("all", "d")
		w.do("prod", environment.SetHosts{Selected: []string{"a"}}) // which the environment holds for
		w.do("prod", environment.ConfirmHosts{Hosts: []string{"a", "d"}, By: "alice@host"})
		w.untilIdle()
		w.wantRunning("a prod:1", "b prod:1", "c prod:1", "d all:1") // of b and c nothing is known any more
	})
}

// Who restarts an environment gets no host that another environment has.
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
		if err := w.command("prod", environment.Restart{Only: []string{"d"}, Hosts: []string{"a", "d"}}); err == nil || !strings.Contains(err.Error(), "no task on host d") {
			t.Errorf("a restart of that host: %v", err)
		}
	})
}
