package tasks

import (
	"cmp"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
)

// Probed reports whether the task is probed from time to time.
func (t *State) Probed() bool {
	return t.Available() || t.Status == report.TaskLaunched || t.Status == report.TaskDied || t.Status == report.TaskLost
}

// Cause is why a task is not healthy.
func (r ProbeResult) Cause() string {
	return deploylog.Cause(cmp.Or(r.Detail, string(r.Health)))
}

// ChangedBy is the event that a probe of the task makes; the name is "" when
// nothing has changed.
func (t *State) ChangedBy(found ProbeResult) (name string, p record.Payload) {
	defer func() { p.Restarts = found.Restarts }()
	switch known := t.Status; {
	case found.Health == Unknown && t.Available():
		return record.TaskLost, record.Payload{Error: found.Cause()}
	case found.Health == Unhealthy && (t.Available() || known == report.TaskLost):
		return record.TaskDied, record.Payload{Error: found.Cause()}
	case found.Health == Drifted && (known == report.TaskHealthy || known == report.TaskLost):
		return record.TaskDrifted, record.Payload{Diff: deploylog.Cause(found.Detail)}
	case found.Health == Healthy && (known == report.TaskDrifted || known == report.TaskDied || known == report.TaskLost):
		return record.TaskRecovered, record.Payload{}
	case t.counts(found):
		return record.TaskCounted, record.Payload{}
	default:
		return "", record.Payload{}
	}
}

// Judge is what a probe found in the light of what was recorded of the task before: what has
// ended by itself since has died, though it was started again and runs.
func (t *State) Judge(found ProbeResult) ProbeResult {
	if t.Restarts == nil || found.Restarts == nil || *found.Restarts <= *t.Restarts {
		return found
	}
	if found.Health == Healthy || found.Health == Drifted {
		found.Health, found.Detail = Unhealthy, found.Restarted
	}
	return found
}

// counts reports whether a probe found a number to count from: the first one of a task, or a
// smaller one than before, as somebody, or the engine when it was started itself, started anew
// what the task makes.
func (t *State) counts(found ProbeResult) bool {
	if found.Restarts == nil || !t.Available() {
		return false
	}
	return t.Restarts == nil || *found.Restarts < *t.Restarts
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

	// Restarts is how often what it makes has ended by itself and was started again, by what
	// keeps it there; nil is not known.
	Restarts  *int
	Restarted string // what is to be said of that
}
