package build_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
)

func TestAGroupIsBuilt(t *testing.T) {
	w := newWorld(t)
	w.must(group("base", spec(), spec(1), spec(1), spec(2, 3)))
	w.is("base-1", "Queued: - - - -")
	w.decide()
	w.is("base-1", "Dispatching: D s s s")
	w.end(built, "base-1", 1)
	w.is("base-1", "Dispatching: B D D s")
	w.end(built, "base-1", 2, 3) // at once: the last unlocks what needs both
	w.is("base-1", "Dispatching: B B B D")
	w.end(built, "base-1", 4)
	w.is("base-1", "Complete: B B B B")
}

func TestAFailureEndsWhatNeedsItAndNothingElse(t *testing.T) {
	w := newWorld(t)
	w.must(group("base", spec(), spec(), spec(1), spec(3), spec(2), spec(2, -1)))
	w.decide()
	w.is("base-1", "Dispatching: D D s s s s")
	w.end(always(failed), "base-1", 1)
	w.is("base-1", "Dispatching: F D f f s s")
	w.end(built, "base-1", 2)
	w.is("base-1", "FailureCleanup: F B f f D D")
	w.end(built, "base-1", 5)
	w.is("base-1", "FailureCleanup: F B f f B D")
	w.end(built, "base-1", 6)
	w.is("base-1", "Failed: F B f f B B")
	w.must(build.Retry{Group: "base-1"})
	w.is("base-1", "Queued: - B - - B B")
	w.decide()
	w.is("base-1", "Dispatching: D B s s B B")
	w.end(built, "base-1", 1)
	w.end(built, "base-1", 3)
	w.end(built, "base-1", 4)
	w.is("base-1", "Complete: B B B B B B")
}

func TestFailFastDispatchesNothingMore(t *testing.T) {
	w := newWorld(t)
	c := group("base", spec(), spec(), spec(2), spec(1), spec())
	c.FailFast = true
	w.must(c)
	w.decide()
	w.is("base-1", "Dispatching: D D s s e")
	w.end(always(failed), "base-1", 1)
	w.is("base-1", "FailureCleanup: F D c f c")
	w.end(always(lost), "base-1", 2)
	w.is("base-1", "Failed: F c c f c")
	w.must(build.Retry{Group: "base-1", FailedOnly: true})
	w.is("base-1", "Queued: - c c - c")
	w.decide()
	w.end(built, "base-1", 1)
	w.end(built, "base-1", 4)
	w.is("base-1", "Failed: B c c B c")
	w.must(build.Retry{Group: "base-1"})
	w.decide()
	w.end(built, "base-1", 2, 5)
	w.end(built, "base-1", 3)
	w.is("base-1", "Complete: B B B B B")
}

func TestACanceledGroupWaitsForWhatRuns(t *testing.T) {
	w := newWorld(t)
	w.must(group("base", spec(), spec(), spec(1), spec()))
	w.decide()
	w.must(build.Cancel{Group: "base-1", By: "ann"})
	w.is("base-1", "Canceling: C C c c")
	w.end(built, "base-1", 1) // it ended before it was stopped
	w.is("base-1", "Canceling: B C c c")
	w.end(always(canceled), "base-1", 2)
	w.is("base-1", "Canceled: B c c c")
	w.must(build.Retry{Group: "base-1"})
	w.decide()
	w.is("base-1", "Dispatching: B D D e")
}

func TestAGroupIsCanceledBeforeItStarts(t *testing.T) {
	w := newWorld(t)
	w.must(group("base", spec(), spec(1)))
	w.must(build.Cancel{Group: "base-1"})
	w.is("base-1", "Canceled: c c")
}

// Whoever submits a group may die before all of its events are there.
func TestAGroupIsCanceledWhichWasNotSubmittedWhole(t *testing.T) {
	target := record.Group("other-1")
	triggered := event(target, record.GroupTriggered, record.Triggered{Name: "other"})
	created := event(target, record.GroupCreated, record.Created{Jobs: 3, Places: []record.Place{{Platform: amd}}})
	some := event(target, record.JobsCreated, record.Jobs{From: 1, Jobs: []record.JobSpec{spec(), spec(1)}})
	for is, c := range map[string]struct {
		before []deploylogEvent
		want   string
	}{
		"Triggered:":   {[]deploylogEvent{triggered}, "Canceled:"},
		"Created:":     {[]deploylogEvent{triggered, created}, "Canceled:"},
		"Created: - -": {[]deploylogEvent{triggered, created, some}, "Canceled: c c"},
	} {
		w := newWorld(t)
		w.append(c.before)
		w.is("other-1", is)
		w.decide()
		w.is("other-1", is)
		w.must(build.Cancel{Group: "other-1", By: "ann"})
		w.is("other-1", c.want)
		w.append([]deploylogEvent{event(target, record.GroupQueued, struct{}{})}) // it comes too late
		w.decide()
		w.is("other-1", c.want)
		if _, err := w.state.Propose(build.Cancel{Group: "other-1"}, w.now); err == nil {
			t.Errorf("of %s: it is canceled twice", is)
		}
		if _, err := w.state.Propose(build.Retry{Group: "other-1"}, w.now); err == nil {
			t.Errorf("of %s: what is there of it is built", is)
		}
	}
}

func TestALostJobRestsAndIsFailedAtLast(t *testing.T) {
	w := newWorld(t)
	c := group("base", spec(), spec(1))
	c.MaxLost = 2
	w.must(c)
	w.decide()
	for range 2 {
		w.end(always(lost), "base-1", 1)
		w.is("base-1", "Dispatching: e s")
		w.now = w.state.Wake()
		w.decide()
		w.is("base-1", "Dispatching: D s")
	}
	w.end(always(lost), "base-1", 1)
	w.is("base-1", "Failed: F f")
	if j, _ := w.state.Job("base-1", 1); j.Cause != "it was lost 3 times: its worker is gone" {
		t.Errorf("it failed since %s", j.Cause)
	}
}

func TestWhatIsMissingIsBuiltAgain(t *testing.T) {
	w := newWorld(t)
	w.must(group("base", spec(), spec(1001), spec(2), spec(1), spec(3)))
	w.decide()
	w.end(built, "base-1", 1)
	w.end(built, "base-1", 2)
	w.is("base-1", "Dispatching: B B D D s")
	missing := func(t build.Task) build.Result {
		var all []string
		for _, d := range t.Uses {
			if d.Job == 1 {
				all = append(all, d.Artifact)
			}
		}
		return build.Result{Lost: &record.Lost{Cause: "an artifact is gone", Spoiled: all}}
	}
	w.end(missing, "base-1", 3) // it uses job 1 because job 2 needs that to run
	w.is("base-1", "Dispatching: D B s D s")
	w.end(missing, "base-1", 4)
	w.is("base-1", "Dispatching: D B s L s")
	assert.Nil(t, w.doing[0].Reuse)
	w.end(built, "base-1", 1)
	w.is("base-1", "Dispatching: B B D D s") // nobody was at fault, so nothing rests
	w.end(built, "base-1", 3, 4)
	w.end(built, "base-1", 5)
	w.is("base-1", "Complete: B B B B B")
}

func TestWhatWasBuiltOfTheSameInputsIsReused(t *testing.T) {
	w := newWorld(t)
	w.must(group("base", spec(), spec(1)))
	w.decide()
	w.end(built, "base-1", 1)
	w.end(built, "base-1", 2)
	again := group("base", spec(), spec(1))
	w.must(again)
	w.decide()
	reuse := w.doing[0].Reuse
	if reuse == nil || reuse.Target() != "job/base-1/1" || reuse.Finished.Artifact == "" {
		t.Fatalf("reused is %v", reuse)
	}
	mistaken := build.Result{Lost: &record.Lost{Cause: "it is gone", Mistaken: true}}
	w.end(always(mistaken), "base-2", 1)
	assert.Nil(t, w.doing[0].Reuse, "what is gone is to be reused again")
	w.end(func(t build.Task) build.Result {
		r := built(t)
		r.Finished.Reused = "job/base-1/1"
		return r
	}, "base-2", 1)
	again.NoReuse = true
	w.end(built, "base-2", 2)
	w.must(again)
	w.decide()
	assert.Nil(t, w.doing[0].Reuse, "it reuses although it is not to")
}
