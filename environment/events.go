package environment

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
)

// The events of environments. With the markers of the log they are all that
// happens to one.
const (
	EventCreated               = "environment-created"
	EventUpdated               = "environment-updated"
	EventStarted               = "environment-started" // a deployment
	EventFinished              = "environment-finished-successfully"
	EventFailed                = "environment-failed" // another deployment came before it had finished
	EventStuck                 = "environment-stuck"
	EventBakeFailed            = "environment-bake-failed" // too many hosts failed soon after the end
	EventPaused                = "environment-paused"
	EventResumed               = "environment-resumed"
	EventHostsChanged          = "environment-hosts-changed"
	EventHostsHeld             = "environment-hosts-held"   // too many would leave at once; see SetHosts
	EventStepReached           = "environment-step-reached" // its hosts are healthy
	EventPromoted              = "environment-promoted"     // to the next step
	EventHostsZoned            = "environment-hosts-zoned"  // by the attribute that orders them
	EventHostsCordoned         = "environment-hosts-cordoned"
	EventHostsUncordoned       = "environment-hosts-uncordoned"
	EventDeleted               = "environment-deleted"
	EventTaskStarted           = "task-started"
	EventTaskLaunched          = "task-launched" // it has to stay healthy for a while
	EventTaskFinished          = "task-finished-successfully"
	EventTaskFailed            = "task-failed"
	EventTaskDeadlinePassed    = "task-healthy-deadline-passed"
	EventTaskDied              = "task-died"
	EventTaskLost              = "task-lost" // its host does not answer
	EventTaskDrifted           = "task-drifted"
	EventTaskRecovered         = "task-recovered"    // without any action of ours
	EventTaskAdopted           = "task-adopted"      // it is what a later revision wants, and was not touched
	EventTaskCheckFailed       = "task-check-failed" // it could not be started, so nothing was stopped for it
	EventTaskChecked           = "task-checked"      // it could, after that
	EventTaskTerminating       = "task-terminating"
	EventTaskTerminated        = "task-terminated"
	EventTaskTerminationFailed = "task-termination-failed"
)

// EventNames are the names of all events of environments and their tasks.
func EventNames() []string {
	return []string{
		EventCreated, EventUpdated, EventStarted, EventFinished, EventFailed, EventStuck, EventBakeFailed, EventPaused, EventResumed, EventHostsChanged, EventHostsHeld, EventStepReached, EventPromoted, EventHostsZoned, EventHostsCordoned, EventHostsUncordoned, EventDeleted,
		EventTaskStarted, EventTaskLaunched, EventTaskFinished, EventTaskFailed, EventTaskDeadlinePassed, EventTaskDied, EventTaskLost, EventTaskDrifted,
		EventTaskRecovered, EventTaskAdopted, EventTaskCheckFailed, EventTaskChecked, EventTaskTerminating, EventTaskTerminated, EventTaskTerminationFailed,
	}
}

// Ends reports whether an event ends what had been started of a target before,
// in whichever deployment that was. The markers of the log end only what their
// own deployment started; but with an environment all its deployments and tasks
// end, and of a task or environment there is one start at a time.
func Ends(e deploylog.Event, t deploylog.Target) bool {
	name, ok := NameOf(t)
	if !ok {
		return false
	}
	switch e.Name {
	case EventDeleted:
		return e.Target == Target(name)
	case EventStarted, EventFinished, EventFailed, EventTaskStarted, EventTaskFinished, EventTaskFailed, EventTaskTerminated:
		return e.Target == t
	default:
		return false
	}
}

// Target is the target of an environment.
func Target(name string) deploylog.Target { return deploylog.Target("environment/" + name) }

// TaskTarget is the target of the task of a revision on a host.
func TaskTarget(name string, revision int, host string) deploylog.Target {
	return deploylog.Target("task/" + name + "/" + strconv.Itoa(revision) + "/" + host)
}

// Cause is why what an event tells of has failed, "" where it tells none.
func Cause(e deploylog.Event) string { return read(e.Data).Error }

// NameOf is the environment of a target of any of its kinds.
func NameOf(t deploylog.Target) (name string, ok bool) {
	if name, ok = strings.CutPrefix(string(t), "environment/"); ok {
		return name, name != ""
	}
	name, _, _, ok = taskOf(t)
	return name, ok
}

// taskOf takes the target of a task apart.
func taskOf(t deploylog.Target) (name string, revision int, host string, ok bool) {
	path, ok := strings.CutPrefix(string(t), "task/")
	if !ok {
		return "", 0, "", false
	}
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", 0, "", false
	}
	path, host = path[:i], path[i+1:]
	if i = strings.LastIndexByte(path, '/'); i < 1 {
		return "", 0, "", false
	}
	revision, err := strconv.Atoi(path[i+1:])
	return path[:i], revision, host, err == nil && revision > 0 && host != ""
}

// payload is the data of all events. Fields are only ever added.
type payload struct {
	Version    int                    `json:"version"`
	Definition *definition.Definition `json:"definition,omitempty"`
	Base       int                    `json:"base,omitempty"`
	Task       int                    `json:"task_of,omitempty"` // the revision that has the same task
	Clean      bool                   `json:"clean,omitempty"`   // a deletion that terminates what another one left running
	Adopt      bool                   `json:"adopt,omitempty"`   // a deployment of what was deleted, with the tasks that it left running
	Taken      []string               `json:"taken,omitempty"`   // targets of what was left running and is another environment's now
	From       int                    `json:"from,omitempty"`    // the revision that a task is adopted from
	Kind       DeploymentKind         `json:"kind,omitempty"`
	Change     Change                 `json:"configuration,omitzero"`
	Reverts    []int                  `json:"reverts,omitempty"`
	Tolerates  int                    `json:"tolerates,omitempty"`  // hosts that may be exceptions, whatever max_failed says
	Exceptions int                    `json:"exceptions,omitempty"` // hosts that are not as they should be at the end
	Automatic  bool                   `json:"automatic,omitempty"`
	Hosts      *[]string              `json:"hosts,omitempty"` // nil is unknown
	Drain      bool                   `json:"drain,omitempty"` // the tasks of the hosts are terminated
	Only       []string               `json:"only,omitempty"`  // hosts that are restarted
	Joined     []string               `json:"joined,omitempty"`
	Left       []string               `json:"left,omitempty"`
	Lost       []string               `json:"lost,omitempty"`
	More       bool                   `json:"more,omitempty"`        // the next event lists more hosts
	OrderBy    string                 `json:"order_by,omitempty"`    // the attribute that zones are of
	Zones      map[string][]string    `json:"zones,omitempty"`       // hosts, by zone; "" is none
	Held       string                 `json:"held,omitempty"`        // SHA-256 of the names of the hosts that would leave
	Kept       []string               `json:"kept,omitempty"`        // of these, those whose tasks a rollback leaves alone
	Inventory  string                 `json:"inventory,omitempty"`   // that the query of a definition is over
	StepNumber int                    `json:"step_number,omitempty"` // of a deployment, from 1
	By         string                 `json:"by,omitempty"`
	Reason     string                 `json:"reason,omitempty"`
	Step       string                 `json:"step,omitempty"`
	Code       ReasonCode             `json:"code,omitempty"` // of the error
	Error      string                 `json:"error,omitempty"`
	Diff       string                 `json:"diff,omitempty"`
}

func (p payload) data() json.RawMessage {
	p.Version = 1
	data, err := json.Marshal(p)
	if err != nil {
		return nil // what a Definition holds was read from JSON or YAML
	}
	return data
}

// read takes what can be read: history is never refused.
func read(data json.RawMessage) (p payload) {
	if len(data) > 0 && json.Unmarshal(data, &p) != nil {
		return payload{}
	}
	return p
}
