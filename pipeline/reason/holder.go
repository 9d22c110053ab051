package reason

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Root returns the reason that holds everything behind it: the one that Holder waits for
// itself, at the end of a chain of revisions, or r.
func Root(r *Reason) *Reason {
	for r.Root != nil {
		r = r.Root
	}
	return r
}

// pipelineOf returns the name of the pipeline of a target.
func pipelineOf(t deploylog.Target) string {
	name, _ := record.NameOf(t)
	return name
}

// event returns the event that is responsible, in parentheses.
func (r Reason) event() string {
	if r.Seq == 0 {
		return ""
	}
	return fmt.Sprintf(" (event %d)", r.Seq)
}

// holder returns what commands call the deployment of Holder.
func (r Reason) holder() string { return cmp.Or(r.Called, r.Holder) }

// batchText names the revision in the batch, and where it stands.
func (r Reason) batchText() string {
	if r.Name == r.To || r.To == "" {
		return fmt.Sprintf("waits for revision %s to leave stage %s", r.Holder, r.Name)
	}
	return fmt.Sprintf("waits for revision %s, at stage %s, to leave stage %s", r.Holder, r.Name, r.To)
}

// rootText says what the holder waits for. A step that is ready waits for no one.
func (r Reason) rootText() string {
	if r.Root == nil || r.Root.Code == Ready {
		return ""
	}
	text, holder := ": ", r.HeldBy
	if r.Code == AwaitsStage || r.Code == AwaitsFlight {
		holder = r.Deployment
	}
	if r.Root.Deployment != holder {
		text += fmt.Sprintf("it waits for revision %s: ", r.Root.Revision)
	}
	root := *r.Root
	root.Cause, _, _ = strings.Cut(root.Cause, "\n")
	return text + root.place(r.Name) + root.Message()
}

// place names what waits, unless it is the stage of that name.
func (r Reason) place(stage string) string {
	kind, path, _ := strings.Cut(string(r.Target), "/")
	switch kind {
	case "host":
		return "host " + hostName(r.Target) + ": "
	case "stage":
		if r.Target != record.StageTarget(pipelineOf(r.Target), stage) {
			return "stage " + strings.TrimPrefix(path, pipelineOf(r.Target)+"/") + ": "
		}
	}
	return ""
}

// needsSomebody reports whether a command ends what the root waits for.
func (r Reason) needsSomebody() bool {
	return r.Root != nil && (r.Root.Blocking() || r.Root.Code == NoScheduler)
}

// batchChange names what ends the wait for a batch: what moves its holder, or the end of that.
func (r Reason) batchChange() string {
	end := fmt.Sprintf("the end of revision %s: deployster pipeline cancel %s %s", r.Holder, pipelineOf(r.Target), r.holder())
	switch {
	case r.Root != nil && r.Root.Code == NoScheduler:
		return "deployster pipeline run; or " + end
	case r.needsSomebody():
		return r.Root.Change() + "; or " + end
	default:
		return fmt.Sprintf("%s of stage %s, or %s", record.StageFinished, r.To, end)
	}
}

func (r Reason) stageChange() string {
	if r.needsSomebody() {
		return r.Root.Change()
	}
	return fmt.Sprintf("%s of %s", record.StageFinished, r.By)
}

// flightText names the host that has to end first.
func (r Reason) flightText() string {
	if r.By == "" {
		return "waits for a host in flight: " + r.Cause
	}
	return fmt.Sprintf("waits for host %s: %s", hostName(r.By), r.Cause)
}

func (r Reason) flightChange() string {
	of := "a host of group " + r.Name
	if r.By != "" {
		of = string(r.By)
	}
	return fmt.Sprintf("%s or %s of %s", record.HostFinished, record.HostFailed, of)
}

func hostName(t deploylog.Target) string {
	return string(t)[strings.LastIndexByte(string(t), '/')+1:]
}

// slotText names a run that has one of the slots of the scheduler.
func (r Reason) slotText() string {
	if r.Run == "" {
		return ""
	}
	return fmt.Sprintf("; run %s has one, for %s of %s", r.Run, r.ByEvent, r.By)
}
