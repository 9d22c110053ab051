package build_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
)

func TestAFailureEndsWhatNeedsItAndNothingElse(t *testing.T) {
	w := newWorld(t)
	w.submit(group("base", spec(), spec(), spec(1), spec(3), spec(2), spec(2, -1)))
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
	w.submit(c)
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
	w.submit(group("base", spec(), spec(), spec(1), spec()))
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
	w.submit(c)
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

// A group without jobs, in a log that somebody else wrote, needs no worker to end.
func TestAGroupWithoutJobsIsNotIdle(t *testing.T) {
	w := newWorld(t)
	target := record.Group("none-1")
	w.append([]deploylogEvent{
		event(target, record.GroupTriggered, record.Triggered{Name: "none"}),
		event(target, record.GroupCreated, record.Created{}),
		event(target, record.GroupQueued, struct{}{}),
	})
	assert.False(t, w.state.Idle(nil), "it is idle, though the group may start")
	w.decide()
	w.is("none-1", "Complete:")
	assert.True(t, w.state.Idle(nil), "it is not idle when it has ended")
}

// unpushed is that a task has built something that could not be pushed.
func unpushed(t build.Task) build.Result {
	made := *built(t).Finished
	made.Inputs = t.Inputs
	return build.Result{Failed: &record.Failed{Cause: "the registry is away", Unpushed: &made}}
}

func TestWhatCouldNotBePushedIsNotBuiltAgain(t *testing.T) {
	w := newWorld(t)
	c := group("base", spec(), spec(1))
	c.NoReuse = true // which is about what others have built
	w.submit(c)
	w.end(unpushed, "base-1", 1)
	w.decide()
	w.is("base-1", "Failed: F f")
	w.must(build.Retry{Group: "base-1"})
	w.decide()
	reuse := w.doing[0].Reuse
	if reuse == nil || reuse.Target() != "job/base-1/1" || reuse.Finished.Artifact == "" {
		t.Fatalf("it takes %v", reuse)
	}
	w.end(func(t build.Task) build.Result { return build.Result{Finished: &reuse.Finished} }, "base-1", 1)
	w.end(built, "base-1", 2)
	w.is("base-1", "Complete: B B")
	if s, err := w.state.Report("base-1"); err != nil || s.Reused != 0 {
		t.Errorf("of its own it has taken %d, %v", s.Reused, err)
	}
	again := group("base", spec(), spec(1))
	w.submit(again)
	if r := w.doing[0].Reuse; r == nil || r.Target() != "job/base-1/1" {
		t.Errorf("another group takes %v", r)
	}
}

func TestWhatCouldNotBePushedAndIsGoneIsBuiltAgain(t *testing.T) {
	w := newWorld(t)
	w.submit(group("base", spec()))
	w.end(unpushed, "base-1", 1)
	w.decide()
	// Another group that builds the same takes it, too.
	w.submit(group("base", spec()))
	if r := w.doing[0].Reuse; r == nil || r.Target() != "job/base-1/1" {
		t.Errorf("another group takes %v", r)
	}
	w.end(always(build.Result{Lost: &record.Lost{Cause: "it is gone", Mistaken: true}}), "base-2", 1)
	assert.Nil(t, w.doing[0].Reuse, "what is gone is taken")
}

// A job that ends whatever process has it done is not tried for ever. That another job fills the
// disk does not count as a loss of a job, but it may be what fills it.
func TestAJobThatIsNotAtFaultIsTriedOnlySoOften(t *testing.T) {
	for name, c := range map[string]struct {
		lost    record.Lost
		maxLost int
	}{
		"abandoned":   {record.Lost{Cause: "it is gone", Abandoned: true}, 1},
		"crowded out": {record.Lost{Cause: "the disk was full", Crowded: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			g := group("base", spec())
			g.MaxLost = c.maxLost
			w.must(g)
			w.decide()
			for range 20 {
				w.end(always(build.Result{Lost: &c.lost}), "base-1", 1)
				w.is("base-1", "Dispatching: D")
			}
			for range c.maxLost {
				w.end(always(build.Result{Lost: &c.lost}), "base-1", 1)
				w.later(time.Minute)
				w.is("base-1", "Dispatching: D")
			}
			w.end(always(build.Result{Lost: &c.lost}), "base-1", 1)
			w.is("base-1", "Failed: F")
		})
	}
}

// What was to be reused is known also to who takes a job up.
func TestWhoTakesAJobUpKnowsWhatIsReused(t *testing.T) {
	w := newWorld(t)
	w.submit(group("base", spec()))
	w.end(built, "base-1", 1)
	w.submit(group("base", spec()))
	w.doing = nil
	w.decide()
	if task := w.take("base-2", 1); task.Reuse == nil || task.Reuse.Target() != "job/base-1/1" {
		t.Errorf("it is taken up to reuse %v", task.Reuse)
	}
}
