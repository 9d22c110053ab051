package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog"
)

// Neither a full disk nor a worker that is gone by now is a reason to build again.
func TestWhatIsBuiltIsNotLostWhereItsResultCannotBeKept(t *testing.T) {
	fake := fakeEngine()
	w := newWorld(t, fake)
	inTheWay := w.work() + ".result"
	require.NoError(t, os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700))
	task := w.task(w.recipe("write " + out + "/f text"))
	first := w.jobs.Build(t.Context(), task)
	w.wants(first, "finished")
	require.NoError(t, os.RemoveAll(inTheWay))
	w.options.Worker = func(context.Context, string) (jobs.Worker, error) {
		return jobs.Worker{}, errors.New("its engine is down")
	}
	w.restart()
	again := w.jobs.Resume(t.Context(), task)
	w.wants(again, "finished")
	if again.Finished != nil && first.Finished != nil && (again.Finished.Artifact != first.Finished.Artifact || again.Finished.Engine != first.Finished.Engine) {
		t.Errorf("it is %+v, was %+v", again.Finished, first.Finished)
	}
	assert.Len(t, fake.Runs(), 1)
	w.clean()
}

// A process may be killed while it writes: what is there then is as if it were not. What is there
// whole is not written again, for that may be cut short, too.
func TestWhatIsWrittenInPartIsNotThere(t *testing.T) {
	for _, missing := range []int{0, 1, 100, 1 << 20} { // bytes
		t.Run(fmt.Sprint(missing), func(t *testing.T) {
			fake := fakeEngine()
			w := newWorld(t, fake)
			path := w.work() + ".result"
			if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil { // so that all else stays
				t.Fatal(err)
			}
			task := w.task(w.recipe("write " + out + "/f text"))
			first := w.jobs.Build(t.Context(), task)
			w.wants(first, "finished")
			whole, err := json.Marshal(map[string]any{"result": first})
			require.NoError(t, errors.Join(err, os.RemoveAll(path), os.WriteFile(path, whole[:max(0, len(whole)-missing)], 0o600)))
			before, err := os.Stat(path)
			require.NoError(t, err)
			w.restart()
			again := w.jobs.Resume(t.Context(), task)
			w.wants(again, "finished")
			if again.Finished != nil && again.Finished.Artifact != first.Finished.Artifact {
				t.Errorf("it is %+v, was %+v", again.Finished, first.Finished)
			}
			if after, err := os.Stat(path); err != nil || missing == 0 && !after.ModTime().Equal(before.ModTime()) {
				t.Errorf("the result was written again: %v", err)
			}
			assert.Len(t, fake.Runs(), 1)
			w.clean()
		})
	}
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
			w.jobs.Wait()
			assert.Len(t, w.left(), want, "after %d jobs", i+1)
			<-time.After(2 * time.Minute)
		}
		w.clean()
	})
}
