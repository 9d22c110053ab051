package record

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/internal/budget"
)

// The events of environments. With the markers of the log they are all that
// happens to one.
const (
	EnvironmentCreated    = "environment-created"
	EnvironmentUpdated    = "environment-updated"
	EnvironmentStarted    = "environment-started" // a deployment
	EnvironmentFinished   = "environment-finished-successfully"
	EnvironmentFailed     = "environment-failed" // another deployment came before it had finished
	EnvironmentStuck      = "environment-stuck"
	BakeFailed            = "environment-bake-failed" // too many hosts failed soon after the end
	EnvironmentPaused     = "environment-paused"
	EnvironmentResumed    = "environment-resumed"
	HostsChanged          = "environment-hosts-changed"
	HostsHeld             = "environment-hosts-held"   // too many would leave at once; see SetHosts
	StepReached           = "environment-step-reached" // its hosts are healthy
	EnvironmentPromoted   = "environment-promoted"     // to the next step
	HostsZoned            = "environment-hosts-zoned"  // by the attribute that orders them
	HostsCordoned         = "environment-hosts-cordoned"
	HostsUncordoned       = "environment-hosts-uncordoned"
	EnvironmentDeleted    = "environment-deleted"
	TaskStarted           = "task-started"
	TaskLaunched          = "task-launched" // it has to stay healthy for a while
	TaskFinished          = "task-finished-successfully"
	TaskFailed            = "task-failed"
	TaskDeadlinePassed    = "task-healthy-deadline-passed"
	TaskDied              = "task-died"
	TaskLost              = "task-lost" // its host does not answer
	TaskDrifted           = "task-drifted"
	TaskRecovered         = "task-recovered"    // without any action of ours
	TaskAdopted           = "task-adopted"      // it is what a later revision wants, and was not touched
	TaskCheckFailed       = "task-check-failed" // it could not be started, so nothing was stopped for it
	TaskChecked           = "task-checked"      // it could, after that
	TaskTerminating       = "task-terminating"
	TaskTerminated        = "task-terminated"
	TaskTerminationFailed = "task-termination-failed"
)

// EventNames are the names of all events of environments and their tasks.
func EventNames() []string {
	return []string{
		EnvironmentCreated, EnvironmentUpdated, EnvironmentStarted, EnvironmentFinished, EnvironmentFailed, EnvironmentStuck, BakeFailed, EnvironmentPaused, EnvironmentResumed, HostsChanged, HostsHeld, StepReached, EnvironmentPromoted, HostsZoned, HostsCordoned, HostsUncordoned, EnvironmentDeleted,
		TaskStarted, TaskLaunched, TaskFinished, TaskFailed, TaskDeadlinePassed, TaskDied, TaskLost, TaskDrifted,
		TaskRecovered, TaskAdopted, TaskCheckFailed, TaskChecked, TaskTerminating, TaskTerminated, TaskTerminationFailed,
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
	case EnvironmentDeleted:
		return e.Target == Target(name)
	case EnvironmentStarted, EnvironmentFinished, EnvironmentFailed, TaskStarted, TaskFinished, TaskFailed, TaskTerminated:
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
func Cause(e deploylog.Event) string { return Read(e.Data).Error }

// NameOf is the environment of a target of any of its kinds.
func NameOf(t deploylog.Target) (name string, ok bool) {
	if name, ok = strings.CutPrefix(string(t), "environment/"); ok {
		return name, name != ""
	}
	name, _, _, ok = TaskOf(t)
	return name, ok
}

// TaskOf takes the target of a task apart.
func TaskOf(t deploylog.Target) (name string, revision int, host string, ok bool) {
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

// Payload is the data of all events. Fields are only ever added.
type Payload struct {
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
	Code       string                 `json:"code,omitempty"` // of the error
	Error      string                 `json:"error,omitempty"`
	Diff       string                 `json:"diff,omitempty"`
}

func (p Payload) Data() json.RawMessage {
	p.Version = 1
	data, err := json.Marshal(p)
	if err != nil {
		return nil // what a Definition holds was read from JSON or YAML
	}
	return data
}

// Read takes what can be read: history is never refused.
func Read(data json.RawMessage) (p Payload) {
	if len(data) > 0 && json.Unmarshal(data, &p) != nil {
		return Payload{}
	}
	return p
}

// Change overrides a revision's configuration for one deployment, until it has
// finished; nil fields are as in the revision.
type Change struct {
	Method            *definition.Method `json:"method,omitempty"`
	MinHealthyPercent *int               `json:"min_healthy_percent,omitempty"`
	MaxUnavailable    *budget.Budget     `json:"max_unavailable,omitempty"` // takes the place of MinHealthyPercent
	MaxOver           *int               `json:"max_over,omitempty"`
	MaxSurge          *budget.Budget     `json:"max_surge,omitempty"` // takes the place of MaxOver
}

// Taken are the targets that an event leaves to other environments, see Clean.
func Taken(e deploylog.Event) []string { return Read(e.Data).Taken }

// DeploymentKind is why a deployment was started.
type DeploymentKind string

// The kinds of deployments.
const (
	ByDeploy   DeploymentKind = "deploy"
	ByRollback DeploymentKind = "rollback"
	ByRestart  DeploymentKind = "restart" // of the active revision
	ByDelete   DeploymentKind = "delete"
)

// Apply returns a configuration with the overrides.
func (c Change) Apply(to definition.Configuration) definition.Configuration {
	if c.Method != nil {
		to.Method = *c.Method
	}
	if c.MinHealthyPercent != nil {
		to.MinHealthyPercent, to.MaxUnavailable = *c.MinHealthyPercent, nil
	}
	if c.MaxUnavailable != nil {
		to.MaxUnavailable = c.MaxUnavailable
	}
	if c.MaxOver != nil {
		to.MaxOver, to.MaxSurge = *c.MaxOver, nil
	}
	if c.MaxSurge != nil {
		to.MaxSurge = c.MaxSurge
	}
	return to
}
