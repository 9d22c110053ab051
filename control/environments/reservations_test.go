package environments_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"

	"github.com/deployster-go/deployster/environment"
)

func TestTheSameManifestOnTheSameHostIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(daemon("prod", agent), "a", "b")
		w.deploy("prod", 1)
		all := daemon("all", agent)
		err := w.command("all", environment.Create{Definition: all}, "a", "b", "c")
		if err == nil {
			t.Fatal("it was created")
		}
		for _, want := range []string{"environment prod", "agent.yaml", "host a", "1 more", "env delete prod"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not tell of %q", err, want)
			}
		}
		if w.environments.Overlaps("all", "agent.yaml", []string{"c"}) != nil || w.environments.Overlaps("prod", "agent.yaml", []string{"a"}) != nil {
			t.Error("an environment is in the way where it is not")
		}
		w.create(all, "c")
		w.deploy("all", 1)
		w.untilIdle()
		for _, c := range []environment.Command{
			environment.Deploy{Revision: 1, Hosts: []string{"b", "c"}}, environment.Update{Base: 1, Definition: daemon("all", agent, image("2"))},
		} {
			if err := w.command("all", c, "b", "c"); err == nil || !strings.Contains(err.Error(), "host b") {
				t.Errorf("%T: %v", c, err)
			}
		}
		w.update(1, daemon("all")) // another manifest
		w.inventory("all", "b", "c")
		w.deploy("all", 2)
		w.untilIdle()
		if err := w.command("all", environment.Rollback{Revision: 1, Hosts: []string{"b", "c"}}); err == nil || !strings.Contains(err.Error(), "host b") {
			t.Errorf("rollback: %v", err)
		}
		w.do("prod", environment.Delete{TerminateTasks: true})
		if err := w.command("all", environment.Rollback{Revision: 1, Hosts: []string{"b", "d"}}); err == nil || !strings.Contains(err.Error(), "environment prod has") {
			t.Errorf("while the other is being deleted: %v", err)
		}
		w.untilIdle()
		w.do("all", environment.Rollback{Revision: 1, Hosts: []string{"b", "d"}})
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
		if got := w.notices("notice"); len(got) != 1 || !strings.Contains(got[0], "environment all leaves out a, where prod has tasks of agent.yaml") {
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
		w.options.Log = &reconciletest.Hooked{Log: w.log, Event: environment.EventHostsChanged, Hook: reconciletest.Refuse(environment.Target("prod"))}
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
