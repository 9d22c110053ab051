package environment

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
)

// task is a task that exists, or may exist.
type task struct {
	revision     int // with which it came: its number in names, targets and variables
	of           int // revision whose task it is now, which may be a later one with the same task
	status       TaskStatus
	seq          int64
	made         int64 // event with which it was started, the last time
	since        time.Time
	deployment   string // of the last step
	attempt      int    // of it
	failures     int    // in a row
	failedIn     string // deployment of the last failure
	cause        string
	retryAt      time.Time // no step before
	attemptEnded bool      // of a terminating one: the attempt failed
	healthySince time.Time // since when it was healthy, the last time
	driftedAt    time.Time // when it last drifted
	firstStarted time.Time // by the deployment
}

// available reports whether the task counts as healthy: a drifted task still runs.
func (t *task) available() bool { return t.status == TaskHealthy || t.status == TaskDrifted }

// inFlight reports whether the last step of the task was begun and has no result.
func (t *task) inFlight() bool {
	return t.status == TaskStarting || t.status == TaskTerminating && !t.attemptEnded
}

// rank orders tasks by how likely they serve.
func (t *task) rank() int {
	switch t.status {
	case TaskHealthy, TaskDrifted:
		return 3
	case TaskLost:
		return 2
	case TaskLaunched, TaskStarting:
		return 1
	default:
		return 0
	}
}

// apply folds in an event of the task and reports whether the task is gone.
func (t *task) apply(e deploylog.Event) (gone bool) {
	t.seq, t.since = e.Seq, e.CreatedAt
	p := record.Read(e.Data)
	switch e.Name {
	case record.TaskStarted, record.TaskTerminating:
		if t.deployment != e.Deployment {
			t.firstStarted = time.Time{}
		}
		if e.Name == record.TaskStarted {
			t.made = e.Seq
		}
		if e.Name == record.TaskStarted && t.firstStarted.IsZero() {
			t.firstStarted = e.CreatedAt
		}
		if t.status == TaskTerminating != (e.Name == record.TaskTerminating) {
			t.failures = 0 // failures to start do not count against terminating, and vice versa
		}
		t.status, t.deployment, t.attempt, t.attemptEnded, t.retryAt = TaskStarting, e.Deployment, e.Attempt, false, time.Time{}
		if e.Name == record.TaskTerminating {
			t.status = TaskTerminating
		}
	case record.TaskLaunched:
		t.status, t.cause = TaskLaunched, ""
	case record.TaskFinished, record.TaskRecovered:
		t.status, t.cause, t.healthySince, t.failedIn = TaskHealthy, "", e.CreatedAt, ""
	case record.TaskLost:
		t.status, t.cause = TaskLost, p.Error
	case record.TaskDrifted:
		t.status, t.cause = TaskDrifted, p.Diff
		if e.CreatedAt.Sub(t.driftedAt) >= healthyReset {
			t.failures = 0
		} else { // the last repair did not last
			t.failures++
			t.retryAt = e.CreatedAt.Add(retryPause(t.failures))
		}
		t.driftedAt = e.CreatedAt
	case record.TaskDied:
		if e.CreatedAt.Sub(t.healthySince) >= healthyReset {
			t.failures = 0
		}
		t.fail(TaskDied, e, p.Error)
	case record.TaskFailed:
		t.fail(TaskFailed, e, p.Error)
	case record.TaskTerminationFailed:
		t.fail(TaskTerminating, e, p.Error)
		t.attemptEnded = true
	case record.TaskTerminated:
		return true
	}
	return false
}

func (t *task) fail(as TaskStatus, e deploylog.Event, cause string) {
	t.status, t.cause, t.failedIn = as, cause, e.Deployment
	t.failures++
	t.retryAt = e.CreatedAt.Add(retryPause(t.failures))
}

// attemptCounts numbers the events of a host's tasks within a deployment, so that
// each is unique in the log.
type attemptCounts struct {
	deployment string
	list       []attemptCount
}

type attemptCount struct {
	revision int
	event    string
	n        int
}

// next is the attempt of the next event.
func (c *attemptCounts) next(deployment string, revision int, event string) int {
	if c.deployment == deployment {
		for _, k := range c.list {
			if k.revision == revision && k.event == event {
				return k.n + 1
			}
		}
	}
	return 1
}

func (c *attemptCounts) record(deployment string, revision int, event string, n int) {
	if c.deployment != deployment {
		*c = attemptCounts{deployment: deployment, list: c.list[:0]}
	}
	for i := range c.list {
		if k := &c.list[i]; k.revision == revision && k.event == event {
			k.n = max(k.n, n)
			return
		}
	}
	c.list = append(c.list, attemptCount{revision, event, n})
}

// maxRetries is after how many failures in a row the next try is not waited for.
const maxRetries = 3

// retryPause is how long to wait after so many failures in a row: a second at
// first, then double, up to a minute.
func retryPause(failures int) time.Duration {
	const doublings = 6
	return min(time.Second<<min(max(failures, 1)-1, doublings), time.Minute)
}

// healthyReset is how long a task must have been healthy for its failures to be
// forgotten.
const healthyReset = 10 * time.Minute
