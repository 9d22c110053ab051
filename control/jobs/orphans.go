package jobs

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/runner/invoke"
)

// orphanPeriod is how often a worker is asked at most for containers that nobody waits for.
const orphanPeriod = time.Minute

// RemoveOrphans removes what is left of attempts that are over: files of a process that was
// killed right after what came of them was recorded, and containers of a worker whose engine was
// gone for a while, whose jobs were done elsewhere meanwhile. It is to be called from time to
// time while the engine of the worker answers, and does nothing within a minute of the last time, unless the worker
// was Unanswered since.
func (j *Jobs) RemoveOrphans(ctx context.Context, worker string) {
	if j.Over == nil || !j.isDue(worker) {
		return
	}
	j.removeOrphanedFiles(ctx, worker)
	if err := j.removeOrphanedContainers(ctx, worker); err != nil && ctx.Err() == nil {
		j.Logger.WarnContext(ctx, "containers of jobs that are over may be left behind", "worker", worker, "error", err)
	}
}

// Unanswered has a worker asked for what is left there as soon as its engine answers again.
func (j *Jobs) Unanswered(worker string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.asked, worker)
}

func (j *Jobs) removeOrphanedContainers(ctx context.Context, worker string) error {
	on, err := j.Worker(ctx, worker)
	if err != nil {
		return err
	}
	all, err := on.Engine.Containers(ctx, map[string]string{invoke.LabelLog: j.Log, invoke.LabelKind: KindJob})
	if err != nil {
		return err
	}
	for _, c := range all {
		orphan, err := j.isOrphan(ctx, c)
		if err == nil && orphan {
			err = on.Engine.Remove(ctx, c.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeOrphanedFiles removes the directories and the results of attempts that are over.
func (j *Jobs) removeOrphanedFiles(ctx context.Context, worker string) {
	work := filepath.Join(j.dir(), workName)
	entries, _ := os.ReadDir(work) // at worst they stay
	for _, e := range entries {
		target, attempt, ours := attemptOf(e.Name())
		if !ours {
			continue
		}
		if over, err := j.Over(ctx, target, attempt); err == nil && over {
			dir := filepath.Join(work, e.Name())
			if err := remove(dir); err != nil {
				on, _ := j.Worker(ctx, worker) // without one it stays
				_ = j.removeAll(ctx, on, dir)
			}
		}
	}
}

// attemptOf is the attempt whose directory or result has a name; see workDir.
func attemptOf(name string) (job deploylog.Target, attempt int, ours bool) {
	name = strings.TrimSuffix(name, resultSuffix)
	i := strings.LastIndexByte(name, '~')
	number, attempts, found := strings.Cut(name[i+1:], ".")
	n, wrong := strconv.Atoi(number)
	attempt, bad := strconv.Atoi(attempts)
	if i < 1 || !found || wrong != nil || bad != nil {
		return "", 0, false
	}
	return record.Job(strings.ReplaceAll(name[:i], "~", "/"), n), attempt, true
}

// isDue reports whether a worker is to be asked again, and notes that it is.
func (j *Jobs) isDue(worker string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if at, asked := j.asked[worker]; asked && time.Since(at) < orphanPeriod {
		return false
	}
	if j.asked == nil {
		j.asked = map[string]time.Time{}
	}
	j.asked[worker] = time.Now()
	return true
}

// isOrphan reports whether a container is of an attempt that is over. What does not say of
// which it is is not ours.
func (j *Jobs) isOrphan(ctx context.Context, c engine.Container) (bool, error) {
	if c.Labels[LabelCleanup] != "" {
		return !c.Running, nil // its process has died, or it is about to be removed
	}
	i := strings.LastIndexByte(c.Labels[LabelJob], '/')
	if i < 1 {
		return false, nil
	}
	number, wrong := strconv.Atoi(c.Labels[LabelJob][i+1:])
	attempt, bad := strconv.Atoi(c.Labels[invoke.LabelAttempt])
	if wrong != nil || bad != nil {
		return false, nil
	}
	return j.Over(ctx, record.Job(c.Labels[LabelJob][:i], number), attempt)
}

// Over returns what finds out from a log whether an attempt of a job is over.
func Over(log deploylog.Log) func(ctx context.Context, job deploylog.Target, attempt int) (bool, error) {
	return func(ctx context.Context, job deploylog.Target, attempt int) (bool, error) {
		for e, err := range log.Read(ctx, deploylog.Filter{Target: job}) {
			if err != nil {
				return false, err
			}
			switch e.Name {
			case record.JobFinished, record.JobFailed, record.JobLost, record.JobCanceled:
				if e.Attempt >= attempt {
					return true, nil
				}
			}
		}
		return false, nil
	}
}
