package builds_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/control/builds"
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
		assert.Len(t, w.notices("inventory prod are left alone: the one here is test"), 1)
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
		assert.Empty(t, w.resumed)
		d := w.start()
		w.mu.Lock()
		w.inventoryIs = "prod" // somebody gives the inventory its name
		w.mu.Unlock()
		wait(2 * time.Hour)
		w.wantState(id, transition.Complete)
		d.end()
	})
}

// named are workers of an inventory.
type named struct {
	workers
	inventory string
}

type workers = builds.Workers

func (n named) Identity() string { return n.inventory }

// Who has nothing but groups of another inventory keeps nobody from them, and goes on with those
// of its own that come later.
func TestWhoHasNothingToBuildGivesWayToAnotherInventory(t *testing.T) {
	inWorld(t, func(w *world) {
		workers := w.options.Workers
		w.options.Workers = named{workers, "test"}
		first := w.start()
		wait(time.Minute)
		id := w.submit("base", jobs("", "1"), of("prod"))
		wait(time.Minute)
		w.options.Workers = named{workers, "prod"}
		second := w.start()
		wait(time.Hour)
		w.wantState(id, transition.Complete)
		own := w.submit("tools", jobs(""), of("test"))
		wait(time.Hour)
		w.wantState(own, transition.Complete)
		first.end()
		second.end()
		check(w)
	})
}

// A group whose workers nobody has any more is canceled all the same, where nothing of it runs.
func TestAGroupOfAnInventoryThatIsNoMoreIsCanceled(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventoryIs = "test"
		id := w.submit("base", jobs("", "1"), of("prod"))
		d := w.start()
		wait(time.Minute)
		w.do(build.Cancel{Group: id})
		wait(time.Minute)
		w.wantState(id, transition.Canceled)
		d.end()
		check(w)
	})
}
