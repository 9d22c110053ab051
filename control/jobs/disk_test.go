package jobs_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

// nearlyFull is what is free of a disk that is full, but by less than what a job has written.
const nearlyFull = 3 << 20

// onFullDisk has the disk have so much free, of which a byte more than nearlyFull is to stay.
func (w *world) onFullDisk(free func() uint64) {
	w.Helper()
	w.options.MinFree = nearlyFull + 1
	w.restart()
	w.jobs.SetFree(free)
}

// onDisk is a world in a time of its own, on a disk that has so much free, of which a byte more than
// nearlyFull is to stay.
func onDisk(t *testing.T, test func(t *testing.T, w *world, free *atomic.Uint64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fakeEngine())
		var free atomic.Uint64
		free.Store(1 << 40)
		w.onFullDisk(free.Load)
		test(t, w, &free)
	})
}

// filling has three jobs run of which one fills the disk, and returns what came of them.
func filling(t *testing.T, w *world, others string, free *atomic.Uint64) (results [3]build.Result) {
	var ended [3]chan build.Result
	work := filepath.Join(w.dir, ".deployster", "builds", "work")
	for i := range ended {
		lines := []string{"print begun", "await " + out + "/go", others}
		if i == 1 {
			lines = []string{"write " + out + "/f " + strings.Repeat("x", 100_000), "hang"}
		}
		ended[i] = w.beside(t.Context(), 20+i, lines...)
	}
	synctest.Wait()
	free.Store(nearlyFull)
	results[1] = <-ended[1]
	free.Store(1 << 40)
	<-time.After(10 * time.Second)
	for _, i := range []int{0, 2} {
		assert.NoError(t, os.WriteFile(filepath.Join(work, "base-7~"+[]string{"20", "", "22"}[i]+".1", "out", "go"), nil, 0o600))
		results[i] = <-ended[i]
	}
	return results
}

func TestOnlyTheJobThatFillsTheDiskIsStopped(t *testing.T) {
	for others, want := range map[string]string{
		"print done": "finished",
		"exit 1":     "crowded out: its container exited with 1, while another job had filled the disk: make room, …",
	} {
		onDisk(t, func(t *testing.T, w *world, free *atomic.Uint64) {
			results := filling(t, w, others, free)
			w.wants(results[0], want)
			w.wants(results[1], "failed: it was stopped as it filled the disk: it has written …")
			w.wants(results[2], want)
		})
	}
}

// Who is stopped because the disk stays full, though the job is gone that filled it, is lost.
func TestWhoIsStoppedWhileTheDiskStaysFullIsNotResponsible(t *testing.T) {
	onDisk(t, func(t *testing.T, w *world, free *atomic.Uint64) {
		ended := make(chan build.Result, 3)
		for i := range 3 {
			task := w.task(w.recipe("write "+out+"/f x", "hang"))
			task.Job = 20 + i
			go func() { ended <- w.jobs.Build(t.Context(), task) }()
		}
		synctest.Wait()
		free.Store(nearlyFull)
		w.wants(<-ended, "failed: it was stopped as it filled the disk: …")
		begun := time.Now()
		w.wants(<-ended, "crowded out: it was stopped because others had filled the disk: …")
		if waited := time.Since(begun); waited < 4*time.Second {
			t.Errorf("the next one was stopped after %s", waited)
		}
		w.wants(<-ended, "crowded out: it was stopped because others had filled the disk: …")
	})
}

// stuck is an engine that does not say for a while that the first container it was to stop has
// ended.
type stuck struct {
	*enginetest.Fake
	is       atomic.Bool
	released chan struct{}
}

func (s *stuck) Run(ctx context.Context, spec engine.Spec, io engine.IO) (engine.Exit, error) {
	exit, err := s.Fake.Run(ctx, spec, io)
	if ctx.Err() != nil && s.is.CompareAndSwap(false, true) {
		<-s.released
	}
	return exit, err
}

// One that does not stop keeps nobody from stopping the next, for the disk fills on.
func TestTheDiskIsGuardedWhileAJobDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &stuck{Fake: fakeEngine(), released: make(chan struct{})}
		w := newWorld(t, e)
		var free atomic.Uint64
		free.Store(1 << 40)
		w.onFullDisk(free.Load)
		ended := make(chan build.Result, 2)
		for i := range 2 {
			task := w.task(w.recipe("write "+out+"/f x", "hang"))
			task.Job = 20 + i
			go func() { ended <- w.jobs.Build(t.Context(), task) }()
		}
		synctest.Wait()
		free.Store(nearlyFull)
		<-time.After(20 * time.Second)
		require.Equal(t, 0, len(ended))
		require.True(t, e.is.Load())
		<-time.After(20 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, len(ended), "jobs have ended while the disk is full")
		w.wants(<-ended, "crowded out: it was stopped because others had filled the disk: …")
		close(e.released)
		w.wants(<-ended, "failed: it was stopped as it filled the disk: …")
	})
}

// measuring is an engine whose containers have written so much to a disk, by their job.
type measuring struct {
	*enginetest.Fake
	bytes map[string]int64
	dir   string
}

func (m measuring) Written(ctx context.Context, labels map[string]string) (int64, string, error) {
	bytes, known := m.bytes[labels[jobs.LabelJob]]
	if !known { // it does not answer
		<-ctx.Done()
		return 0, "", ctx.Err()
	}
	return bytes, m.dir, nil
}

// What a container writes beside what is mounted counts where it is on the same disk.
func TestWhatAContainerWritesElsewhereCounts(t *testing.T) {
	here, elsewhere := t.TempDir(), "/proc"
	for name, c := range map[string]struct {
		bytes map[string]int64
		dir   string
		want  [2]string
	}{
		"on this disk":                 {map[string]int64{"base-7/20": 0, "base-7/21": 5 << 20}, here, [2]string{"canceled", "failed: it was stopped as it filled the disk: it has written 5.0 MiB, …"}},
		"on another one":               {map[string]int64{"base-7/20": 0, "base-7/21": 5 << 20}, elsewhere, [2]string{"failed: it was stopped as it filled the disk: it has written 10…", "canceled"}},
		"on one that is not there":     {map[string]int64{"base-7/20": 0, "base-7/21": 5 << 20}, here + "/none", [2]string{"failed: it was stopped as it filled the disk: it has written 10…", "canceled"}},
		"of one nobody can say":        {map[string]int64{"base-7/20": 0}, here, [2]string{"failed: it was stopped as it filled the disk: it has written 10…", "canceled"}},
		"nobody can say it of another": {map[string]int64{"base-7/21": 5 << 20}, here, [2]string{"canceled", "failed: it was stopped as it filled the disk: it has written 5.0 MiB, …"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := worldIn(t, filepath.Join(here, name), measuring{fakeEngine(), c.bytes, c.dir})
				var free atomic.Uint64
				free.Store(1 << 40)
				w.onFullDisk(free.Load)
				w.leaves = true
				ctx, cancel := cancelable(t)
				var ended [2]chan build.Result
				for i, lines := range [][]string{{"write " + out + "/f " + strings.Repeat("x", 100<<10), "hang"}, {"hang"}} {
					ended[i] = w.beside(ctx, 20+i, lines...)
				}
				synctest.Wait()
				free.Store(nearlyFull)
				var first build.Result
				select {
				case first = <-ended[0]:
					ended[0] <- first
				case first = <-ended[1]:
					ended[1] <- first
				}
				cancel()
				for i := range ended {
					w.wants(<-ended[i], c.want[i])
				}
			})
		})
	}
}

// The disk is looked at as often as the options say.
func TestHowOftenTheDiskIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fakeEngine())
		var free atomic.Uint64
		free.Store(1 << 40)
		w.options.DiskPeriod = time.Minute
		w.onFullDisk(free.Load)
		ended := w.beside(t.Context(), 12, "write "+out+"/f x", "hang")
		synctest.Wait()
		begun := time.Now()
		free.Store(nearlyFull)
		w.wants(<-ended, "failed: it was stopped as it filled the disk: …")
		assert.Equal(t, time.Minute, time.Since(begun), "it is stopped after")
	})
}

func TestAFileWithHolesIsTheFaultOfItsJob(t *testing.T) {
	w := newWorld(t, fakeEngine())
	w.options.MinFree = 1 << 60
	w.restart()
	w.jobs.SetFree(func() uint64 { return 1 << 61 })
	w.does(w.task(w.recipe("write "+out+"/f x", "size "+out+"/f 8000000000")), `failed: what it made in $DEPLOYSTER_OUT: "f" has 8000000000 bytes with its holes, …`)
}

// A disk that would be full without what jobs have written is not their fault: none is stopped
// for it, and what ends well meanwhile is built.
func TestNoJobIsStoppedForADiskThatOthersFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fakeEngine())
		var free atomic.Uint64
		free.Store(1 << 40)
		w.options.MinFree = 64 << 20
		w.restart()
		w.jobs.SetFree(free.Load)
		ended := w.beside(t.Context(), 12, "write "+out+"/f x", "print begun", "await "+out+"/go")
		synctest.Wait()
		free.Store(3 << 20)
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, 0, len(ended), "it is stopped")
		free.Store(1 << 40)
		w.goOn()
		w.wants(<-ended, "finished")
	})
}
