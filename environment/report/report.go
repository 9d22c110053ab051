package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/acceptance"
)

// RevisionStatus is the STATUS of a revision in a status table.
type RevisionStatus string

// The statuses of the seed, and Degraded.
const (
	Created     RevisionStatus = "Created"
	Deploying   RevisionStatus = "Deploying"
	Active      RevisionStatus = "Active"
	Degraded    RevisionStatus = "Degraded" // active, with fewer healthy tasks than its minimum
	Undeploying RevisionStatus = "Undeploying"
	Inactive    RevisionStatus = "Inactive"
	Stuck       RevisionStatus = "Stuck"
	Reverting   RevisionStatus = "Reverting"
	Reverted    RevisionStatus = "Reverted"
)

// RevisionStatuses are all statuses of revisions.
func RevisionStatuses() []RevisionStatus {
	return []RevisionStatus{Created, Deploying, Active, Degraded, Undeploying, Inactive, Stuck, Reverting, Reverted}
}

// Row is one revision in a status table.
type Row struct {
	Revision int            `json:"revision"`
	Status   RevisionStatus `json:"status"`
	Desired  int            `json:"desired"` // tasks
	Current  int            `json:"current"` // tasks: healthy ones of the active revision, all of the others
}

// Revision is what is kept of every revision.
type Revision struct {
	Number     int                    `json:"revision"`
	Base       int                    `json:"base,omitempty"` // the revision that it was made from; 0 of the first
	By         string                 `json:"by,omitempty"`
	Seq        int64                  `json:"event"`
	CreatedAt  time.Time              `json:"created_at"`
	Definition *definition.Definition `json:"definition"`         // not to be changed
	Bound      bool                   `json:"bound,omitempty"`    // by who may bring no more than the definition names and allows
	Accepted   *acceptance.Accepted   `json:"accepted,omitempty"` // who accepted it, if By had asked for it
	TaskOf     int                    `json:"task_of,omitempty"`  // the earlier revision with the same task, with which that came; 0 is none
}

// Asked is a revision that somebody asks for who may not make it.
type Asked struct {
	Revision int    `json:"revision"`
	Base     int    `json:"base"`
	By       string `json:"by,omitempty"`
	Seq      int64  `json:"event"`
	acceptance.Asks
	Definition *definition.Definition `json:"-"` // not to be changed
	Against    int                    `json:"-"` // revision that Excess compares it with
}

// Diff returns the command that shows all that a requested revision of an environment changes.
func (a *Asked) Diff(environment string) string {
	return fmt.Sprintf("deployster env diff %s %d %d --all", environment, a.Against, a.Revision)
}

// DeploymentStatus is how far a deployment has come.
type DeploymentStatus string

// The statuses of deployments.
const (
	DeploymentRunning    DeploymentStatus = "running"
	DeploymentStuck      DeploymentStatus = "stuck"
	DeploymentFinished   DeploymentStatus = "finished"
	DeploymentSuperseded DeploymentStatus = "superseded" // another was started before it had finished
)

// Deployment is what is kept of every deployment.
type Deployment struct {
	ID            string                   `json:"deployment"` // NAME:REVISION@TIMESTAMP
	Kind          record.DeploymentKind    `json:"kind"`
	Revision      int                      `json:"revision,omitempty"`
	Automatic     bool                     `json:"automatic,omitempty"` // a rollback by auto_rollback
	Only          []string                 `json:"only,omitempty"`      // hosts that are restarted; none is all
	Status        DeploymentStatus         `json:"status"`
	By            string                   `json:"by,omitempty"`
	Clean         bool                     `json:"clean,omitempty"` // a deletion that terminates what another one left running
	Reason        string                   `json:"reason,omitempty"`
	Step          string                   `json:"step,omitempty"` // what began it: the step of a pipeline
	Seq           int64                    `json:"event"`
	Version       int                      `json:"-"` // of that event, see record.CountsTakenBack
	Started       time.Time                `json:"started"`
	Since         int64                    `json:"since"`                 // event that gave it the status
	Ended         time.Time                `json:"ended,omitzero"`        // finished or superseded
	Code          reason.Code              `json:"code,omitempty"`        // of being stuck
	Cause         string                   `json:"cause,omitempty"`       // of being stuck or superseded
	Configuration definition.Configuration `json:"configuration"`         // with the overrides of this deployment
	Tolerates     int                      `json:"tolerates,omitempty"`   // of a rollback: hosts that may be exceptions, whatever max_failed says
	Exceptions    int                      `json:"exceptions,omitempty"`  // hosts that were not as they should be when it finished
	BakeUntil     time.Time                `json:"bake_until,omitzero"`   // what dies until then counts for the deployment, which has finished
	BakeFailed    string                   `json:"bake_failed,omitempty"` // why it failed after it had finished
}

// Report is the status of an environment at one moment.
type Report struct {
	Environment string           `json:"environment"`
	Event       int64            `json:"event"`               // the newest that is of it
	Inventory   string           `json:"inventory,omitempty"` // that it is bound to
	Deleted     bool             `json:"deleted,omitempty"`
	Orphans     []Orphan         `json:"orphans,omitempty"` // tasks that were left running when it was deleted
	Rows        []Row            `json:"revisions"`
	Deployment  *Deployment      `json:"deployment,omitempty"` // the active one; nil before the first
	Pause       *PauseInfo       `json:"pause,omitempty"`
	Held        *HeldInfo        `json:"held,omitempty"`             // it keeps hosts that its query no longer selects
	Cordoned    []Cordon         `json:"cordoned,omitempty"`         // hosts, by name
	Step        *reason.StepInfo `json:"step,omitempty"`             // of a deployment in steps
	Deadline    time.Time        `json:"progress_deadline,omitzero"` // of a running deployment
	Exceptions  []string         `json:"exceptions,omitempty"`       // hosts that are not as they should be, of a deployment that has finished; they are tried again
	Baking      bool             `json:"baking,omitempty"`           // what dies still counts for the deployment, which has finished
	Asked       *Asked           `json:"asked,omitempty"`            // the next revision, which waits to be accepted
	LeftOut     *LeftOut         `json:"left_out,omitempty"`         // at present, by the inventory here
	Healthy     int              `json:"healthy"`                    // hosts with a healthy task of any revision
	Minimum     int              `json:"minimum"`                    // that must stay healthy
	Hosts       []HostRow        `json:"hosts"`                      // by name; without those that neither have a task nor should have one
}

// LeftOut is which of the hosts that the query selects are left to other environments, which
// make there what this one would make, too.
type LeftOut struct {
	Hosts []string `json:"hosts"`
	Cause string   `json:"cause"`
}

// PauseInfo is who has paused an environment, and why.
type PauseInfo struct {
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Seq    int64     `json:"event"`
	Since  time.Time `json:"since"`
}

// HostRow is one host.
type HostRow struct {
	Host    string    `json:"host"`
	Desired bool      `json:"wanted"`                // it should have a task
	Lost    bool      `json:"lost,omitempty"`        // it is no longer in the inventory, so its tasks cannot be cleaned up
	Failed  bool      `json:"failed,omitempty"`      // it counts against max_failed
	Check   *CheckRow `json:"check,omitempty"`       // its new task failed its check, and nothing was stopped
	Passed  bool      `json:"passed_over,omitempty"` // it is not in the desired state, for it is cordoned
	Tasks   []TaskRow `json:"tasks"`                 // oldest revision first
}

// TaskStatus is the last known status of a task.
type TaskStatus string

// The statuses of tasks.
const (
	TaskStarting    TaskStatus = "starting"
	TaskLaunched    TaskStatus = "launched" // started, and not yet healthy for long enough
	TaskHealthy     TaskStatus = "healthy"
	TaskDrifted     TaskStatus = "drifted"
	TaskFailed      TaskStatus = "failed" // could not be started
	TaskDied        TaskStatus = "died"   // was healthy
	TaskLost        TaskStatus = "lost"   // its state is unknown
	TaskTerminating TaskStatus = "terminating"
)

// TaskRow is one task.
type TaskRow struct {
	Revision int        `json:"revision"`
	TaskOf   int        `json:"task_of,omitempty"` // the earlier revision with the same task, as which it was made; 0 is none
	Target   string     `json:"target"`
	Status   TaskStatus `json:"status"`
	Seq      int64      `json:"event"` // that gave it the status
	Since    time.Time  `json:"since"`
	Failures int        `json:"failures,omitempty"` // in a row
	Cause    string     `json:"cause,omitempty"`    // of the last failure; what differs of a drifted one
	Next     time.Time  `json:"next,omitzero"`      // when it is tried again
}

// CheckRow is that the new task of a host failed its check, so that nothing was stopped.
type CheckRow struct {
	Seq      int64     `json:"event"`
	Since    time.Time `json:"since"`
	Failures int       `json:"failures"` // in a row
	Cause    string    `json:"cause,omitempty"`
	Next     time.Time `json:"next,omitzero"` // when it is checked again
}

// Cordon is that a host gets no new task and no change, and since when.
type Cordon struct {
	Host   string    `json:"host"`
	Drain  bool      `json:"drain,omitempty"` // its tasks are terminated
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Seq    int64     `json:"event"`
	Since  time.Time `json:"since"`
}

// HeldInfo is why an environment keeps hosts that its query no longer selects.
type HeldInfo struct {
	Reason string    `json:"reason"`
	Seq    int64     `json:"event"`
	Since  time.Time `json:"since"`
	Digest string    // of the hosts that would leave
	More   bool      // the next event names more hosts that are not in the inventory
}

// Orphan is a task that was left running when its environment was deleted: nobody keeps
// it, until a Clean terminates it.
type Orphan struct {
	Host     string `json:"host"`
	Revision int    `json:"revision"` // with which the task came
	Target   string `json:"target"`
	Lost     bool   `json:"lost,omitempty"` // its host was not in the inventory
	Seq      int64  `json:"event"`          // that left it
}

// Describe says who made a revision when, and what differs from its base.
func (r Revision) Describe(base *definition.Definition) string {
	var changes []string
	for _, d := range definition.Diff(base, r.Definition) {
		changes = append(changes, d.String())
	}
	return fmt.Sprintf("  revision %d, by %s at %s: %s", r.Number, r.By, r.CreatedAt.Format("2006-01-02 15:04:05 MST"), strings.Join(changes, "; "))
}
