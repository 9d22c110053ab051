package reason

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/unwatched"
)

// Code says why something of an environment is not in the desired state,
// or why its deployment is stuck. Its values never change their meaning.
type Code string

// The reasons of an environment as a whole.
const (
	EnvironmentDeleted Code = "environment-deleted"
	NotDeployed        Code = "not-deployed"
	Paused             Code = "paused"
	HostsUnknown       Code = "hosts-unknown"
	NoHosts            Code = "no-hosts"
	AwaitsPromotion    Code = "awaits-promotion"    // after a step
	AwaitsVerification Code = "awaits-verification" // of a step
	AwaitsConfirmation Code = "awaits-confirmation" // too many hosts would leave at once
	AwaitsAcceptance   Code = "awaits-acceptance"   // of a revision that somebody asks for
	NoController       Code = "no-controller"
	SilentController   Code = "controller-silent" // it holds the environment and does nothing
	ForeignInventory   Code = "other-inventory"   // nobody is at work with the one that it is bound to
	HostsLeftOut       Code = "hosts-left-out"    // to other environments
	IsStuck            Code = "stuck"
	Unwatched          Code = "unwatched" // for a while, which its deadline does not count
	FailedInBake       Code = "bake-failed"
)

// The reasons of one task. Decide yields a step for those that are Ready or
// InProgress: the latter were begun, which matters only to whoever begins them.
const (
	Ready         Code = "ready"
	InProgress    Code = "in-progress"
	TaskPaused    Code = "task-paused"
	AwaitsRetry   Code = "awaits-retry"
	AwaitsHealth  Code = "awaits-health" // it must stay healthy for min_healthy_time
	AwaitsProbe   Code = "awaits-probe"  // it is lost
	HostLost      Code = "host-lost"
	TooManyFailed Code = "too-many-failed" // also of a deployment that is stuck
	MinHealthy    Code = "min-healthy"
	AwaitsStep    Code = "awaits-step" // the deployment is at a step with fewer hosts
	AwaitsZone    Code = "awaits-zone" // hosts of another zone are replaced first
	Cordoned      Code = "cordoned"    // its host is
	MaxOver       Code = "max-over"
)

// The reasons that are recorded with an event.
const (
	NoProgress     Code = "no-progress"
	NotVerified    Code = "not-verified" // a step
	DeadlinePassed Code = "healthy-deadline-passed"
)

// Reason is why something of an environment is not in the desired state.
type Reason struct {
	Target  string `json:"target"`
	Code    Code   `json:"reason"`
	Message string `json:"message"`
	Change  string `json:"change"` // what would change it
	Seq     int64  `json:"event,omitempty"`
}

// MarshalJSON also writes the message under its earlier name, says.
func (r Reason) MarshalJSON() ([]byte, error) {
	type plain Reason
	return json.Marshal(struct {
		plain
		Says string `json:"says"`
	}{plain(r), r.Message})
}

// Details are what the texts of reasons are made of.
type Details struct {
	Environment string
	Seq         int64  // of the event that is responsible
	Cause       string // of a failure
	Others      string // controllers at work, but not on this environment
	By, Reason  string // of a pause or cordon
	Host        string // that is cordoned
	Zone        string // whose hosts are replaced
	Zoned       bool   // the zones are known
	Step        *StepInfo
	Query       string
	Revision    int
	Deleting    bool
	Inventory   string // that the environment is bound to
	Here        string // the one of who asks; "" is none
	Absent      bool   // the host, which the environment keeps
	Back        string // command that goes back to an earlier revision; "" is none
	Awaited     string // what a task waits for: started, repaired or terminated
	Attempt     int
	Failures    int
	RetryAt     time.Time
	Failed      int           // hosts
	Tolerates   int           // hosts, of a rollback
	Healthy     int           // hosts
	Desired     int           // hosts
	Double      int           // hosts
	Minimum     int           // hosts
	Unwatched   time.Duration // that nobody watched the deployment
	Absences    int
	Deadline    time.Time // of the deployment, or of what is asked for
	Content     string    // hash of what is asked for
	Diff        string    // command that shows all that it changes
	Config      definition.Configuration
}

// Text is the message of a reason and what would change it: all sentences are
// here.
func (d Details) Text(code Code) (message, change string) {
	waiting := "waiting to be " + d.Awaited + ": "
	switch code {
	case EnvironmentDeleted:
		return "the environment was deleted", "a new revision: deployster env create"
	case NotDeployed:
		return "no revision was deployed", fmt.Sprintf("deployster env deploy %s --revision %d", d.Environment, d.Revision)
	case Paused:
		message = fmt.Sprintf("paused by %s (event %d)", d.By, d.Seq)
		if d.Reason != "" {
			message += ": " + d.Reason
		}
		return message, "deployster env resume " + d.Environment + ", or another deployment"
	case HostsUnknown:
		return "its hosts are not known yet", record.HostsChanged + ", recorded by the controller"
	case AwaitsConfirmation:
		return fmt.Sprintf("it keeps its hosts (event %d): %s", d.Seq, d.Cause), "the hosts selected again, or deployster env confirm " + d.Environment
	case NoHosts:
		return fmt.Sprintf("the query %s selects no hosts", d.Query), "a host that the query selects"
	case NoController:
		if d.Others != "" {
			return "no controller serves it, so nothing begins: " + d.Others, "deployster env run " + d.Environment
		}
		return "no controller is running, so nothing begins", "deployster env run " + d.Environment
	case SilentController:
		return "nothing begins: " + d.Cause, "that controller going on, or its end: another one takes over then"
	case ForeignInventory:
		return fmt.Sprintf("its hosts are those of inventory %s, and the inventory here is %s", d.Inventory, cmp.Or(d.Here, "none that can be read")),
			"a controller with that inventory (--inventory), deployster env update from here, which binds the environment to this one, or the same name: in both"
	case IsStuck:
		return fmt.Sprintf("stuck (event %d): %s", d.Seq, d.Cause), d.unstick()
	case Unwatched:
		return d.unwatched()
	case AwaitsAcceptance:
		return fmt.Sprintf("revision %d is asked for by %s (event %d), and not made: %s; expires at %s; %s shows everything that it changes", d.Revision, d.By, d.Seq, d.Cause, d.Deadline.Format(time.RFC3339), d.Diff),
			fmt.Sprintf("deployster env accept %[1]s %[2]d --content %[3]s, by an operator of everything; or deployster env decline %[1]s %[2]d", d.Environment, d.Revision, d.Content)
	case FailedInBake:
		return "it failed after its end: " + d.Cause, strings.TrimPrefix(d.Back+", or a new revision", ", or ")
	case TooManyFailed:
		return waiting + d.TooManyFailed(), "a failed task becoming healthy, or another deployment"
	case MinHealthy:
		return waiting + fmt.Sprintf("only %d of %s are healthy, and %d must stay healthy (%s)",
			d.Healthy, phrase.Count(d.Desired, "host"), d.Minimum, d.Config.MinimumSetting()), d.lowerMinimum()
	case MaxOver:
		return waiting + fmt.Sprintf("the number of hosts with two tasks is %d, and %s", d.Double, d.Config.SurgeSetting()), "an old task being terminated"
	case TaskPaused:
		return waiting + "the environment is paused", "deployster env resume " + d.Environment
	default:
		return d.turnText(code, waiting)
	}
}

// unwatched is the text of Unwatched.
func (d Details) unwatched() (message, change string) {
	message = fmt.Sprintf("no controller watched it for %s (event %d), which its progress deadline does not count: that is at %s now", d.Unwatched, d.Seq, d.Deadline.Format("15:04:05 MST"))
	if d.Absences >= unwatched.Most {
		message += fmt.Sprintf("; after %d such times, further ones count", unwatched.Most)
	}
	return message, "a task becoming healthy"
}

// turnText is the text of a reason that a host has not its turn.
func (d Details) turnText(code Code, waiting string) (message, change string) {
	switch code {
	case AwaitsStep:
		message, change = d.Step.text(d.Environment)
		return waiting + message, change
	case AwaitsPromotion, AwaitsVerification:
		return d.Step.text(d.Environment)
	case AwaitsZone:
		return d.awaitsZone(waiting)
	case Cordoned:
		message = "its host is cordoned" + after(" by ", d.By) + fmt.Sprintf(" (event %d)", d.Seq) + after(": ", d.Reason)
		return message, fmt.Sprintf("deployster env uncordon %s %s", d.Environment, d.Host)
	default:
		return d.taskText(code)
	}
}

// taskText is the text of a reason that concerns one task alone.
func (d Details) taskText(code Code) (message, change string) {
	switch code {
	case InProgress:
		return fmt.Sprintf("being %s since event %d (attempt %d)", d.Awaited, d.Seq, d.Attempt), "its result"
	case AwaitsRetry:
		return fmt.Sprintf("failed %s, next try at %s: %s", times(d.Failures), d.RetryAt.Format("15:04:05 MST"), d.Cause), "the next try"
	case AwaitsHealth:
		return fmt.Sprintf("launched, and not yet healthy for %s", d.Config.MinHealthyTime), record.TaskFinished
	case AwaitsProbe:
		return "its state is unknown, so nothing is done with it: " + d.Cause, "a successful probe: its host must respond"
	case HostLost:
		if d.Absent {
			return "its host is not in the inventory, so nothing is done there", "the host in the inventory, or deployster env confirm " + d.Environment
		}
		return "its host is no longer in the inventory, so it cannot be terminated", "the host in the inventory"
	case NoProgress:
		message = fmt.Sprintf("no progress for %s", d.Config.ProgressDeadline)
		if d.Unwatched > 0 {
			message += fmt.Sprintf(", not counting %s in which no controller watched it", d.Unwatched)
		}
		return message, "a task becoming healthy"
	case DeadlinePassed:
		return fmt.Sprintf("not healthy within %s", d.Config.HealthyDeadline), "the task becoming healthy"
	default:
		change = record.TaskStarted
		if d.Awaited == "terminated" {
			change = record.TaskTerminating
		}
		return "waiting to be " + d.Awaited + ": ready for the next free slot of the controller", change
	}
}

// lowerMinimum is what would change that too few tasks are healthy. A deployment does
// not wait for the repair of drift, so its overrides have ended before they let that begin.
func (d Details) lowerMinimum() string {
	setting := "lower %smin%[2]shealthy%[2]spercent"
	if d.Config.MaxUnavailable != nil {
		setting = "higher %smax%[2]sunavailable"
	}
	if d.Awaited == "repaired" {
		return "another task becoming healthy, or a revision with a " + fmt.Sprintf(setting, "", "_")
	}
	return "another task becoming healthy, or a deployment with a " + fmt.Sprintf(setting, "--", "-")
}

// unstick is what ends that a deployment is stuck.
func (d Details) unstick() string {
	switch {
	case d.Deleting:
		return "a task being terminated, or deployster env delete " + d.Environment + " --leave-tasks, which leaves them running, unmanaged"
	case d.Back == "":
		return "a task becoming healthy, or a new revision"
	default:
		return "a task becoming healthy, " + d.Back + ", or a new revision"
	}
}

// TooManyFailed says how many hosts failed, and how many may.
func (d Details) TooManyFailed() string {
	if d.Tolerates > d.Config.MaxFailed.Of(d.Desired) {
		return fmt.Sprintf("%s failed, and %d are tolerated, as many as before the rollback", phrase.Count(d.Failed, "host"), d.Tolerates)
	}
	return fmt.Sprintf("%s failed, and max_failed is %s", phrase.Count(d.Failed, "host"), d.Config.MaxFailed)
}

// awaitsZone is the text of AwaitsZone.
func (d Details) awaitsZone(waiting string) (message, change string) {
	by, zone := d.Config.OrderBy, d.Zone
	if !d.Zoned {
		return waiting + fmt.Sprintf("the hosts' attribute %s, by which they are ordered, is not known yet", by), record.HostsZoned + ", recorded by the controller"
	}
	if zone == "" {
		zone = "hosts without one"
	}
	return waiting + fmt.Sprintf("hosts are replaced by their %s, one after the other, and those of %s are not done", by, zone), "the hosts of " + zone + " becoming healthy"
}

// after is a text behind a word, "" without a text.
func after(word, text string) string {
	if text == "" {
		return ""
	}
	return word + text
}

func times(n int) string {
	switch n {
	case 0, 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// Explain is the reason of a target.
func (d Details) Explain(code Code, target deploylog.Target) Reason {
	r := Reason{Target: string(target), Code: code, Seq: d.Seq}
	r.Message, r.Change = d.Text(code)
	return r
}

// WithCause appends what is wrong with a task to a reason that does not say it.
func (r Reason) WithCause(cause string) Reason {
	if cause != "" && !strings.Contains(r.Message, cause) {
		r.Message += ": " + cause
	}
	return r
}

// StepInfo is the present step of a deployment.
type StepInfo struct {
	Number  int       `json:"step"` // from 1
	Of      int       `json:"of"`
	Hosts   int       `json:"hosts"`             // that have the new task after it
	Begun   int       `json:"begun"`             // hosts
	Seq     int64     `json:"event,omitempty"`   // with which they were healthy; 0 while they are not
	Until   time.Time `json:"until,omitzero"`    // when it goes on by itself, once they are
	Promote bool      `json:"promote,omitempty"` // it waits for a person

	Verify    string    `json:"verify,omitempty"`    // manifest that is applied before it goes on
	Verified  bool      `json:"verified,omitempty"`  // that has succeeded
	Verifying int64     `json:"verifying,omitempty"` // event with which the present try began
	Attempt   int       `json:"attempt,omitempty"`   // of the last try
	Failures  int       `json:"failures,omitempty"`
	Cause     string    `json:"cause,omitempty"`
	Next      time.Time `json:"next,omitzero"` // when it is tried again
}

// Text says how far the step is, and what comes next.
func (i *StepInfo) text(environment string) (message, change string) {
	message = fmt.Sprintf("step %d of %d: %d of %s begun", i.Number, i.Of, i.Begun, phrase.Count(i.Hosts, "host"))
	promote := "deployster env promote " + environment
	switch {
	case i.Seq == 0:
		return message, "the hosts of the step being healthy"
	case i.Verify != "" && !i.Verified:
		awaited, change := i.awaited(environment)
		return message + awaited, change
	case i.Promote:
		return message + fmt.Sprintf(", and it waits to be promoted since event %d", i.Seq), promote
	default:
		return message + fmt.Sprintf(", and it goes on at %s (event %d)", i.Until.Format("15:04:05 MST"), i.Seq), "that time, or " + promote
	}
}

// awaited is how far a step is verified for which the deployment waits, and what comes next.
func (i *StepInfo) awaited(environment string) (message, change string) {
	promote := "deployster env promote " + environment + ", which goes on all the same"
	switch {
	case i.Verifying > 0:
		return fmt.Sprintf(", and it is being verified by %s since event %d (attempt %d)", i.Verify, i.Verifying, i.Attempt), "its result"
	case !i.Next.IsZero():
		return fmt.Sprintf(", and verifying it by %s failed %s, next try at %s: %s", i.Verify, times(i.Failures), i.Next.Format("15:04:05 MST"), i.Cause), "the next try, or " + promote
	case i.Failures > 0:
		return fmt.Sprintf(", and it could not be verified by %s: %s", i.Verify, i.Cause), promote
	default:
		return fmt.Sprintf(", and it is to be verified by %s", i.Verify), record.StepVerifying + ": there are no more verifications at once than the controller's --parallelism says, and who has waited for longest is first"
	}
}
