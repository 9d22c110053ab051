package builds_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/inventory"
)

var errDown = errors.New("connection refused")

func TestWorkersComeAndGo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventory(nil, host("a", 1))
		w.takes = func(build.Task) time.Duration { return time.Minute }
		id := w.submit("base", jobs("", "", "", ""))
		d := w.start()
		w.inventory(nil, host("b", 2))
		wait(2 * time.Second)
		w.wantBegun(id+"/1.1 a", id+"/2.1 b", id+"/3.1 b")
		w.inventory(nil, host("b", 3))
		wait(2 * time.Second)
		w.wantBegun(id+"/1.1 a", id+"/2.1 b", id+"/3.1 b", id+"/4.1 b")
		wait(2 * time.Minute)
		d.completes(id)
	})
}

func TestAnInventoryThatIsEmptiedBeginsNothingAndLosesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.submit("base", jobs("", "", ""))
		d := w.start()
		w.inventory(nil)
		wait(time.Hour)
		w.wantBegun(id+"/1.1 a", id+"/2.1 a")
		w.wantState(id, transition.Dispatching)
		require.Len(t, w.Notices("no workers any more"), 1)
		assert.Empty(t, w.Notices(record.GroupStalled))
		w.inventory(nil, host("a", 2))
		wait(3 * time.Second)
		d.completes(id)
	})
}

func TestAnInventoryThatCannotBeReadKeepsTheKnownWorkers(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.submit("base", jobs("", "", "", "1,2,3"))
		d := w.start()
		w.inventory(errors.New("line 3: hosts is not a list"))
		wait(time.Hour)
		w.wantState(id, transition.Complete)
		assert.Len(t, w.Notices("going on with the workers that are known: line 3"), 1, "notified %q", w.Notices(""))
		d.End()
	})
}

func TestAWorkerWhoseEngineDoesNotAnswerIsNotUsedUntilItDoes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventory(nil, host("a", 1), host("b", 1))
		w.engine("a", errDown)
		id := w.submit("base", jobs("", "", ""))
		d := w.start()
		wait(time.Minute)
		w.wantBegun(id+"/1.1 b", id+"/2.1 b", id+"/3.1 b")
		assert.Len(t, w.Notices("worker a is not used: connection refused"), 1, "notified %q", w.Notices(""))
		w.engine("a", nil)
		wait(2 * time.Minute)
		assert.Len(t, w.Notices("worker a is used again"), 1, "notified %q", w.Notices(""))
		w.submit("more", jobs("", ""))
		wait(time.Second / 2)
		got := strings.Join(w.hasBegun()[3:], ",")
		assert.True(t, strings.Contains(got, " a") && strings.Contains(got, " b"), "there began %q", got)
		wait(time.Minute)
		d.End()
	})
}

func TestAWorkerThatIsLostHasItsJobsBuiltElsewhere(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventory(nil, host("a", 2), host("b", 2))
		w.takes = func(build.Task) time.Duration { return time.Minute }
		id := w.submit("base", jobs("", "", ""))
		d := w.start()
		w.engine("a", errDown)
		wait(10 * time.Minute)
		w.wantState(id, transition.Complete)
		assert.Len(t, w.Notices("worker a rests"), 1, "notified %q", w.Notices(""))
		for _, text := range w.hasBegun()[3:] {
			assert.True(t, strings.HasSuffix(text, " b"))
		}
		check(w)
		d.End()
	})
}

// With one worker only, a job waits for that, and its losses are not used up meanwhile.
func TestTheOnlyWorkerThatIsAwayForAWhileIsWaitedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		w.takes = func(build.Task) time.Duration { return time.Minute }
		id := w.submit("base", jobs("", ""), func(s *build.Submit) { s.MaxLost = 1 })
		d := w.start()
		w.engine("a", errDown)
		wait(time.Hour)
		w.wantState(id, transition.Dispatching)
		w.engine("a", nil)
		wait(10 * time.Minute)
		d.completes(id)
	})
}

func TestAWorkerThatLosesEveryJobRestsForLongerEachTime(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventory(nil, host("a", 1))
		w.ends = func(build.Task) build.Result { return lost("its disk is full") }
		id := w.submit("base", jobs(""), func(s *build.Submit) { s.MaxLost = 5 })
		before := time.Now()
		o := w.options
		o.UntilIdle = true
		assert.NoError(t, builds.NewController(o).Run(context.Background()))
		w.wantState(id, transition.Failed)
		if took := time.Since(before); took < 30*time.Second || len(w.Notices("worker a rests for")) < 5 {
			t.Errorf("it took %s, and notified %q", took, w.Notices("notice"))
		}
	})
}

func TestUntilIdleDoesNotWaitForWorkersThatDoNotCome(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*world)
		most    time.Duration
	}{
		"no worker has the platform": {func(w *world) { w.inventory(nil, host("arm", 2, "linux/arm64")) }, time.Second},
		"there is none":              {func(w *world) { w.inventory(nil) }, time.Second},
		"its engine never answers":   {func(w *world) { w.engine("a", errDown) }, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				tc.prepare(w)
				id := w.submit("base", jobs(""))
				before := time.Now()
				w.untilIdle()
				assert.LessOrEqual(t, time.Since(before), tc.most)
				w.wantBegun()
				w.wantState(id, transition.Queued)
			})
		})
	}
}

func TestAPlatformThatTheInventoryDoesNotSayIsThatOfTheEngine(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventory(nil, inventory.Host{Name: "a", Engine: inventory.OCI, Slots: 1})
		id := w.submit("base", jobs(""))
		w.completes(id)
	})
}

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
		assert.Len(t, w.Notices("inventory prod are left alone: the one here is test"), 1)
		w.inventoryIs = "prod"
		w.completes(left)
		check(w)
	})
}

// What others began on their hosts is not looked for on those of the same name.
func TestWhatRunsOnHostsOfAnotherInventoryIsNotTakenUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventoryIs = "prod"
		w.takes = func(build.Task) time.Duration { return time.Hour }
		id := w.submit("base", jobs(""), of("prod"))
		w.start().Die()
		w.inventoryIs = "test"
		other := w.submit("tools", jobs(""), of("test"))
		w.completes(other)
		w.wantState(id, transition.Dispatching)
		assert.Empty(t, w.resumed)
		d := w.start()
		w.set(func() { w.inventoryIs = "prod" }) // somebody gives the inventory its name
		wait(2 * time.Hour)
		d.completes(id)
	})
}

// named are workers of an inventory.
type named struct {
	workers
	inventory string
}

type workers = builds.Workers

func (n named) Identity() string { return n.inventory }

// Who has nothing but groups of another inventory keeps nobody from them, and goes on with those of its own that come later.
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
		first.completes(own)
		second.End()
		check(w)
	})
}

func TestAGroupOfAnInventoryThatIsNoMoreIsCanceled(t *testing.T) {
	inWorld(t, func(w *world) {
		w.inventoryIs = "test"
		id := w.submit("base", jobs("", "1"), of("prod"))
		d := w.start()
		wait(time.Minute)
		w.do(build.Cancel{Group: id})
		wait(time.Minute)
		w.wantState(id, transition.Canceled)
		d.End()
		check(w)
	})
}
