package jobs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
)

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
			w.wants(w.jobs.Build(t.Context(), task), "finished")
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
		w.clean()
	})
}
