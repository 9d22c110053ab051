// Package promotion decides which revision of an environment comes to the next one, by what
// the environments of a pipeline are observed to run (seed "Pipelines: level-triggered
// architecture").
//
// Nothing tells a pipeline to promote. What its environments run is observed, and a promotion
// follows from that, its definition and the log: so one that was missed is made up for, one
// that failed is tried again, and one that succeeded is not done twice. State is folded from
// the log by Apply; Decide yields what may be done now, Explain says why the rest may not,
// both from the same verdicts, and Propose turns a command into events or refuses it.
// Everything is a pure function of the log, what is observed, and the time.
package promotion

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// The events of pipelines that promote by observed state. With the markers of stages, which
// begin and end each try of a promotion, they are all that happens to one.
const (
	PipelineDefined = "promotion-pipeline-defined"
	PipelineDeleted = "promotion-pipeline-deleted"
	RunStarted      = "promotion-run-started"  // its revision is current: the first stage runs it
	RunFinished     = "promotion-run-finished" // all stages run it
	Triggered       = "promotion-triggered"    // the environment is being deployed, or somebody was asked to see to that
	Merged          = "promotion-merged"       // what was proposed to a repository is there
	Withdrawn       = "promotion-withdrawn"    // what was proposed, and nobody wants any more
	HostsObserved   = "promotion-observed"     // the hosts or objects of a stage run something else than before
	Waiting         = "promotion-waiting"      // for approval
	Approved        = "promotion-approved"
	Rejected        = "promotion-rejected"
	Held            = "promotion-held"
	HoldReleased    = "promotion-hold-released"
	RolledBackHolds = "promotion-rolled-back" // somebody rolled the environment back by hand, which holds the stage
	LineStopped     = "promotion-line-stopped"
	LineResumed     = "promotion-line-resumed"
	PipelineWatched = "promotion-watched" // a controller is there, again if none was for a while

	Verifying    = "promotion-verifying" // a try to verify what a stage runs
	Verified     = "promotion-verified"
	VerifyFailed = "promotion-verify-failed"
	VerifyEnded  = "promotion-verify-ended" // nobody waits for its result any more

	StageStarted  = "stage-started" // a try of a promotion
	StageFinished = "stage-finished-successfully"
	StageFailed   = "stage-failed"
)

// EventNames are the names of the events that nothing else has.
func EventNames() []string {
	return []string{PipelineDefined, PipelineDeleted, RunStarted, RunFinished, Triggered, Merged, Withdrawn, HostsObserved, Waiting, Approved, Rejected, Held, HoldReleased, RolledBackHolds, LineStopped, LineResumed, PipelineWatched, Verifying, Verified, VerifyFailed, VerifyEnded}
}

// Target is the target of a pipeline.
func Target(pipeline string) deploylog.Target { return deploylog.Target("pipeline/" + pipeline) }

// StageTarget is the target of a stage of a pipeline.
func StageTarget(pipeline, stage string) deploylog.Target {
	return deploylog.Target("stage/" + pipeline + "/" + stage)
}

// NameOf is the pipeline of a target of either kind.
func NameOf(t deploylog.Target) (name string, ok bool) {
	if kind := t.Kind(); kind != "pipeline" && kind != "stage" {
		return "", false
	}
	_, path, _ := strings.Cut(string(t), "/")
	name, _, _ = strings.Cut(path, "/")
	return name, name != ""
}

// Payload is what the events carry.
type Payload struct {
	Definition *definition.Definition `json:"definition,omitempty"`

	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	Cause  string `json:"error,omitempty"` // why a try failed

	From         string `json:"from,omitempty"`          // the stage of which the revision was taken
	Came         int64  `json:"came,omitempty"`          // event with which that came to run the revision, or was rolled back
	Supersedes   string `json:"supersedes,omitempty"`    // revision
	SupersededBy string `json:"superseded_by,omitempty"` // revision, of a try that is given up

	Strategy string `json:"strategy,omitempty"` // of a try; "" is that the environment is deployed
	Answer   string `json:"answer,omitempty"`   // of who was asked to bring the revision
	Taken    bool   `json:"taken,omitempty"`    // the repository had it already
	Declined bool   `json:"declined,omitempty"` // somebody closed the pull request

	Since time.Time `json:"since,omitzero"` // when no controller watched any more

	Observed *Sighting            `json:"observed,omitempty"`
	Approval *record.ApprovalInfo `json:"approval,omitempty"` // what an approval is bound to

	Environment         string `json:"environment,omitempty"`
	EnvironmentRevision int    `json:"environment_revision,omitempty"`
	Deployment          string `json:"environment_deployment,omitempty"`
	DeploymentEvent     int64  `json:"environment_event,omitempty"`
}

// Data is the payload as it is recorded.
func (p Payload) Data() json.RawMessage {
	data, err := json.Marshal(p)
	if err != nil { // it consists of texts, numbers and a definition that was read from a file
		return nil
	}
	return data
}

// PayloadOf is what an event carries; what cannot be read is nothing.
func PayloadOf(e deploylog.Event) (p Payload) {
	_ = json.Unmarshal(e.Data, &p)
	return p
}
