package build_test

import (
	"testing"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
)

// missing is that a task finds an artifact missing.
func missing(artifact string) func(build.Task) build.Result {
	return always(build.Result{Lost: &record.Lost{Cause: "it is gone", Spoiled: []string{artifact}}})
}

// compilers is a group of which two jobs run that use a compiler, which needs a library to
// run. It returns the artifact of the library.
func (w *world) compilers() (library string) {
	w.slots[amd] = 3
	w.must(group("base", spec(), spec(1001), spec(2), spec(2)))
	w.decide()
	w.end(built, "base-1", 1)
	w.end(built, "base-1", 2)
	w.is("base-1", "Dispatching: B B D D")
	j, err := w.state.Job("base-1", 1)
	if err != nil {
		w.t.Fatal(err)
	}
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
	w.now = w.now.Add(time.Minute)
	w.decide()
	w.complete()
	w.is("base-1", "Dispatching: D B s L")
	w.end(func(t build.Task) build.Result {
		r := built(t)
		r.Finished.Artifact += ", built again"
		return r
	}, "base-1", 1)
	w.now = w.now.Add(time.Minute)
	w.decide()
	w.complete()
	w.is("base-1", "Dispatching: B B D D")
	w.end(built, "base-1", 3, 4)
	w.is("base-1", "Complete: B B B B")
}

func TestTwoThatRunMissTheSameArtifactAtOnce(t *testing.T) {
	w := newWorld(t)
	library := w.compilers()
	w.end(missing(library), "base-1", 3, 4)
	w.now = w.now.Add(time.Minute)
	w.decide()
	w.complete()
	w.end(built, "base-1", 1)
	w.now = w.now.Add(time.Minute)
	w.decide()
	w.complete()
	w.end(built, "base-1", 3, 4)
	w.is("base-1", "Complete: B B B B")
}

func TestARetryWaitsForWhatWasToBeBuiltAgain(t *testing.T) {
	w := newWorld(t)
	library := w.compilers()
	w.end(missing(library), "base-1", 3)
	w.must(build.Cancel{Group: "base-1"})
	w.end(always(canceled), "base-1", 1, 4)
	w.must(build.Retry{Group: "base-1"})
	w.decide()
	w.complete()
	w.is("base-1", "Dispatching: D B s s")
	w.end(built, "base-1", 1)
	w.decide()
	w.end(built, "base-1", 3, 4)
	w.is("base-1", "Complete: B B B B")
}
