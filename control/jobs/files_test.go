package jobs_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog"
)

// Neither a full disk nor a worker that is gone by now is a reason to build again.
func TestWhatIsBuiltIsNotLostWhereItsResultCannotBeKept(t *testing.T) {
	fake := fakeEngine()
	w := newWorld(t, fake)
	if err := os.MkdirAll(w.work()+".result.new", 0o700); err != nil {
		t.Fatal(err)
	}
	task := w.task(w.recipe("write " + out + "/f text"))
	first := w.jobs.Build(t.Context(), task)
	w.wants(first, "finished")
	if err := os.Remove(w.work() + ".result.new"); err != nil {
		t.Fatal(err)
	}
	w.options.Worker = func(context.Context, string) (jobs.Worker, error) {
		return jobs.Worker{}, errors.New("its engine is down")
	}
	w.restart()
	again := w.jobs.Resume(t.Context(), task)
	w.wants(again, "finished")
	if again.Finished != nil && first.Finished != nil && (again.Finished.Artifact != first.Finished.Artifact || again.Finished.Engine != first.Finished.Engine) {
		t.Errorf("it is %+v, was %+v", again.Finished, first.Finished)
	}
	if runs := fake.Runs(); len(runs) != 1 {
		t.Errorf("there were %d containers", len(runs))
	}
	w.clean()
}

func TestAResultIsForgottenOnlyWhenItIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fakeEngine())
		var recorded atomic.Bool
		w.options.Over = func(context.Context, deploylog.Target, int) (bool, error) { return recorded.Load(), nil }
		w.restart()
		for i, want := range []int{1, 2, 1} {
			recorded.Store(i == 2)
			task := w.task(w.recipe())
			task.Job = 20 + i
			w.wants(w.jobs.Build(t.Context(), task), "finished")
			if left := w.left(); len(left) != want {
				t.Errorf("after %d jobs there is %q", i+1, left)
			}
			<-time.After(2 * time.Minute)
		}
		w.clean()
	})
}
