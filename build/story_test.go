package build_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/refusal"
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
		assert.Error(t, must.Fail(w.state.Propose(build.Cancel{Group: "other-1"}, w.now)), "of %s: it is canceled twice", is)
		_, err := w.state.Propose(build.Retry{Group: "other-1"}, w.now)
		assert.Error(t, err, "of %s: what is there of it is built", is)
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
	j, _ := w.state.Job("base-1", 1)
	assert.Equal(t, "it was lost 3 times: its worker is gone", j.Cause, "it failed since")
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
	require.True(t, reuse != nil && reuse.Target() == "job/base-1/1" && reuse.Finished.Artifact != "", "it takes %v", reuse)
	w.end(func(t build.Task) build.Result { return build.Result{Finished: &reuse.Finished} }, "base-1", 1)
	w.end(built, "base-1", 2)
	w.is("base-1", "Complete: B B")
	assert.Equal(t, 0, must.Get(w.state.Report("base-1"))(t).Reused)
	again := group("base", spec(), spec(1))
	w.submit(again)
	r := w.doing[0].Reuse
	assert.True(t, r != nil && r.Target() == "job/base-1/1", "another group takes %v", r)
}

func TestWhatCouldNotBePushedAndIsGoneIsBuiltAgain(t *testing.T) {
	w := newWorld(t)
	w.submit(group("base", spec()))
	w.end(unpushed, "base-1", 1)
	w.decide()
	// Another group that builds the same takes it, too.
	w.submit(group("base", spec()))
	r := w.doing[0].Reuse
	assert.True(t, r != nil && r.Target() == "job/base-1/1", "another group takes %v", r)
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

func TestWhoTakesAJobUpKnowsWhatIsReused(t *testing.T) {
	w := newWorld(t)
	w.submit(group("base", spec()))
	w.end(built, "base-1", 1)
	w.submit(group("base", spec()))
	w.doing = nil
	w.decide()
	task := w.take("base-2", 1)
	assert.True(t, task.Reuse != nil && task.Reuse.Target() == "job/base-1/1", "it is taken up to reuse %v", task.Reuse)
}

func TestWhatIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		command build.Command
		code    refusal.Code
		says    string
	}{
		{build.Cancel{Group: "base-1"}, build.UnknownGroup, "there is none yet: deployster build submit"},
		{group("base"), build.NothingToBuild, "it has no jobs"},
		{group("base", spec(1)), build.InvalidGroup, "job 1 (p1) uses job 1, which does not come before it"},
		{group("base", spec(), spec(-2)), build.InvalidGroup, "job 2 (p2) waits for job 2"},
		{group("base/", spec()), build.InvalidGroup, "neither begin nor end with a slash"},
		{group(strings.Repeat("x", 301), spec()), build.InvalidGroup, "1 to 300 bytes"},
		{group("base", record.JobSpec{Place: 2}), build.InvalidGroup, "is for place 2 of 2"},
		{build.Submit{Triggered: record.Triggered{Name: "base"}, Unbuildable: []record.Unbuildable{{Package: "x", Cause: "its plan is gone"}}}, build.NothingToBuild, "none of what it would build can be built (1 package); the first, x: its plan is gone"},
	} {
		err := w.propose(c.command)
		var refused *refusal.Error
		assert.True(t, errors.As(err, &refused) && refused.Code == c.code &&
			strings.Contains(err.Error(), c.says), "%T is refused with %v, not with %q, %s", c.command, err, c.says, c.code)
	}
	w.must(group("base", spec(), spec(1)))
	assert.ErrorContains(t, w.propose(build.Retry{Group: "base"}), "it has not ended, it is Queued")
	w.must(build.Cancel{Group: "base", By: "ann"}) // its newest
	assert.ErrorContains(t, w.propose(build.Cancel{Group: "base-1"}), "it has ended, as Canceled")
	assert.ErrorContains(t, w.propose(build.Retry{Group: "base-1", FailedOnly: true}), "nothing has")
	w.submit(group("base", spec()))
	w.must(build.Cancel{Group: "base-2"}) // which waits for its job
	assert.ErrorContains(t, w.propose(build.Retry{Group: "base-2"}), "wait for that: deployster build cancel base-2 --wait")
	assert.ErrorContains(t, w.propose(build.Cancel{Group: "base-2"}), "waits for what runs: deployster build cancel base-2 --wait")
	err := w.propose(build.Cancel{Group: "bsae-1"})
	assert.True(t, errors.Is(err, build.ErrNoGroup) && strings.Contains(err.Error(), "did you mean base-1?"), "%v", err)
}

// A group of whatever size fits into the log: w.append validates each event.
func TestALargeGroupIsSubmittedInParts(t *testing.T) {
	w := newWorld(t)
	name := strings.Repeat("n", 290)
	specs := make([]record.JobSpec, 20_000)
	for i := range specs {
		specs[i] = spec()
	}
	c := group(name, specs...)
	for range 10_000 {
		c.Unbuildable = append(c.Unbuildable, record.Unbuildable{Package: name, Cause: "its plan is gone"})
	}
	w.must(c)
	w.slots[amd] = 1
	w.decide()
	if r, err := w.state.Report(name); err != nil || r.Jobs != 20_000 || len(r.Unbuildable) != 10_000 {
		t.Errorf("it has %d jobs, and %d packages cannot be built, %v", r.Jobs, len(r.Unbuildable), err)
	}
	c.Jobs = c.Jobs[:1]
	c.Jobs[0].Version = strings.Repeat("v", 1<<20)
	assert.ErrorContains(t, w.propose(c), "at most 900 KiB are possible")
}

// Jobs that need each other can only be in a log that was written by hand.
func TestAGroupOfWhichNothingMovesIsReported(t *testing.T) {
	w := newWorld(t)
	w.append([]deploylogEvent{
		event("group/odd-1", record.GroupTriggered, record.Triggered{Name: "odd"}),
		event("group/odd-1", record.GroupCreated, record.Created{Jobs: 2, Places: []record.Place{{Platform: amd}}}),
		event("group/odd-1", record.JobsCreated, record.Jobs{From: 1, Jobs: []record.JobSpec{spec(2), spec(1)}}),
		event("group/odd-1", record.GroupQueued, struct{}{}),
	})
	w.submit(group("base", spec()))
	w.is("odd-1", "Dispatching: s s")
	w.is("base-1", "Dispatching: D") // it goes on beside it
	reasons := w.state.Explain("group/odd-1", w.now, nil)
	assert.True(t, len(reasons) == 3 && reasons[0].Code == reason.GroupStalled &&
		strings.Contains(reasons[0].Message, "2 jobs can never begin"), "the reasons are %v", reasons)
	w.end(built, "base-1", 1)
	assert.True(t, w.state.Idle(nil), "it is not idle")
	w.must(build.Cancel{Group: "odd-1"})
	w.is("odd-1", "Canceled: c c")
}

func TestWhyAJobDoesNotMove(t *testing.T) {
	w := newWorld(t)
	specs := []record.JobSpec{spec(), spec(), spec(), spec(1, 2), spec()}
	specs[4].Place = 1
	w.must(group("base", specs...))
	w.submit(group("apps", spec()))
	workers := func(p record.Place) (all []build.Worker) {
		if p.Platform == amd {
			all = append(all, build.Worker{Name: "worker of " + amd, Slots: 2})
		}
		return all
	}
	for target, want := range map[string]string{
		"job/base-1/1": "being built on worker of linux/amd64 since event 8 (attempt 1)",
		"job/base-1/3": "waiting for a worker: all that serve linux/amd64 are busy (2 slots)",
		"job/base-1/4": "waiting for jobs 1 (p1), Dispatched; 2 (p2), Dispatched",
		"job/base-1/5": "no worker serves linux/arm64",
		"group/apps-1": "waiting for its turn: older groups come first, and have work for all workers: base-1",
		"job/apps-1/1": "its group has not started",
	} {
		reasons := w.state.Explain(deploylogTarget(target), w.now, workers)
		if len(reasons) == 0 || !strings.HasPrefix(reasons[0].Message, strings.TrimSuffix(want, " since event 8 (attempt 1)")) {
			t.Errorf("%s does not move: %v, not %s", target, reasons, want)
		}
	}
	w.end(always(failed), "base-1", 1)
	reasons := w.state.Explain("job/base-1/4", w.now, workers)
	if len(reasons) != 1 || reasons[0].Message != "it needs job 1 (p1), which failed: exit 1" || reasons[0].Change != "deployster build submit, after the file or its sources are mended: what is built is used again; deployster build retry base-1 --failed-only, where the cause lay outside, e.g. in the network" {
		t.Errorf("the reasons are %v", reasons)
	}
}

// A group some of whose jobs no worker serves never ends, whatever else is built of it.
func TestAGroupSaysWhichOfItsPlacesNobodyServes(t *testing.T) {
	w := newWorld(t)
	c := group("base", spec(), spec(), spec(2), spec())
	c.Places = append(c.Places, record.Place{Platform: amd, Workers: "role == nobody"})
	c.Jobs[1].Place, c.Jobs[2].Place, c.Jobs[3].Place = 1, 1, 2
	w.must(c)
	is := func(workers build.Workers, want ...string) {
		var said []string
		for _, r := range w.state.Explain("group/base-1", w.now, workers) {
			if r.Target == "group/base-1" {
				said = append(said, r.Message)
			}
		}
		assert.Equal(t, want, said)
	}
	nobody := func(record.Place) []build.Worker { return nil }
	one := func(p record.Place) (all []build.Worker) {
		if p == (record.Place{Platform: amd}) {
			all = append(all, build.Worker{Name: "worker of " + amd, Slots: 1})
		}
		return all
	}
	const (
		onARM   = "no worker serves linux/arm64: 2 jobs of it cannot begin"
		onQuery = "no worker serves linux/amd64, on hosts of role == nobody: 1 job of it cannot begin"
	)
	is(nil, "queued, and the next to start")
	is(nobody, "no worker serves linux/amd64: 1 job of it cannot begin", onARM, onQuery)
	is(one, "queued, and the next to start: a worker is free for it", onARM, onQuery)
	w.slots[amd] = 1
	w.decide()
	w.is("base-1", "Dispatching: D e s e")
	is(nil)
	is(one, onARM, onQuery)
}

func missing(artifact string) func(build.Task) build.Result {
	return always(build.Result{Lost: &record.Lost{Cause: "it is gone", Spoiled: []string{artifact}}})
}

// compilers is a group of which two jobs run that use a compiler, which needs a library to
// run. It returns the artifact of the library.
func (w *world) compilers() (library string) {
	w.slots[amd] = 3
	w.submit(group("base", spec(), spec(1001), spec(2), spec(2)))
	w.end(built, "base-1", 1)
	w.end(built, "base-1", 2)
	w.is("base-1", "Dispatching: B B D D")
	j := must.Get(w.state.Job("base-1", 1))(w.t)
	return j.Finished.Artifact
}

// complete fails where a job runs whose dependencies are not all Built.
func (w *world) complete() {
	w.t.Helper()
	for _, task := range w.doing {
		for _, d := range task.Uses {
			if j, _ := w.state.Job(task.Group, d.Job); j.State != transition.Built || j.Finished.Artifact != d.Artifact {
				w.t.Errorf("job %d runs while job %d, which it uses, is %s", task.Job, d.Job, j.State)
			}
		}
	}
}

func TestTwoThatRunMissTheSameArtifact(t *testing.T) {
	w := newWorld(t)
	library := w.compilers()
	w.end(missing(library), "base-1", 3)
	w.end(missing(library), "base-1", 4)
	w.later(time.Minute)
	w.complete()
	w.is("base-1", "Dispatching: D B s L")
	w.end(func(t build.Task) build.Result {
		r := built(t)
		r.Finished.Artifact += ", built again"
		return r
	}, "base-1", 1)
	w.later(time.Minute)
	w.complete()
	w.is("base-1", "Dispatching: B B D D")
	w.end(built, "base-1", 3, 4)
	w.is("base-1", "Complete: B B B B")
}

// Whoever finds an artifact missing is not at fault, and neither is who finds that later, in
// another group that uses the same.
func TestAMissingArtifactCountsForNoJobOfAnyGroup(t *testing.T) {
	w := newWorld(t)
	w.slots[amd] = 3
	same := func() build.Submit {
		c := group("base", spec(), spec(1), spec(2))
		c.MaxLost = 0
		return c
	}
	w.submit(same())
	w.end(built, "base-1", 1)
	w.must(same())
	w.end(built, "base-1", 2)
	w.end(reused, "base-2", 1)
	w.end(reused, "base-2", 2)
	j := must.Get(w.state.Job("base-1", 2))(t)
	gone := missing(j.Finished.Artifact)
	w.end(gone, "base-1", 3)
	w.end(gone, "base-2", 3)
	w.is("base-1", "Dispatching: B D s")
	w.is("base-2", "Dispatching: B D s")
	w.end(built, "base-1", 2)
	w.end(built, "base-2", 2)
	w.end(built, "base-1", 3)
	w.end(built, "base-2", 3)
	w.is("base-1", "Complete: B B B")
	w.is("base-2", "Complete: B B B")
}

func reused(t build.Task) build.Result {
	r := built(t)
	if t.Reuse != nil {
		r.Finished.Artifact, r.Finished.Reused = t.Reuse.Finished.Artifact, t.Reuse.Target()
	}
	return r
}

// Where what is missing is not there however often it is built, or nobody builds it, a job
// that needs it is not tried for ever.
func TestAnArtifactThatIsMissingForEverFailsWhatNeedsIt(t *testing.T) {
	for name, use := range map[string]record.Use{"built": {Package: "p1", Job: 1}, "released": {Package: "libc", Artifact: "sha256:libc"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := group("base", spec(), spec())
			c.Jobs[1].Uses, c.MaxLost = []record.Use{use}, 1
			w.submit(c)
			w.end(built, "base-1", 1)
			tries := 0
			for ; len(w.doing) > 0; tries++ {
				task := w.doing[len(w.doing)-1]
				if task.Job == 1 {
					w.end(built, "base-1", 1)
				} else {
					w.end(missing(task.Uses[0].Artifact), "base-1", 2)
				}
				w.later(time.Minute)
				require.LessOrEqual(t, tries, 100, "it is tried for ever")
			}
			if w.is("base-1", "Failed: B F"); use.Job == 0 && tries != 2 {
				t.Errorf("what nobody builds again is looked for %d times", tries)
			}
		})
	}
}
