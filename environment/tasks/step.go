package tasks

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/allow"
)

// Event is an event of the task of a step.
func (step Step) Event(name string, p record.Payload) deploylog.Event {
	return deploylog.Event{
		Deployment: step.Deployment, Target: step.Target, Revision: strconv.Itoa(step.Revision), Name: name, Attempt: step.Attempt, Data: p.Data(),
	}
}

// Kind is what a step does.
type Kind string

// The kinds of steps. All but Record are work, and all but Verify that of a host.
const (
	Record    Kind = "record"    // nothing but its events
	Start     Kind = "start"     // Apply the task's manifest
	Check     Kind = "check"     // see whether the task could be started, before the old one is stopped
	Confirm   Kind = "confirm"   // probe whether a new task is still healthy
	Terminate Kind = "terminate" // destroy what applying the manifest made
	Verify    Kind = "verify"    // see whether the deployment may go on after one of its steps; on no host
)

// Step is something that may be done now. It begins by recording its Events.
type Step struct {
	Kind       Kind
	Deployment string
	Target     deploylog.Target
	Host       string // "" of Record and Verify
	Revision   int
	Attempt    int
	Number     int           // of a Verify: the step of the deployment, from 1
	Timeout    time.Duration // how long a Start or a Verify may take: by then the task must be healthy; 0 is unlimited
	Events     []deploylog.Event
}

// Task is one application of a revision's manifest to one host.
type Task struct {
	Environment string
	Host        string
	Revision    int
	Spec        definition.TaskSpec
	Bounds      *Bounds // of what the revision may bring; nil is everything that it carries
}

// Bounds are what a revision may bring that was made by who may not bring everything.
type Bounds struct {
	Allow     *allow.Rules   // by the newest revision of who may define it; nil is nothing
	Former    []*allow.Rules // by those before, since the one that the revision was made under
	Own       definition.TaskSpec
	OwnVerify map[string]string // what verifies the steps of that
	OwnQuery  string
	Query     string // of the revision itself
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
