package build_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	w.submit(group("base", spec(), spec(1001), spec(2), spec(2)))
	w.end(built, "base-1", 1)
	w.end(built, "base-1", 2)
	w.is("base-1", "Dispatching: B B D D")
	j, err := w.state.Job("base-1", 1)
	require.NoError(w.t, err)
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
	j, err := w.state.Job("base-1", 2)
	require.NoError(t, err)
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

// reused is that a task takes what was built before.
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
