package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/suggest"
)

// ReasonCode is the kind of a reason.
type ReasonCode string

// The reasons for which something does not move.
const (
	Ready          ReasonCode = "ready"           // nothing holds it: the scheduler may take it
	AwaitsStage    ReasonCode = "awaits-stage"    // Name is a stage it comes after
	AwaitsBatch    ReasonCode = "awaits-batch"    // Holder is in a batch that begins here, at stage Name
	AwaitsArtifact ReasonCode = "awaits-artifact" // Name is its kind
	AwaitsApproval ReasonCode = "awaits-approval" // Name is the stage
	AwaitsMembers  ReasonCode = "awaits-members"  // Name is the group whose hosts nobody has told
	NotNew         ReasonCode = "not-new"         // something after it happened
	LeftOut        ReasonCode = "left-out"        // the step came in late, and the revision went by it elsewhere
	CameLater      ReasonCode = "came-later"      // the kind of artifact, Name, came in after the revision was registered
	HasFailed      ReasonCode = "failed"          // Cause says how
	WasCancelled   ReasonCode = "cancelled"       // Cause says why
	NoMember       ReasonCode = "no-member"       // the host is in no group Name of the pipeline
	NoTarget       ReasonCode = "no-target"       // the pipeline has nothing of this name; Name is what was meant
)

// Reason says why something does not move, or that it may.
type Reason struct {
	Code       ReasonCode       `json:"why"`
	Revision   string           `json:"revision"`
	Deployment string           `json:"deployment"`
	Target     deploylog.Target `json:"target"` // what does not move
	Event      string           `json:"event"`  // what has not happened to it

	Seq     int64            `json:"seq,omitempty"` // the event that is responsible; 0 when it is one that is missing
	By      deploylog.Target `json:"by,omitempty"`  // what that event happened to
	ByEvent string           `json:"by_event,omitempty"`

	Name   string `json:"name,omitempty"`   // see the kinds of reasons
	To     string `json:"to,omitempty"`     // of a batch: the stage after which it is free
	Holder string `json:"holder,omitempty"` // revision
	Cause  string `json:"cause,omitempty"`
}

// Message says it in words, with the event that is responsible.
func (r Reason) Message() string {
	switch text := r.text(); {
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
		return fmt.Sprintf("batch held by revision %s at stage %s", r.Holder, r.Name)
	case AwaitsArtifact:
		return "waiting for artifact " + r.Name
	case AwaitsApproval:
		return "approval missing"
	case AwaitsMembers:
		return "the hosts of group " + r.Name + " are not known yet"
	case NotNew:
		if r.By == r.Target {
			return "not new: " + r.ByEvent + " already recorded"
		}
		return fmt.Sprintf("not new: %s of %s already recorded", r.ByEvent, r.By)
	case LeftOut:
		return fmt.Sprintf("left out: this revision is older than the step, and went by it on %s with %s", r.By, r.ByEvent)
	case CameLater:
		return fmt.Sprintf("left out: artifact %s came into the pipeline after this revision was registered", r.Name)
	case HasFailed:
		return "failed" + cause
	case WasCancelled:
		return "cancelled" + cause
	case NoMember:
		return "the host is no member of host group " + r.Name
	default:
		if r.Name != "" {
			return "the pipeline has no such target; did you mean " + r.Name + "?"
		}
		return "the pipeline has no such target"
	}
}

// Change names the event that would change it, in words.
func (r Reason) Change() string {
	switch r.Code {
	case Ready:
		return r.Event + ", when the scheduler has done it"
	case AwaitsStage:
		return fmt.Sprintf("%s of %s", stageFinished, r.By)
	case AwaitsBatch:
		return fmt.Sprintf("%s of stage %s, or the end of the deployment, of revision %s", stageFinished, r.To, r.Holder)
	case AwaitsArtifact:
		return fmt.Sprintf("%s of %s", r.Event, r.Target)
	case AwaitsApproval:
		return fmt.Sprintf("%s of %s", EventApproved, r.Target)
	case AwaitsMembers, NoMember:
		return EventMembersChanged + " of host group " + r.Name
	case NotNew, LeftOut, CameLater:
		return "none of this deployment: the next revision does it"
	case HasFailed, WasCancelled:
		return EventRetried
	default:
		return EventDefined + ", with such a target"
	}
}

// Explain tells of everything at or below a target that does not move why that
// is, and what is ready, for each deployment that has not finished, oldest
// first. What holds a stage or a group holds what is below it.
func (s *State) Explain(t deploylog.Target) []Reason {
	at, why := s.find(t)
	if why != nil {
		return []Reason{*why}
	}
	var reasons []Reason
	s.projections(func(_ *deployment, found []pendingEntry) {
		for _, p := range found {
			if p.disposition != upcoming && at.touches(p.place) {
				reasons = append(reasons, p.reason)
			}
		}
	})
	return reasons
}

// touches reports whether one place is the other, or above or below it.
func (p place) touches(o place) bool {
	same := func(a, b int) bool { return a == none || b == none || a == b }
	return same(p.stage, o.stage) && same(p.group, o.group) && same(p.host, o.host)
}

// find looks a target up, or says why it is nowhere.
func (s *State) find(t deploylog.Target) (place, *Reason) {
	all := place{none, none, none}
	if t == s.target {
		return all, nil
	}
	var known []string
	if s.currentLayout() != nil {
		if at, ok := s.layout.place(t); ok {
			return at, nil
		}
		if group, _, isHost := groupOf(t); isHost {
			if at, ok := s.layout.groupAt[group]; ok {
				name := s.layout.stages[at.stage].groups[at.group].Name
				return all, &Reason{Code: NoMember, Target: t, Name: name, By: group, ByEvent: EventMembersChanged, Seq: s.changed[name]}
			}
		}
		for other := range s.layout.stageAt {
			known = append(known, string(other))
		}
		for other := range s.layout.groupAt {
			known = append(known, string(other))
		}
	}
	known = slices.DeleteFunc(append(known, string(s.target)), func(k string) bool {
		return !strings.HasPrefix(k, t.Kind()+"/")
	})
	slices.Sort(known)
	return all, &Reason{Code: NoTarget, Target: t, Name: suggest.Closest(string(t), known)}
}

// entering is why a stage of a deployment has not begun.
func (s *State) enteringReasons(d *deployment, i int) []Reason {
	var reasons []Reason
	s.projections(func(o *deployment, found []pendingEntry) {
		for _, p := range found {
			if o == d && p.event == stageStarted && p.stage == i {
				reasons = append(reasons, p.reason)
			}
		}
	})
	return reasons
}
