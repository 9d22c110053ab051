package environment

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/environment/report"

	"github.com/deployster-go/deployster/environment/definition"

	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
)

// task is a task that exists, or may exist.
type task struct {
	revision     int // with which it came: its number in names, targets and variables
	of           int // revision whose task it is now, which may be a later one with the same task
	status       report.TaskStatus
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
func (t *task) available() bool {
	return t.status == report.TaskHealthy || t.status == report.TaskDrifted
}

// inFlight reports whether the last step of the task was begun and has no result.
func (t *task) inFlight() bool {
	return t.status == report.TaskStarting || t.status == report.TaskTerminating && !t.attemptEnded
}

// rank orders tasks by how likely they serve.
func (t *task) rank() int {
	switch t.status {
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
		if t.status == report.TaskTerminating != (e.Name == record.TaskTerminating) {
			t.failures = 0 // failures to start do not count against terminating, and vice versa
		}
		t.status, t.deployment, t.attempt, t.attemptEnded, t.retryAt = report.TaskStarting, e.Deployment, e.Attempt, false, time.Time{}
		if e.Name == record.TaskTerminating {
			t.status = report.TaskTerminating
		}
	case record.TaskLaunched:
		t.status, t.cause = report.TaskLaunched, ""
	case record.TaskFinished, record.TaskRecovered:
		t.status, t.cause, t.healthySince, t.failedIn = report.TaskHealthy, "", e.CreatedAt, ""
	case record.TaskLost:
		t.status, t.cause = report.TaskLost, p.Error
	case record.TaskDrifted:
		t.status, t.cause = report.TaskDrifted, p.Diff
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
		t.fail(report.TaskDied, e, p.Error)
	case record.TaskFailed:
		t.fail(report.TaskFailed, e, p.Error)
	case record.TaskTerminationFailed:
		t.fail(report.TaskTerminating, e, p.Error)
		t.attemptEnded = true
	case record.TaskTerminated:
		return true
	}
	return false
}

func (t *task) fail(as report.TaskStatus, e deploylog.Event, cause string) {
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

// checkFailure is that the new task of a host failed its check.
type checkFailure struct {
	deployment string
	failures   int // in a row
	seq        int64
	since      time.Time
	cause      string
	retryAt    time.Time
}

func (step Step) event(name string, p record.Payload) deploylog.Event {
	return deploylog.Event{
		Deployment: step.Deployment, Target: step.Target, Revision: strconv.Itoa(step.Revision), Name: name, Attempt: step.Attempt, Data: p.Data(),
	}
}

func (t *task) probed() bool {
	return t.available() || t.status == report.TaskLaunched || t.status == report.TaskDied || t.status == report.TaskLost
}

// cause is why a task is not healthy.
func (r ProbeResult) cause() string {
	return deploylog.Cause(cmp.Or(r.Detail, string(r.Health)))
}

// changedBy is the event that a probe of the task makes; the name is "" when
// nothing has changed.
func (t *task) changedBy(found ProbeResult) (name string, p record.Payload) {
	switch known := t.status; {
	case found.Health == Unknown && t.available():
		return record.TaskLost, record.Payload{Error: found.cause()}
	case found.Health == Unhealthy && (t.available() || known == report.TaskLost):
		return record.TaskDied, record.Payload{Error: found.cause()}
	case found.Health == Drifted && (known == report.TaskHealthy || known == report.TaskLost):
		return record.TaskDrifted, record.Payload{Diff: deploylog.Cause(found.Detail)}
	case found.Health == Healthy && (known == report.TaskDrifted || known == report.TaskDied || known == report.TaskLost):
		return record.TaskRecovered, record.Payload{}
	default:
		return "", record.Payload{}
	}
}

func (t *task) row(target deploylog.Target) report.TaskRow {
	row := report.TaskRow{Revision: t.of, Target: string(target), Status: t.status, Seq: t.seq, Since: t.since, Failures: t.failures, Cause: t.cause}
	if t.of != t.revision {
		row.TaskOf = t.revision
	}
	if !t.available() && t.retryAt.After(t.since) {
		row.Next = t.retryAt
	}
	if t.available() {
		row.Failures = 0
	}
	return row
}

// Kind is what a step does.
type Kind string

// The kinds of steps. All but Record are work, on a host.
const (
	Record    Kind = "record"    // nothing but its events
	Start     Kind = "start"     // apply the task's manifest
	Check     Kind = "check"     // see whether the task could be started, before the old one is stopped
	Confirm   Kind = "confirm"   // probe whether a new task is still healthy
	Terminate Kind = "terminate" // destroy what applying the manifest made
)

// Step is something that may be done now. It begins by recording its Events.
type Step struct {
	Kind       Kind
	Deployment string
	Target     deploylog.Target
	Host       string // "" of Record
	Revision   int
	Attempt    int
	Timeout    time.Duration // how long a Start may take: by then the task must be healthy; 0 is unlimited
	Events     []deploylog.Event
}

// Task is one application of a revision's manifest to one host.
type Task struct {
	Environment string
	Host        string
	Revision    int
	Spec        definition.TaskSpec
}

// Name is one that no other task has, on whatever engine, and that stays the
// same for the host and revision. The resources of the task are to carry it,
// where two of them may be on a host at once.
func (t Task) Name() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", t.Environment, t.Revision, t.Host))
	return fmt.Sprintf("%s-%d-%s", strings.ReplaceAll(t.Environment, "/", "-"), t.Revision, hex.EncodeToString(sum[:4]))
}

// Thing is something that a task makes on its host of which there is one there, such as
// a container with its name: two tasks that make it would undo what the other does.
type Thing struct {
	Key  string // equal for one thing, whatever makes it
	Name string // for people, such as "container web"
}

// Health is the result of probing a task.
type Health string

// The healths of a task.
const (
	Healthy   Health = "healthy"   // all its resources are VALID, and none says of itself that it is not
	Drifted   Health = "drifted"   // it runs, but is not as its manifest says
	Unhealthy Health = "unhealthy" // a resource is missing, or not healthy
	Unknown   Health = "unknown"   // its host did not respond
)

// ProbeResult is what a probe of a task found, with a text for people.
type ProbeResult struct {
	Health Health
	Detail string // why it is not healthy; what differs
}

// failsAgain reports whether a step with the task failed again and again in a deployment.
func (t *task) failsAgain(deployment string, kind Kind) bool {
	return t != nil && t.failedIn == deployment && t.failures >= maxRetries && (kind == Terminate) == (t.status == report.TaskTerminating)
}

// retryAfter is when a task is tried again, zero when nothing delays it.
func (t *task) retryAfter(now time.Time) time.Time {
	if t.available() || !t.retryAt.After(now) {
		return time.Time{}
	}
	return t.retryAt
}
