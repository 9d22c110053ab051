package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/acceptance"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// Payload is the data of all events. Fields are only ever added.
type Payload struct {
	Version      int                    `json:"version"`
	Definition   *definition.Definition `json:"definition,omitempty"`
	Introduced   map[string]int         `json:"introduced,omitempty"` // unit → number of revisions registered before it
	Latest       string                 `json:"latest_revision,omitempty"`
	Hosts        []string               `json:"hosts,omitempty"`
	Ref          string                 `json:"ref,omitempty"`
	Artifacts    map[string]string      `json:"artifacts,omitempty"`     // references, by the package of a group
	Rollback     *RollbackInfo          `json:"rollback,omitempty"`      // of a stage, by a deployment
	Redo         *RedoInfo              `json:"redo,omitempty"`          // of a stage, by a deployment
	SupersededBy string                 `json:"superseded_by,omitempty"` // revision
	By           string                 `json:"by,omitempty"`
	Approval     *ApprovalInfo          `json:"approval,omitempty"`
	Key          *KeyInfo               `json:"key,omitempty"`
	Carries      Files                  `json:"carries,omitzero"`          // of a revision, or of what a definition brings to those under way
	Adopt        []string               `json:"adopt,omitempty"`           // revisions under way that take what a definition changes
	Ends         string                 `json:"ends,omitempty"`            // how a deployment is to end: its status then
	FailedAt     deploylog.Target       `json:"failed_at,omitempty"`       // the stage for which a deployment is to end as failed, if that has no failure of its own
	Skipped      []string               `json:"skipped,omitempty"`         // steps that the end of a place came without
	Nothing      bool                   `json:"nothing_applied,omitempty"` // it came without any
	Removed      []string               `json:"removed,omitempty"`         // of the last step on a host: resources that no step declares any more
	Left         []string               `json:"left,omitempty"`            // such that could not be removed, each with the reason
	Inventory    string                 `json:"inventory,omitempty"`       // that the queries of a definition are over
	Reason       string                 `json:"reason,omitempty"`
	Error        string                 `json:"error,omitempty"`
	Answer       string                 `json:"answer,omitempty"` // of whom a promotion asked, or to whom it proposed
	Steps        []Work                 `json:"steps,omitempty"`
	Try          int                    `json:"try,omitempty"`      // that failed for good
	Takes        []upstream.Input       `json:"inputs,omitempty"`   // of a revision: those of other pipelines that it takes
	Fix          bool                   `json:"fix,omitempty"`      // the revision enters stages in which earlier ones failed
	Bound        bool                   `json:"bound,omitempty"`    // by an identity that may bring no more than the definition names and allows
	Asks         *acceptance.Asks       `json:"asks,omitempty"`     // of a release that was asked for
	Accepted     *acceptance.Accepted   `json:"accepted,omitempty"` // of a release that was asked for before
	Files        Files                  `json:"files,omitzero"`     // of a definition: what it names itself, when it was defined
}

// KeepsManifests is the version of the payload of a definition since which revisions under
// way keep the manifests of their steps.
const KeepsManifests = 2

// Data is it as it stands in an event.
func (p Payload) Data() json.RawMessage {
	p.Version = max(p.Version, 1)
	data, err := json.Marshal(p)
	if err != nil {
		return nil // no field of payload can fail
	}
	return data
}

// Read decodes what it can: history is never refused.
func Read(data json.RawMessage) (p Payload) {
	if len(data) > 0 {
		_ = json.Unmarshal(data, &p)
	}
	return p
}

// Files are the SHA-256 of files, in hexadecimal, by their paths below the workspace:
// manifests, and all that these include.
type Files map[string]string

// Cause is why something failed, ended otherwise, is paused, or holds, as recorded in
// its event, or what was answered by whom a promotion asked; "" for other events.
func Cause(e deploylog.Event) string {
	p := Read(e.Data)
	switch e.Name {
	case EndRequested:
		return cmp.Or(p.Reason, p.Error)
	case MembersHeld, PipelineCancelled, PipelineDeleted, PipelineSkipped, StageRejected, StageApproved, StageApprovalGiven, KeyRevoked, ApprovalRefused,
		PipelinePaused, PipelineResumed, StagePaused, StageResumed, ReleaseDeclined:
		return p.Reason
	case ReleaseAsked:
		return p.Asks.Cause()
	case StepsEnded:
		if len(p.Steps) > 0 {
			return p.Steps[0].Error
		}
	}
	if p.SupersededBy != "" {
		return SupersededText(p.SupersededBy)
	}
	return cmp.Or(p.Error, p.Answer)
}

// mostPruned is how many removed resources a line names.
const mostPruned = 8

// Pruned returns lines that say which resources the last step on a host removed, since no step declares
// them any more, and which it could not remove.
func Pruned(e deploylog.Event) (lines []string) {
	if e.Target.Kind() != "host" {
		return nil
	}
	p := Read(e.Data)
	if n := len(p.Removed); n > 0 {
		text := strings.Join(p.Removed[:min(n, mostPruned)], ", ")
		if n > mostPruned {
			text += fmt.Sprintf(", and %d more", n-mostPruned)
		}
		lines = append(lines, "no longer declared, removed: "+text)
	}
	for _, left := range p.Left {
		lines = append(lines, "no longer declared, stays: "+left)
	}
	return lines
}

// RollbackInfo is what a deployment that rolls a stage back does, in the data of the event
// that starts it.
type RollbackInfo struct {
	Stage    string           `json:"stage"`
	Target   deploylog.Target `json:"target"`             // of the stage
	Original string           `json:"original"`           // deployment of the revision that is deployed again
	Replaces string           `json:"replaces,omitempty"` // revision that was there
	Replaced string           `json:"replaced,omitempty"` // and its deployment
	By       string           `json:"by,omitempty"`
	Reason   string           `json:"reason,omitempty"`
}

// RollbackOf is what a deployment rolls back that an event starts; nil is nothing.
func RollbackOf(e deploylog.Event) *RollbackInfo {
	if e.Name != PipelineStarted {
		return nil
	}
	return Read(e.Data).Rollback
}

// RedoInfo is what a deployment that does a stage of a revision again does, in the data of
// the event that starts it.
type RedoInfo struct {
	What   RedoKind           `json:"what"`
	Stage  string             `json:"stage"`
	Target deploylog.Target   `json:"target"`          // of the stage
	Of     string             `json:"of"`              // deployment that finished the stage: of the revision, or a rollback to it
	Hosts  []deploylog.Target `json:"hosts,omitempty"` // of a repair
	First  bool               `json:"first,omitempty"` // it is the first time: the stage came later than the revision
	By     string             `json:"by,omitempty"`
	Reason string             `json:"reason,omitempty"`
}

// RedoKind is which part of a stage is done again.
type RedoKind string

// The kinds of what is done again.
const (
	Repair RedoKind = "repair" // hosts that failed
	Rerun  RedoKind = "rerun"  // all
)

// RedoOf is what a deployment does again that an event starts; nil is nothing.
func RedoOf(e deploylog.Event) *RedoInfo {
	if e.Name != PipelineStarted {
		return nil
	}
	return Read(e.Data).Redo
}

// Skips are what of the steps of the hosts in a place its end came without: steps that were
// put into the pipeline, or got another name, behind the revision's back.
type Skips struct {
	Steps   []string // events, in the order of the definition
	Nothing bool     // none was done at all
}

// SkipsOf are what the end of a stage, host group or host came without. Ends that former
// versions recorded do not tell.
func SkipsOf(e deploylog.Event) Skips {
	p := Read(e.Data)
	return Skips{p.Skipped, p.Nothing}
}

// SupersededText says for which revision another one is passed over.
func SupersededText(by string) string { return "superseded by revision " + by }

// The outcomes of work, in the data of an EventStepsEnded.
const (
	TryFailed   = "failed"  // and is to be tried again, if it is a try
	WorkLost    = "lost"    // a run of it may still be at work
	WorkSettled = "settled" // it was left by somebody, and nothing of it is running
)

// Work is the work of a step, in the data of an EventStepsBegun or EventStepsEnded.
type Work struct {
	Deployment string           `json:"deployment"`
	Revision   string           `json:"revision"`
	Target     deploylog.Target `json:"target"`
	Event      string           `json:"event"`
	Attempt    int              `json:"attempt"`
	Manifest   string           `json:"manifest,omitempty"`
	Try        int              `json:"try,omitempty"` // of the attempt, from 1
	Outcome    string           `json:"outcome,omitempty"`
	Run        string           `json:"run,omitempty"`
	Error      string           `json:"error,omitempty"`
}
