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

// canceledWhileAway is a job that was canceled while its engine does not answer.
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

// The next process goes on with stopping it, as it takes up all that runs.
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
		all, err := e.Containers(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, all, 1)
		assert.NoError(t, e.Remove(t.Context(), all[0].ID))
	})
}

// What was done elsewhere goes on no longer than until its engine is reached again, though no
// job begins there.
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
	log, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	for job, name := range map[int]string{1: record.JobFinished, 2: record.JobLost, 3: record.JobStarted, 4: record.JobCanceled, 5: record.JobEligible} {
		e, err := record.New("core/base-7", record.Job("core/base-7", job), name, 2, struct{}{})
		if err == nil {
			_, err = log.Append(t.Context(), e)
		}
		require.NoError(t, err)
	}
	over := jobs.Over(log)
	for job, ends := range map[int]int{1: 2, 2: 2, 3: 0, 4: 2, 5: 0, 6: 0} {
		for attempt := 1; attempt <= 3; attempt++ {
			if is, err := over(t.Context(), record.Job("core/base-7", job), attempt); err != nil || is != (attempt <= ends) {
				t.Errorf("attempt %d of job %d is over: %t, %v", attempt, job, is, err)
			}
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
			all, err := fake.Containers(t.Context(), nil)
			require.NoError(t, err)
			for _, c := range all {
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
