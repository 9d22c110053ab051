package tasks

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
)

// State is a task that exists, or may exist.
type State struct {
	Revision     int               `json:",omitzero"` // with which it came: its number in names, targets and variables
	Of           int               `json:",omitzero"` // Revision whose task it is now, which may be a later one with the same task
	Status       report.TaskStatus `json:",omitzero"`
	Seq          int64             `json:",omitzero"`
	Made         int64             `json:",omitzero"` // Event with which it was started, the last time
	Since        time.Time         `json:",omitzero"`
	Deployment   string            `json:",omitzero"` // Of the last step
	Attempt      int               `json:",omitzero"` // Of it
	Failures     int               `json:",omitzero"` // in a row
	FailedIn     string            `json:",omitzero"` // Deployment of the last failure
	Cause        string            `json:",omitzero"`
	RetryAt      time.Time         `json:",omitzero"`  // no step before
	AttemptEnded bool              `json:",omitzero"`  // Of a terminating one: the attempt failed
	HealthySince time.Time         `json:",omitzero"`  // Since when it was healthy, the last time
	DriftedAt    time.Time         `json:",omitzero"`  // when it last drifted
	FirstStarted time.Time         `json:",omitzero"`  // by the deployment
	Restarts     *int              `json:",omitempty"` // how often it had ended by itself by its last event; nil is not known
}

// Available reports whether the task counts as healthy: a drifted task still runs.
func (t *State) Available() bool {
	return t.Status == report.TaskHealthy || t.Status == report.TaskDrifted
}

// InFlight reports whether the last step of the task was begun and has no result.
func (t *State) InFlight() bool {
	return t.Status == report.TaskStarting || t.Status == report.TaskTerminating && !t.AttemptEnded
}

// Rank orders tasks by how likely they serve.
func (t *State) Rank() int {
	switch t.Status {
	case report.TaskHealthy, report.TaskDrifted:
		return 3
	case report.TaskLost:
		return 2
	case report.TaskLaunched, report.TaskStarting:
		return 1
	default:
		return 0
	}
}

// Apply folds in an event of the task and reports whether the task is gone.
func (t *State) Apply(e deploylog.Event) (gone bool) {
	p := record.Read(e.Data)
	if p.Restarts != nil {
		t.Restarts = p.Restarts
	}
	if e.Name == record.TaskCounted {
		return false // which is not how it is
	}
	t.Seq, t.Since = e.Seq, e.CreatedAt
	switch e.Name {
	case record.TaskStarted, record.TaskTerminating:
		if t.Deployment != e.Deployment {
			t.FirstStarted = time.Time{}
		}
		if e.Name == record.TaskStarted {
			t.Made = e.Seq
		}
		if e.Name == record.TaskStarted && t.FirstStarted.IsZero() {
			t.FirstStarted = e.CreatedAt
		}
		if t.Status == report.TaskTerminating != (e.Name == record.TaskTerminating) {
			t.Failures = 0 // Failures to start do not count against terminating, and vice versa
		}
		t.Status, t.Deployment, t.Attempt, t.AttemptEnded, t.RetryAt = report.TaskStarting, e.Deployment, e.Attempt, false, time.Time{}
		if e.Name == record.TaskTerminating {
			t.Status = report.TaskTerminating
		}
	case record.TaskLaunched:
		t.Status, t.Cause = report.TaskLaunched, ""
	case record.TaskFinished, record.TaskRecovered:
		t.Status, t.Cause, t.HealthySince, t.FailedIn = report.TaskHealthy, "", e.CreatedAt, ""
	case record.TaskLost:
		t.Status, t.Cause = report.TaskLost, p.Error
	case record.TaskDrifted:
		t.Status, t.Cause = report.TaskDrifted, p.Diff
		if e.CreatedAt.Sub(t.DriftedAt) >= HealthyReset {
			t.Failures = 0
		} else { // the last repair did not last
			t.Failures++
			t.RetryAt = e.CreatedAt.Add(RetryPause(t.Failures))
		}
		t.DriftedAt = e.CreatedAt
	case record.TaskDied:
		if e.CreatedAt.Sub(t.HealthySince) >= HealthyReset {
			t.Failures = 0
		}
		t.fail(report.TaskDied, e, p.Error)
	case record.TaskFailed:
		t.fail(report.TaskFailed, e, p.Error)
	case record.TaskTerminationFailed:
		t.fail(report.TaskTerminating, e, p.Error)
		t.AttemptEnded = true
	case record.TaskTerminated:
		return true
	}
	return false
}

func (t *State) fail(as report.TaskStatus, e deploylog.Event, cause string) {
	t.Status, t.Cause, t.FailedIn = as, cause, e.Deployment
	t.Failures++
	t.RetryAt = e.CreatedAt.Add(RetryPause(t.Failures))
}

// AttemptCounts numbers the events of a host's tasks within a deployment, so that
// each is unique in the log.
type AttemptCounts struct {
	Deployment string         `json:",omitzero"`
	List       []AttemptCount `json:",omitzero"`
}

// AttemptCount is the last attempt of an event of one task.
type AttemptCount struct {
	Revision int
	Event    string
	Last     int
}

// Next is the attempt of the next event.
func (c *AttemptCounts) Next(deployment string, revision int, event string) int {
	if c.Deployment == deployment {
		for _, k := range c.List {
			if k.Revision == revision && k.Event == event {
				return k.Last + 1
			}
		}
	}
	return 1
}

// Record notes an event.
func (c *AttemptCounts) Record(deployment string, revision int, event string, n int) {
	if c.Deployment != deployment {
		*c = AttemptCounts{Deployment: deployment, List: c.List[:0]}
	}
	for i := range c.List {
		if k := &c.List[i]; k.Revision == revision && k.Event == event {
			k.Last = max(k.Last, n)
			return
		}
	}
	c.List = append(c.List, AttemptCount{revision, event, n})
}

// MaxRetries is after how many failures in a row the next try is not waited for.
const MaxRetries = 3

// RetryPause is how long to wait after so many failures in a row: a second at
// first, then double, up to a minute.
func RetryPause(failures int) time.Duration {
	const doublings = 6
	return min(time.Second<<min(max(failures, 1)-1, doublings), time.Minute)
}

// HealthyReset is how long a task must have been healthy for its failures to be
// forgotten.
const HealthyReset = 10 * time.Minute

// CheckFailure is that the new task of a host failed its check.
type CheckFailure struct {
	Deployment string    `json:",omitzero"`
	Failures   int       `json:",omitzero"` // in a row
	Seq        int64     `json:",omitzero"`
	Since      time.Time `json:",omitzero"`
	Cause      string    `json:",omitzero"`
	RetryAt    time.Time `json:",omitzero"`
}

// Apply folds in an event of a host's tasks. A step that begins there ends what was known.
func (c *CheckFailure) Apply(e deploylog.Event) {
	if e.Name != record.TaskCheckFailed && (*c == CheckFailure{}) {
		return
	}
	switch e.Name {
	case record.TaskCheckFailed:
		if c.Deployment != e.Deployment {
			*c = CheckFailure{Deployment: e.Deployment}
		}
		c.Failures++
		c.Seq, c.Since, c.Cause = e.Seq, e.CreatedAt, record.Read(e.Data).Error
		c.RetryAt = e.CreatedAt.Add(RetryPause(c.Failures))
	case record.TaskChecked, record.TaskTerminating, record.TaskStarted:
		*c = CheckFailure{}
	}
}

// Row is the task in a report.
func (t *State) Row(target deploylog.Target) report.TaskRow {
	row := report.TaskRow{Revision: t.Of, Target: string(target), Status: t.Status, Seq: t.Seq, Since: t.Since, Failures: t.Failures, Cause: t.Cause}
	if t.Of != t.Revision {
		row.TaskOf = t.Revision
	}
	if !t.Available() && t.RetryAt.After(t.Since) {
		row.Next = t.RetryAt
	}
	if t.Available() {
		row.Failures = 0
	}
	return row
}

// FailsAgain reports whether a step with the task failed again and again in a deployment.
func (t *State) FailsAgain(deployment string, kind Kind) bool {
	return t != nil && t.FailedIn == deployment && t.Failures >= MaxRetries && (kind == Terminate) == (t.Status == report.TaskTerminating)
}

// RetryAfter is when a task is tried again, zero when nothing delays it.
func (t *State) RetryAfter(now time.Time) time.Time {
	if t.Available() || !t.RetryAt.After(now) {
		return time.Time{}
	}
	return t.RetryAt
}
