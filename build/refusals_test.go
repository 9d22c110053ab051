package build_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/internal/refusal"
)

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
		if !errors.As(err, &refused) || refused.Code != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%T is refused with %v, not with %q, %s", c.command, err, c.says, c.code)
		}
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
	if err := w.propose(build.Cancel{Group: "bsae-1"}); !errors.Is(err, build.ErrNoGroup) || !strings.Contains(err.Error(), "did you mean base-1?") {
		t.Error(err)
	}
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
	if len(reasons) != 3 || reasons[0].Code != reason.GroupStalled || !strings.Contains(reasons[0].Message, "2 jobs can never begin") {
		t.Errorf("the reasons are %v", reasons)
	}
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
		t.Helper()
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
