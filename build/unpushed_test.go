package build_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
)

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
	w.must(c)
	w.decide()
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
	w.must(again)
	w.decide()
	if r := w.doing[0].Reuse; r == nil || r.Target() != "job/base-1/1" {
		t.Errorf("another group takes %v", r)
	}
}

func TestWhatCouldNotBePushedAndIsGoneIsBuiltAgain(t *testing.T) {
	w := newWorld(t)
	w.must(group("base", spec()))
	w.decide()
	w.end(unpushed, "base-1", 1)
	w.decide()
	// Another group that builds the same takes it, too.
	w.must(group("base", spec()))
	w.decide()
	if r := w.doing[0].Reuse; r == nil || r.Target() != "job/base-1/1" {
		t.Errorf("another group takes %v", r)
	}
	w.end(always(build.Result{Lost: &record.Lost{Cause: "it is gone", Mistaken: true}}), "base-2", 1)
	assert.Nil(t, w.doing[0].Reuse, "what is gone is taken")
}
