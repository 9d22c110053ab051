package environment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/deployster-go/deployster/environment/record"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/internal/phrase"
)

// ReasonCode says why something of an environment is not in the desired state,
// or why its deployment is stuck. Its values never change their meaning.
type ReasonCode string

// The reasons of an environment as a whole.
const (
	EnvironmentDeleted ReasonCode = "environment-deleted"
	NotDeployed        ReasonCode = "not-deployed"
	Paused             ReasonCode = "paused"
	HostsUnknown       ReasonCode = "hosts-unknown"
	NoHosts            ReasonCode = "no-hosts"
	AwaitsPromotion    ReasonCode = "awaits-promotion"    // after a step
	AwaitsConfirmation ReasonCode = "awaits-confirmation" // too many hosts would leave at once
	NoController       ReasonCode = "no-controller"
	SilentController   ReasonCode = "controller-silent" // it holds the environment and does nothing
	ForeignInventory   ReasonCode = "other-inventory"   // nobody is at work with the one that it is bound to
	IsStuck            ReasonCode = "stuck"
	FailedInBake       ReasonCode = "bake-failed"
)

// The reasons of one task. Decide yields a step for those that are Ready or
// InProgress: the latter were begun, which matters only to whoever begins them.
const (
	Ready         ReasonCode = "ready"
	InProgress    ReasonCode = "in-progress"
	TaskPaused    ReasonCode = "task-paused"
	AwaitsRetry   ReasonCode = "awaits-retry"
	AwaitsHealth  ReasonCode = "awaits-health" // it must stay healthy for min_healthy_time
	AwaitsProbe   ReasonCode = "awaits-probe"  // it is lost
	HostLost      ReasonCode = "host-lost"
	TooManyFailed ReasonCode = "too-many-failed" // also of a deployment that is stuck
	MinHealthy    ReasonCode = "min-healthy"
	AwaitsStep    ReasonCode = "awaits-step" // the deployment is at a step with fewer hosts
	AwaitsZone    ReasonCode = "awaits-zone" // hosts of another zone are replaced first
	Cordoned      ReasonCode = "cordoned"    // its host is
	MaxOver       ReasonCode = "max-over"
)

// The reasons that are recorded with an event.
const (
	NoProgress     ReasonCode = "no-progress"
	DeadlinePassed ReasonCode = "healthy-deadline-passed"
)

// Reason is why something of an environment is not in the desired state.
type Reason struct {
	Target  string     `json:"target"`
	Code    ReasonCode `json:"reason"`
	Message string     `json:"message"`
	Change  string     `json:"change"` // what would change it
	Seq     int64      `json:"event,omitempty"`
}

// MarshalJSON also writes the message under its earlier name, says.
func (r Reason) MarshalJSON() ([]byte, error) {
	type plain Reason
	return json.Marshal(struct {
		plain
		Says string `json:"says"`
	}{plain(r), r.Message})
}

// details are what the texts of reasons are made of.
type details struct {
	environment string
	seq         int64  // of the event that is responsible
	cause       string // of a failure
	others      string // controllers at work, but not on this environment
	by, reason  string // of a pause or cordon
	host        string // that is cordoned
	zone        string // whose hosts are replaced
	zoned       bool   // the zones are known
	step        *StepInfo
	query       string
	revision    int
	deleting    bool
	inventory   string // that the environment is bound to
	here        string // the one of who asks; "" is none
	absent      bool   // the host, which the environment keeps
	back        string // command that goes back to an earlier revision; "" is none
	awaited     string // what a task waits for: started, repaired or terminated
	attempt     int
	failures    int
	retryAt     time.Time
	failed      int // hosts
	tolerates   int // hosts, of a rollback
	healthy     int // hosts
	desired     int // hosts
	double      int // hosts
	minimum     int // hosts
	config      definition.Configuration
}

// text is the message of a reason and what would change it: all sentences are
// here.
func (d details) text(code ReasonCode) (message, change string) {
	waiting := "waiting to be " + d.awaited + ": "
	switch code {
	case EnvironmentDeleted:
		return "the environment was deleted", "a new revision: deployster env create"
	case NotDeployed:
		return "no revision was deployed", fmt.Sprintf("deployster env deploy %s --revision %d", d.environment, d.revision)
	case Paused:
		message = fmt.Sprintf("paused by %s (event %d)", d.by, d.seq)
		if d.reason != "" {
			message += ": " + d.reason
		}
		return message, "deployster env resume " + d.environment + ", or another deployment"
	case HostsUnknown:
		return "its hosts are not known yet", record.HostsChanged + ", recorded by the controller"
	case AwaitsConfirmation:
		return fmt.Sprintf("it keeps its hosts (event %d): %s", d.seq, d.cause), "the hosts selected again, or deployster env confirm " + d.environment
	case NoHosts:
		return fmt.Sprintf("the query %s selects no hosts", d.query), "a host that the query selects"
	case NoController:
		if d.others != "" {
			return "no controller serves it, so nothing begins: " + d.others, "deployster env run " + d.environment
		}
		return "no controller is running, so nothing begins", "deployster env run " + d.environment
	case SilentController:
		return "nothing begins: " + d.cause, "that controller going on, or its end: another one takes over then"
	case ForeignInventory:
		return fmt.Sprintf("its hosts are those of inventory %s, and the inventory here is %s", d.inventory, cmp.Or(d.here, "none that can be read")),
			"a controller with that inventory (--inventory), deployster env update from here, which binds the environment to this one, or the same name: in both"
	case IsStuck:
		return fmt.Sprintf("stuck (event %d): %s", d.seq, d.cause), d.unstick()
	case FailedInBake:
		return "it failed after its end: " + d.cause, strings.TrimPrefix(d.back+", or a new revision", ", or ")
	case TooManyFailed:
		return waiting + d.tooManyFailed(), "a failed task becoming healthy, or another deployment"
	case MinHealthy:
		return waiting + fmt.Sprintf("only %d of %s are healthy, and %d must stay healthy (%s)",
			d.healthy, phrase.Count(d.desired, "host"), d.minimum, d.config.MinimumSetting()), d.lowerMinimum()
	case MaxOver:
		return waiting + fmt.Sprintf("the number of hosts with two tasks is %d, and %s", d.double, d.config.SurgeSetting()), "an old task being terminated"
	case TaskPaused:
		return waiting + "the environment is paused", "deployster env resume " + d.environment
	default:
		return d.turnText(code, waiting)
	}
}

// turnText is the text of a reason that a host has not its turn.
func (d details) turnText(code ReasonCode, waiting string) (message, change string) {
	switch code {
	case AwaitsStep:
		message, change = d.step.text(d.environment)
		return waiting + message, change
	case AwaitsPromotion:
		return d.step.text(d.environment)
	case AwaitsZone:
		return d.awaitsZone(waiting)
	case Cordoned:
		message = "its host is cordoned" + after(" by ", d.by) + fmt.Sprintf(" (event %d)", d.seq) + after(": ", d.reason)
		return message, fmt.Sprintf("deployster env uncordon %s %s", d.environment, d.host)
	default:
		return d.taskText(code)
	}
}

// taskText is the text of a reason that concerns one task alone.
func (d details) taskText(code ReasonCode) (message, change string) {
	switch code {
	case InProgress:
		return fmt.Sprintf("being %s since event %d (attempt %d)", d.awaited, d.seq, d.attempt), "its result"
	case AwaitsRetry:
		return fmt.Sprintf("failed %s, next try at %s: %s", times(d.failures), d.retryAt.Format("15:04:05 MST"), d.cause), "the next try"
	case AwaitsHealth:
		return fmt.Sprintf("launched, and not yet healthy for %s", d.config.MinHealthyTime), record.TaskFinished
	case AwaitsProbe:
		return "its state is unknown, so nothing is done with it: " + d.cause, "a successful probe: its host must respond"
	case HostLost:
		if d.absent {
			return "its host is not in the inventory, so nothing is done there", "the host in the inventory, or deployster env confirm " + d.environment
		}
		return "its host is no longer in the inventory, so it cannot be terminated", "the host in the inventory"
	case NoProgress:
		return fmt.Sprintf("no progress for %s", d.config.ProgressDeadline), "a task becoming healthy"
	case DeadlinePassed:
		return fmt.Sprintf("not healthy within %s", d.config.HealthyDeadline), "the task becoming healthy"
	default:
		change = record.TaskStarted
		if d.awaited == "terminated" {
			change = record.TaskTerminating
		}
		return "waiting to be " + d.awaited + ": ready for the next free slot of the controller", change
	}
}

// lowerMinimum is what would change that too few tasks are healthy. A deployment does
// not wait for the repair of drift, so its overrides have ended before they let that begin.
func (d details) lowerMinimum() string {
	setting := "lower %smin%[2]shealthy%[2]spercent"
	if d.config.MaxUnavailable != nil {
		setting = "higher %smax%[2]sunavailable"
	}
	if d.awaited == "repaired" {
		return "another task becoming healthy, or a revision with a " + fmt.Sprintf(setting, "", "_")
	}
	return "another task becoming healthy, or a deployment with a " + fmt.Sprintf(setting, "--", "-")
}

// unstick is what ends that a deployment is stuck.
func (d details) unstick() string {
	switch {
	case d.deleting:
		return "a task being terminated, or deployster env delete " + d.environment + " --leave-tasks, which leaves them running, unmanaged"
	case d.back == "":
		return "a task becoming healthy, or a new revision"
	default:
		return "a task becoming healthy, " + d.back + ", or a new revision"
	}
}

func (d details) tooManyFailed() string {
	if d.tolerates > d.config.MaxFailed.Of(d.desired) {
		return fmt.Sprintf("%s failed, and %d are tolerated, as many as before the rollback", phrase.Count(d.failed, "host"), d.tolerates)
	}
	return fmt.Sprintf("%s failed, and max_failed is %s", phrase.Count(d.failed, "host"), d.config.MaxFailed)
}

// awaitsZone is the text of AwaitsZone.
func (d details) awaitsZone(waiting string) (message, change string) {
	by, zone := d.config.OrderBy, d.zone
	if !d.zoned {
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

// details are those of the environment.
func (s *State) details() details {
	d := details{environment: s.name, revision: len(s.revisions), query: s.Query()}
	if f := s.active; f != nil {
		d.config, d.deleting, d.back = *s.configuration(), f.Kind == record.ByDelete, s.RollbackCommand()
		d.tolerates = f.Tolerates
		turn := s.turn()
		d.step = s.stepInfo()
		d.zone, d.zoned = turn.zone, turn.known
		d.failed, d.healthy, d.desired, d.double, d.minimum = s.total.failed, s.total.serving, s.total.desired, s.total.double, s.minimum()
	}
	return d
}

func (d details) explain(code ReasonCode, target deploylog.Target) Reason {
	r := Reason{Target: string(target), Code: code, Seq: d.seq}
	r.Message, r.Change = d.text(code)
	return r
}

// withCause appends what is wrong with a task to a reason that does not say it.
func (r Reason) withCause(cause string) Reason {
	if cause != "" && !strings.Contains(r.Message, cause) {
		r.Message += ": " + cause
	}
	return r
}
