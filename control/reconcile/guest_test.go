package reconcile_test

import (
	"slices"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
)

// A loop without a name, as somebody runs it on a laptop, takes nothing from those that share what
// there is; it stands by, and has all when none of them lives.
func TestALoopWithoutANameTakesNothingWhileOthersShare(t *testing.T) {
	inSharing(t, 40, 1, func(s *sharing) {
		s.start("", nil)
		reconciletest.Wait(10 * time.Second)
		if of := s.shares(40); of[""] != 40 {
			t.Errorf("shares are %v, and nobody shares", of)
		}
		a := s.start("a", nil)
		reconciletest.Wait(2 * time.Second)
		if of := s.shares(40); of["a"] != 40 {
			t.Errorf("shares are %v", of)
		}
		if want := "standing by for 40 counters, such as 000: another counter's controller is at work on 000 (the counters are shared by who controls all of them; name those to control here)"; !slices.Contains(s.notices, want) {
			t.Errorf("told %q, not %q", s.notices, want)
		}
		s.start("b", nil)
		reconciletest.Wait(2 * time.Second)
		s.tenants["b"].kill()
		reconciletest.Wait(time.Minute)
		if of := s.shares(40); of["a"] != 40 {
			t.Errorf("shares are %v", of)
		}
		s.create("new", 3)
		if err := s.untilIdle(reconcile.Options{Log: s.open(), Name: "idle"}); err != nil {
			t.Error(err)
		}
		s.wantDone("new", 3)
		if !s.has("a")["new"] {
			t.Error("it was not left to who shares")
		}
		a.kill()
		reconciletest.Wait(time.Second)
		if of := s.shares(41); of[""] != 41 {
			t.Errorf("shares are %v", of)
		}
	})
}

// Who stands by takes nothing of one that ends and has something under way: it would begin more on
// the same host.
func TestALoopThatSharesNothingGivesUpNothingBeforeItEnds(t *testing.T) {
	inSharing(t, 10, 0, func(s *sharing) {
		s.work = func(string) error { <-time.After(time.Minute); return nil }
		s.create("busy", 1)
		first := s.start("", nil)
		s.create("other", 0)
		reconciletest.Wait(2 * time.Second)
		kill := s.site.start(reconcile.All())
		defer kill()
		reconciletest.Wait(2 * time.Second)
		close(first.drain)
		reconciletest.Wait(30 * time.Second)
		if of := s.shares(12); of[""] != 12 {
			t.Errorf("shares are %v", of)
		}
		s.wantNotices(`standing by for 12 counters, such as 000: another counter's controller is at work on 000 (lock "counter/000": lock is held by another process)`)
		reconciletest.Wait(time.Minute)
		s.wantDone("busy", 1)
	})
}
