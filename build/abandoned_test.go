package build_test

import (
	"testing"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
)

// A job that ends whatever process has it done is not tried for ever.
func TestAJobIsAbandonedOnlySoOften(t *testing.T) {
	w := newWorld(t)
	c := group("base", spec())
	c.MaxLost = 1
	w.must(c)
	w.decide()
	abandoned := always(build.Result{Lost: &record.Lost{Cause: "it is gone", Abandoned: true}})
	for range 20 {
		w.end(abandoned, "base-1", 1)
		w.is("base-1", "Dispatching: D")
	}
	w.end(abandoned, "base-1", 1)
	w.now = w.now.Add(time.Minute)
	w.decide()
	w.is("base-1", "Dispatching: D")
	w.end(abandoned, "base-1", 1)
	w.is("base-1", "Failed: F")
}

// That another job fills the disk does not count as a loss of a job. But it may be what fills
// it, so it does not begin again without end.
func TestAJobIsCrowdedOutOnlySoOften(t *testing.T) {
	w := newWorld(t)
	c := group("base", spec())
	c.MaxLost = 0
	w.must(c)
	w.decide()
	crowded := always(build.Result{Lost: &record.Lost{Cause: "the disk was full", Crowded: true}})
	for range 20 {
		w.end(crowded, "base-1", 1)
		w.is("base-1", "Dispatching: D")
	}
	w.end(crowded, "base-1", 1)
	w.is("base-1", "Failed: F")
}

// What was to be reused is known also to who takes a job up.
func TestWhoTakesAJobUpKnowsWhatIsReused(t *testing.T) {
	w := newWorld(t)
	w.must(group("base", spec()))
	w.decide()
	w.end(built, "base-1", 1)
	w.must(group("base", spec()))
	w.decide()
	w.doing = nil
	w.decide()
	if task := w.take("base-2", 1); task.Reuse == nil || task.Reuse.Target() != "job/base-1/1" {
		t.Errorf("it is taken up to reuse %v", task.Reuse)
	}
}
