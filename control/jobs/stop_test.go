package jobs_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
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
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/inventory"
)

// cutOff is an engine that goes on with its containers while nobody can reach it.
type cutOff struct {
	*enginetest.Fake
	away, removed atomic.Bool // it does not answer; it is not in the inventory
}

func (c *cutOff) err() error {
	if c.away.Load() {
		return fmt.Errorf("%w: no route to it", engine.ErrUnavailable)
	}
	return nil
}

func (c *cutOff) Run(ctx context.Context, spec engine.Spec, _ engine.IO) (engine.Exit, error) {
	c.Leave(spec.Labels)
	<-ctx.Done()
	return engine.Exit{}, fmt.Errorf("run image: %w", c.err())
}

func (c *cutOff) Containers(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	if err := c.err(); err != nil {
		return nil, err
	}
	return c.Fake.Containers(ctx, labels)
}

func (c *cutOff) Remove(ctx context.Context, id string) error {
	if err := c.err(); err != nil {
		return err
	}
	return c.Fake.Remove(ctx, id)
}

// running is how many containers the engine really has.
func (c *cutOff) running() int {
	all, _ := c.Fake.Containers(context.Background(), nil)
	return len(all)
}

func canceledWhileAway(t *testing.T) (w *world, e *cutOff, task build.Task, ended chan build.Result) {
	t.Helper()
	e = &cutOff{Fake: fakeEngine()}
	w = newWorld(t, e)
	task, ended = w.task(w.recipe()), make(chan build.Result, 1)
	ctx, cancel := cancelable(t)
	worker := w.options.Worker
	w.options.Worker = func(ctx context.Context, name string) (jobs.Worker, error) {
		if e.removed.Load() {
			return jobs.Worker{}, fmt.Errorf("asking: %w", &inventory.NoHostError{Host: "w1", File: "inventory.yaml"})
		}
		return worker(ctx, name)
	}
	w.restart()
	go func() { ended <- w.jobs.Build(ctx, task) }()
	synctest.Wait()
	e.away.Store(true)
	cancel()
	return w, e, task, ended
}

func TestAJobIsCanceledOnlyOnceItsContainerIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, _, ended := canceledWhileAway(t)
		<-time.After(time.Hour)
		synctest.Wait()
		select {
		case r := <-ended:
			t.Fatalf("it is %q while %d containers run", told(r), e.running())
		default:
		}
		e.away.Store(false)
		w.wants(<-ended, "canceled")
		assert.Equal(t, 0, e.running())
	})
}

func TestStoppingGoesOnInTheNextProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, task, ended := canceledWhileAway(t)
		var said bytes.Buffer
		w.options.Logger = slog.New(slog.NewTextHandler(&said, nil))
		w.restart()
		ctx, cancel := cancelable(t)
		cancel()
		next := make(chan build.Result, 1)
		go func() { next <- w.jobs.Resume(ctx, task) }()
		<-time.After(10 * time.Minute)
		if len(next) != 0 || strings.Count(said.String(), "may still run") != 1 || !strings.Contains(said.String(), "no route to it") {
			t.Errorf("%d processes have ended, and it is said: %s", len(next), said.String())
		}
		e.away.Store(false)
		w.wants(<-next, "canceled")
		w.wants(<-ended, "canceled")
	})
}

func TestAProcessEndsWhileAJobCannotBeStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &cutOff{Fake: fakeEngine()}
		w := newWorld(t, e)
		e.away.Store(true)
		life, end := context.WithCancel(t.Context())
		ctx, cancel := context.WithCancelCause(builds.WithLife(life))
		cancel(builds.ErrCanceled)
		ended := make(chan build.Result, 1)
		w.leaves = true
		go func() { ended <- w.jobs.Resume(ctx, w.task(w.recipe())) }()
		<-time.After(time.Minute)
		end()
		w.wants(<-ended, "left")
	})
}

// Nobody can be asked about a host that is not in the inventory any more.
func TestAJobIsLostThatCannotBeStoppedBecauseItsWorkerIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, _, ended := canceledWhileAway(t)
		w.leaves = true
		<-time.After(time.Minute)
		e.removed.Store(true)
		w.wants(<-ended, "lost: it was canceled, and nobody can say whether its container has stopped: asking: host w1 is no longer in inventory.yaml")
		e.away.Store(false)
		all := must.Get(e.Containers(t.Context(), nil))(t)
		require.Len(t, all, 1)
		assert.NoError(t, e.Remove(t.Context(), all[0].ID))
	})
}

// What was done elsewhere goes on no longer than until its engine is reached again, though no job begins there.
func TestOrphansAreRemovedWithoutAnotherJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &cutOff{Fake: fakeEngine()}
		w := newWorld(t, e)
		w.options.Over = func(context.Context, deploylog.Target, int) (bool, error) { return true, nil }
		w.restart()
		e.Leave(map[string]string{"deployster.log": w.options.Log, "deployster.kind": "job", "deployster.job": "base-7/1", "deployster.attempt": "1"})
		e.away.Store(true)
		w.jobs.RemoveOrphans(t.Context(), "w1")
		e.away.Store(false)
		w.jobs.RemoveOrphans(t.Context(), "w1")
		assert.Equal(t, 1, e.running(), "it was asked again at once")
		<-time.After(time.Minute)
		w.jobs.RemoveOrphans(t.Context(), "w1")
		w.clean()
		e.Leave(map[string]string{"deployster.log": w.options.Log, "deployster.kind": "job", "deployster.job": "base-7/1", "deployster.attempt": "1"})
		w.jobs.Unanswered("w1") // it was away for a moment
		w.jobs.RemoveOrphans(t.Context(), "w1")
	})
}

func TestAnAttemptIsOverWhenTheLogSaysSo(t *testing.T) {
	log := must.Get(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{}))(t)
	t.Cleanup(func() { _ = log.Close() })
	for job, name := range map[int]string{1: record.JobFinished, 2: record.JobLost, 3: record.JobStarted, 4: record.JobCanceled, 5: record.JobEligible} {
		e := must.Get(record.New("core/base-7", record.Job("core/base-7", job), name, 2, struct{}{}))(t)
		must.Get(log.Append(t.Context(), e))(t)
	}
	over := jobs.Over(log)
	for job, ends := range map[int]int{1: 2, 2: 2, 3: 0, 4: 2, 5: 0, 6: 0} {
		for attempt := 1; attempt <= 3; attempt++ {
			is := must.Get(over(t.Context(), record.Job("core/base-7", job), attempt))(t)
			assert.Equal(t, attempt <= ends, is, "attempt %d of job %d is over: %t", attempt, job, is)
		}
	}
}

func TestContainersThatNobodyWaitsForAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakeEngine()
		w := newWorld(t, fake)
		w.options.Over = func(_ context.Context, job deploylog.Target, attempt int) (bool, error) {
			_, number, _ := record.Parse(job)
			return number == 1 || number == 2 && attempt == 1, nil
		}
		w.restart()
		left := func(job, attempt string) {
			fake.Leave(map[string]string{"deployster.log": w.options.Log, "deployster.kind": "job", "deployster.job": job, "deployster.attempt": attempt})
		}
		work := filepath.Join(w.dir, ".deployster", "builds", "work")
		require.NoError(t, os.MkdirAll(work, 0o700))
		for _, name := range []string{"core~base-7~1.1.result", "core~base-7~2.1", "core~base-7~2.2.result", "notes", "~1.1", "a~x.1"} {
			require.NoError(t, os.WriteFile(filepath.Join(work, name), nil, 0o600))
		}
		left("core/base-7/1", "1")
		left("core/base-7/2", "1")
		left("core/base-7/2", "2")
		left("7", "1")
		left("core/base-7/x", "1")
		fake.Leave(map[string]string{"deployster.log": w.options.Log, "deployster.kind": "act", "deployster.job": "core/base-7/1", "deployster.attempt": "1"})
		build := func(job int) (left []string) {
			task := w.task(w.recipe())
			task.Job = job
			w.does(task, "finished")
			for _, c := range must.Get(fake.Containers(t.Context(), nil))(t) {
				left = append(left, c.Labels["deployster.job"]+" "+c.Labels["deployster.attempt"])
			}
			return left
		}
		assert.Len(t, build(20), 4)
		left("core/base-7/1", "2")
		assert.Len(t, build(21), 5, "it is asked each time")
		<-time.After(time.Minute)
		assert.Len(t, build(22), 4, "after a while is left")
		w.jobs.Close()
		assert.Equal(t, []string{"a~x.1", "core~base-7~2.2.result", "notes", "~1.1"}, w.left(), "files that are left")
		assert.NoError(t, os.RemoveAll(work))
		all, _ := fake.Containers(t.Context(), nil)
		for _, c := range all {
			assert.NoError(t, fake.Remove(t.Context(), c.ID))
		}
	})
}

// nearlyFull is what is free of a disk that is full, but by less than what a job has written.
const nearlyFull = 3 << 20

func (w *world) onFullDisk(free func() uint64) {
	w.options.MinFree = nearlyFull + 1
	w.restart()
	w.jobs.SetFree(free)
}

// onDisk is a world in a time of its own, on a disk that has so much free, of which a byte more than nearlyFull is to stay.
func onDisk(t *testing.T, test func(t *testing.T, w *world, free *atomic.Uint64)) {
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
		assert.GreaterOrEqual(t, time.Since(begun), 4*time.Second, "the next one was stopped after")
		w.wants(<-ended, "crowded out: it was stopped because others had filled the disk: …")
	})
}

// stuck is an engine that does not say for a while that the first container it was to stop has ended.
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
