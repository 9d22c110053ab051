package builds_test

import (
	"testing"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/transition"
)

// of has the jobs of a group be done on workers of an inventory.
func of(inventory string) func(*build.Submit) {
	return func(s *build.Submit) {
		s.Places = append(s.Places[:0:0], s.Places...)
		for i := range s.Places {
			s.Places[i].Inventory = inventory
		}
	}
}

// Hosts of one inventory are not those of another, also where they have the same names: whoever
// has another one says so, and leaves a group alone.
func TestAGroupIsLeftToWhoHasItsInventory(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventoryIs = "test"
		left, any := w.submit("base", jobs("", "1"), of("prod")), w.submit("tools", jobs(""))
		w.untilIdle()
		w.wantState(left, transition.Queued)
		w.wantState(any, transition.Complete)
		w.wantBegun(any + "/1.1 a")
		if got := w.notices("inventory prod are left alone: the one here is test"); len(got) != 1 {
			t.Errorf("notified %q", got)
		}
		w.inventoryIs = "prod"
		w.untilIdle()
		w.wantState(left, transition.Complete)
		check(w)
	})
}

// What others began on their hosts is not looked for on those of the same name.
func TestWhatRunsOnHostsOfAnotherInventoryIsNotTakenUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventoryIs = "prod"
		w.takes = func(build.Task) time.Duration { return time.Hour }
		id := w.submit("base", jobs(""), of("prod"))
		w.start().die()
		w.inventoryIs = "test"
		other := w.submit("tools", jobs(""), of("test"))
		w.untilIdle()
		w.wantState(other, transition.Complete)
		w.wantState(id, transition.Dispatching)
		if len(w.resumed) > 0 {
			t.Errorf("taken up are %q", w.resumed)
		}
		d := w.start()
		w.mu.Lock()
		w.inventoryIs = "prod" // somebody gives the inventory its name
		w.mu.Unlock()
		wait(2 * time.Hour)
		w.wantState(id, transition.Complete)
		d.end()
	})
}
