package reason

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Code says why something does not move, or that it may. Its values never
// change their meaning.
type Code string

// The reasons that follow from the pipeline and the log.
const (
	Ready              Code = "ready"               // nothing holds it: Decide yields it
	AwaitsStage        Code = "awaits-stage"        // Name is a stage it comes after
	AwaitsBatch        Code = "awaits-batch"        // Holder is in a batch that begins here, at stage Name; Root is what it waits for itself
	AwaitsWork         Code = "awaits-work"         // Work of WorkTarget is still being done for revision Holder
	AwaitsArtifact     Code = "awaits-artifact"     // Name is its kind
	AwaitsApproval     Code = "awaits-approval"     // Name is the stage
	AwaitsMembers      Code = "awaits-members"      // Name is the group whose hosts are not recorded yet
	NoHosts            Code = "no-hosts"            // Name is the group, whose query selects none
	AwaitsConfirmation Code = "awaits-confirmation" // Name is the group, Cause says which hosts would leave it
	NotNew             Code = "not-new"             // something after it happened
	LeftOut            Code = "left-out"            // the step was introduced late, and the revision skipped it elsewhere
	CameLater          Code = "came-later"          // the kind of artifact, Name, was introduced after the revision was registered
	AwaitsFix          Code = "awaits-fix"          // revision Holder failed in stage Name, Cause says how
	AwaitsSkip         Code = "awaits-skip"         // for revision Holder, a fix, which went by it into stage Name, or waits there for the batch up to stage To
	AwaitsFlight       Code = "max-in-flight"       // so many hosts of group Name are in flight as may be
	AwaitsAcceptance   Code = "awaits-acceptance"   // of what Actor asks for until Until; Name is its content, Cause says what it brings
	IsPaused           Code = "paused"              // by Actor, Since, Cause says why; Name is the stage, "" the whole pipeline
	HasFailed          Code = "failed"              // Cause says how; Name is the stage that goes on all the same, of a host
	WasCancelled       Code = "cancelled"           // Cause says why
	WasSkipped         Code = "skipped"             // Cause says why
	WasSuperseded      Code = "superseded"          // Holder is the newer revision for which it is passed over
	NoMember           Code = "no-member"           // the host is in no group Name of the pipeline
	NoTarget           Code = "no-target"           // the pipeline has nothing of this name; Name is what was meant
)

// The reasons why a step that is Ready is not done yet: who knows the runs and
// the schedulers sets them.
const (
	InRun             Code = "in-run"             // Run is doing it
	NoScheduler       Code = "no-scheduler"       // none is running, or others only: Scheduler says what they serve
	SilentScheduler   Code = "scheduler-silent"   // it holds the pipeline and does nothing, as Scheduler says
	AwaitsRetry       Code = "awaits-retry"       // its Try of Of tries failed with Cause; the next is at Until
	AwaitsSlot        Code = "awaits-slot"        // the scheduler has none free
	AwaitsHost        Code = "awaits-host"        // Run does ByEvent of By on the host, or Holder has begun its steps there
	AwaitsEnvironment Code = "awaits-environment" // its deployment to environment Name has not finished
	OtherInventory    Code = "other-inventory"    // nobody is at work with inventory Name, to which the pipeline is bound; Cause is the one here
)

// Reason says why something does not move, or that it may.
type Reason struct {
	Code       Code             `json:"reason"`
	Revision   string           `json:"revision"`
	Deployment string           `json:"deployment"`
	Target     deploylog.Target `json:"target"` // what does not move
	Event      string           `json:"event"`  // what has not happened to it

	Seq     int64            `json:"seq,omitempty"` // the event that is responsible; 0 when it is one that is missing
	By      deploylog.Target `json:"by,omitempty"`  // what that event happened to
	ByEvent string           `json:"by_event,omitempty"`

	Name   string `json:"name,omitempty"`    // see the codes
	To     string `json:"to,omitempty"`      // of a batch: the stage after which it is free
	Holder string `json:"holder,omitempty"`  // revision
	Called string `json:"called,omitempty"`  // name of the deployment for pipeline retry and cancel; "" is the revision, or of AwaitsFix that no retry is possible
	HeldBy string `json:"held_by,omitempty"` // deployment of Holder

	Root  *Reason `json:"root,omitempty"` // what Holder, or a stage before, waits for; nil is not known
	Run   string  `json:"run,omitempty"`
	Cause string  `json:"cause,omitempty"`

	Work       string           `json:"work,omitempty"` // event of the step
	WorkTarget deploylog.Target `json:"work_target,omitempty"`

	Quiet time.Time `json:"quiet_since,omitzero"` // of a run: nothing has come of it since

	Try   int       `json:"try,omitempty"` // the last that failed
	Of    int       `json:"tries,omitempty"`
	Until time.Time `json:"until,omitzero"`  // it waits so long, and is tried again or fails then
	Actor string    `json:"actor,omitempty"` // the person who did that
	Since time.Time `json:"since,omitzero"`

	Scheduler string `json:"scheduler,omitempty"` // what there is to say of it

	Approval *approval.Standing `json:"approval,omitempty"` // of what waits for that
}

// MarshalJSON adds the sentences, and writes code and message also under their
// earlier names, why and says.
func (r Reason) MarshalJSON() ([]byte, error) {
	type plain Reason
	why := r.Code
	switch r.Code {
	case InRun, NoScheduler, SilentScheduler, AwaitsRetry, AwaitsSlot, AwaitsHost, AwaitsEnvironment, OtherInventory:
		why = Ready
	default: // the others always stood there as they are
	}
	return json.Marshal(struct {
		plain
		Why     Code   `json:"why"`
		Message string `json:"message"`
		Says    string `json:"says"`
		Change  string `json:"change"`
	}{plain(r), why, r.Message(), r.Message(), r.Change()})
}

// Blocking reports whether the reason is one that somebody has to do something
// about: not that something else comes first, or will never be done.
func (r Reason) Blocking() bool {
	switch r.Code {
	case AwaitsBatch, AwaitsWork, AwaitsArtifact, AwaitsApproval, AwaitsMembers, NoHosts, AwaitsConfirmation, AwaitsAcceptance, IsPaused, AwaitsFix, HasFailed, WasCancelled, WasSkipped:
		return true
	default:
		return false
	}
}

// Message says it in words, with the event that is responsible.
func (r Reason) Message() string {
	switch text := r.text(); {
	case r.Root != nil && r.Code != AwaitsHost:
		return text + r.event() + r.rootText()
	case r.Seq == 0:
		return text
	case r.Code == NotNew:
		return fmt.Sprintf("%s by event %d", text, r.Seq)
	default:
		return fmt.Sprintf("%s (event %d)", text, r.Seq)
	}
}

func (r Reason) text() string {
	cause := ""
	if r.Cause != "" {
		cause = ": " + r.Cause
	}
	switch r.Code {
	case Ready:
		return "ready" + cause
	case AwaitsStage:
		return "waits for stage " + r.Name
	case AwaitsBatch:
		return r.batchText()
	case AwaitsArtifact:
		return "waiting for artifact " + r.Name + r.untilText()
	case AwaitsApproval:
		return r.approvalText()
	case AwaitsMembers:
		return "the hosts of group " + r.Name + " are not known yet"
	case NoHosts:
		return "host group " + r.Name + " holds: its query selects no host of the inventory"
	case AwaitsConfirmation:
		return "host group " + r.Name + " holds" + cause
	case AwaitsFix:
		return fmt.Sprintf("kept out: revision %s failed in stage %s", r.Holder, r.Name)
	case AwaitsSkip:
		return r.skipText()
	case AwaitsFlight:
		return r.flightText()
	case NotNew:
		return r.notNewText()
	case LeftOut:
		return fmt.Sprintf("left out: this revision is older than the step, and skipped it on %s with %s", r.By, r.ByEvent)
	case CameLater:
		return fmt.Sprintf("left out: artifact %s was introduced after this revision was registered", r.Name)
	case HasFailed, WasCancelled, WasSkipped:
		return string(r.Code) + cause
	case WasSuperseded:
		return record.SupersededText(r.Holder)
	case NoMember:
		return "the host is not a member of host group " + r.Name
	case NoTarget:
		return r.noTargetText()
	default:
		return r.schedulerText(cause)
	}
}

// skipText is that of a reason for which a revision is to be skipped.
func (r Reason) skipText() string {
	if r.To != "" {
		return fmt.Sprintf("kept out: revision %s, a fix, waits at stage %s for the batch up to stage %s, which this one cannot leave because %s, and it is skipped when what it has begun is done", r.Holder, r.Name, r.To, r.Cause)
	}
	return fmt.Sprintf("kept out: revision %s, a fix, went by it into stage %s, and it is skipped when what it has begun is done", r.Holder, r.Name)
}

func (r Reason) notNewText() string {
	if r.By == r.Target {
		return "not new: " + r.ByEvent + " already recorded"
	}
	return fmt.Sprintf("not new: %s of %s already recorded", r.ByEvent, r.By)
}

func (r Reason) noTargetText() string {
	if r.Name != "" {
		return "the pipeline has no such target; did you mean " + r.Name + "?"
	}
	return "the pipeline has no such target"
}

// schedulerText is the text of a reason for which who does the steps is responsible, and
// of why a ready one is not done yet.
func (r Reason) schedulerText(cause string) string {
	switch r.Code {
	case AwaitsWork:
		return r.workText()
	case AwaitsAcceptance:
		return fmt.Sprintf("asked for by %s, and not released: %s; expires at %s", r.Actor, r.Cause, phrase.Moment(r.Until))
	case IsPaused:
		return r.pauseText()
	case InRun:
		if r.Scheduler != "" {
			return fmt.Sprintf("%s, but %s", r.runText(), r.Scheduler)
		}
		return r.runText()
	case NoScheduler:
		if r.Scheduler != "" {
			return "ready" + cause + ", but no scheduler serves it (" + r.Scheduler + "): deployster pipeline run"
		}
		return "ready" + cause + ", but no scheduler is running: deployster pipeline run"
	case SilentScheduler:
		return "ready" + cause + ", but " + r.Scheduler
	case AwaitsRetry:
		return r.LastTry() + cause
	case AwaitsHost:
		if r.Run == "" {
			return fmt.Sprintf("slot held: revision %s has begun its steps as %s, and %s comes next there", r.Holder, r.By, r.ByEvent) + r.rootText()
		}
		return fmt.Sprintf("slot busy: %s of %s is being done on the host by run %s", r.ByEvent, r.By, r.Run)
	case OtherInventory:
		here := r.Cause
		if here == "" {
			here = "none that can be read"
		}
		return fmt.Sprintf("its hosts are those of inventory %s, and the inventory here is %s", r.Name, here)
	case AwaitsEnvironment:
		return fmt.Sprintf("waits until its deployment to environment %s has finished: deployster explain environment/%s", r.Name, r.Name)
	default:
		return "ready" + cause + ": waiting for a free slot of the scheduler (--parallelism)" + r.slotText()
	}
}

// runText says since when something is being done, and whether anything comes of it.
func (r Reason) runText() string {
	const format = "2006-01-02 15:04:05 MST"
	text := "being done"
	if r.Run != "" {
		text += " by run " + r.Run
	}
	if !r.Since.IsZero() {
		text += " since " + r.Since.UTC().Format(format)
	}
	switch {
	case r.Run == "":
		text += "; nothing of it has begun on its engine yet, which may not answer"
	case !r.Quiet.IsZero():
		text += "; nothing has come of it since " + r.Quiet.UTC().Format(format) + ", and its engine may not answer"
	}
	return text
}

// LastTry says how the last try of a step ended, without its cause, and when the next is.
func (r Reason) LastTry() string {
	run := ""
	if r.Run != "" {
		run = ", run " + r.Run + ","
	}
	return fmt.Sprintf("try %d of %d%s failed, next try at %s", r.Try, r.Of, run, r.Until.UTC().Format("15:04:05 MST"))
}

// Change names the event that would change it, in words.
func (r Reason) Change() string {
	switch r.Code {
	case AwaitsStage:
		return r.stageChange()
	case AwaitsBatch:
		return r.batchChange()
	case AwaitsWork, InRun:
		return r.workChange()
	case AwaitsArtifact:
		return fmt.Sprintf("%s: deployster pipeline artifact %s %s %s --ref REFERENCE", r.Event, pipelineOf(r.Target), r.Revision, r.Name)
	case AwaitsApproval:
		return fmt.Sprintf("%s: deployster pipeline approve %s %s %s", record.StageApproved, pipelineOf(r.Target), r.Name, r.Revision)
	case AwaitsMembers, NoMember:
		return record.MembersChanged + " of host group " + r.Name
	case NoHosts:
		return record.MembersChanged + " of host group " + r.Name + ", with a host; or allow_empty: true in its definition"
	case AwaitsAcceptance:
		name, _ := record.NameOf(r.Target)
		return fmt.Sprintf("%s, by an operator of everything: deployster pipeline accept %s %s --content %s; or the end of what is asked for: deployster pipeline decline %s %s", r.Event, name, r.Revision, r.Name, name, r.Revision)
	case AwaitsConfirmation:
		name, _ := record.NameOf(r.Target)
		return fmt.Sprintf("%s of host group %s: when the hosts are back, or by deployster pipeline confirm %s %s", record.MembersChanged, r.Name, name, r.Name)
	case NotNew, LeftOut, CameLater, AwaitsSkip:
		return "none of this deployment: the next revision does it"
	case AwaitsFix:
		return r.stopChange()
	case AwaitsFlight:
		return r.flightChange()
	case IsPaused:
		return r.pauseChange()
	case WasSuperseded:
		return "none: the newest revision wins in this pipeline"
	case HasFailed, WasCancelled, WasSkipped:
		return r.endChange()
	case NoTarget:
		return record.PipelineDefined + ", with such a target"
	case SilentScheduler:
		return "that scheduler going on, or its end: another one takes over then"
	case AwaitsHost:
		return r.hostChange()
	case OtherInventory:
		return "a scheduler with that inventory (--inventory), deployster pipeline apply from here, which binds the pipeline to this one, or the same name: in both"
	default:
		return r.Event + ", once the scheduler has done it"
	}
}

// hostChange is what ends the wait for a host that something else has.
func (r Reason) hostChange() string {
	if r.Run == "" {
		return fmt.Sprintf("%s or %s of %s, or the end of its deployment: deployster pipeline cancel %s %s", record.HostFinished, record.HostFailed, r.By, pipelineOf(r.By), r.holder())
	}
	return "the end of that run"
}

// endChange is what helps where something ended otherwise than well. What did not keep its
// stage from going on is not retried with the deployment.
func (r Reason) endChange() string {
	name, _ := record.NameOf(r.Target)
	if r.Name == "" {
		return fmt.Sprintf("%s: deployster pipeline retry %s %s", record.PipelineRetried, name, cmp.Or(r.Called, r.Revision))
	}
	return fmt.Sprintf("%s of the host, once the stage has finished: deployster pipeline repair %s %s", record.HostFinished, name, r.Name)
}

func (r Reason) approvalText() string {
	text := approval.Standing{}.Text()
	if r.Approval != nil {
		text = r.Approval.Text()
	}
	if !r.Until.IsZero() {
		text += "; expires at " + phrase.Moment(r.Until)
	}
	return text
}

func (r Reason) untilText() string {
	if r.Until.IsZero() {
		return ""
	}
	return ", until " + phrase.Moment(r.Until)
}

func (r Reason) pauseText() string {
	text := "paused"
	if r.Actor != "" {
		text += " by " + r.Actor
	}
	if !r.Since.IsZero() {
		text += " since " + phrase.Moment(r.Since)
	}
	if r.Cause != "" {
		text += ": " + r.Cause
	}
	return text
}

func (r Reason) pauseChange() string {
	name, _ := record.NameOf(r.By)
	event, what := record.PipelineResumed, name
	if r.Name != "" {
		event, what = record.StageResumed, name+" "+r.Name
	}
	return event + ": deployster pipeline resume " + what
}

func (r Reason) stopChange() string {
	name := pipelineOf(r.By)
	text := fmt.Sprintf("deployster pipeline resume %s %s; a revision released as a fix (deployster pipeline release %s REVISION --fix)", name, r.Name, name)
	switch {
	case r.Root != nil && r.needsSomebody():
		return fmt.Sprintf("the success of revision %s (%s); or %s", r.Holder, r.Root.Change(), text)
	case r.Root != nil:
		return fmt.Sprintf("the success of revision %s; or %s", r.Holder, text)
	case r.Called != "":
		return fmt.Sprintf("%s; or the success of revision %s, tried again (deployster pipeline retry %s %s)", text, r.Holder, name, r.Called)
	default: // it cannot be retried any more
		return text
	}
}

// workChange names the end of work. Nobody else can end work that hangs in a scheduler which is
// alive, so that says what can be done about it.
func (r Reason) workChange() string {
	const hangs = "; where it hangs, pipeline cancel of its revision frees its slots after a minute, and a second Ctrl-C ends its scheduler"
	switch {
	case r.Code == InRun && r.Quiet.IsZero():
		return r.Event + ", once the scheduler has done it"
	case r.Code == InRun:
		return r.Event + ", once the scheduler has done it" + hangs
	case r.WorkTarget.Kind() == "host" && r.Run == "":
		return "the end of that work" + hangs
	default:
		return "the end of that work"
	}
}

// workText says what waits for which work.
func (r Reason) workText() string {
	text := fmt.Sprintf("%s of %s is still being done for revision %s", r.Work, r.WorkTarget, r.Holder)
	if !r.Since.IsZero() {
		text += ", since " + r.Since.UTC().Format("2006-01-02 15:04:05 MST")
	}
	if r.Run == "" {
		return text
	}
	cause, _, _ := strings.Cut(r.Cause, "\n")
	return fmt.Sprintf("%s: run %s may still be at work (%s). Where you know that nothing of it is, say pipeline run --abandon %s", text, r.Run, cause, r.Run)
}
