package pipeline

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// The events that people and the steps of stages add to the markers of the log,
// KIND-started, KIND-finished-successfully and KIND-failed.
const (
	EventDefined        = "pipeline-defined"
	EventDeleted        = "pipeline-deleted"
	EventMembersChanged = "host-group-members-changed"
	EventMembersHeld    = "host-group-members-held" // the hosts that were selected and not taken over; see SetMembers
	EventCancelled      = "pipeline-cancelled"
	EventRetried        = "pipeline-retried" // its attempt is the one that begins
	EventSkipped        = "pipeline-skipped"
	EventSuperseded     = "pipeline-superseded" // by a newer revision
	EventApproved       = "stage-approved"
	EventRejected       = "stage-rejected"
	EventApplied        = "stage-manifest-applied"
	EventDeployed       = "stage-environment-deployed"
	EventStepsBegun     = "pipeline-steps-begun" // their work; see Begun
	EventStepsEnded     = "pipeline-steps-ended" // work that ended without an event of its step; see TryFailed and Settled
	EventPaused         = "pipeline-paused"
	EventResumed        = "pipeline-resumed"
	EventStagePaused    = "stage-paused"
	EventStageResumed   = "stage-resumed"
)

// EventNames are the names of the events of all pipelines. Artifacts and the
// steps of hosts add others, which their definitions name; see Definition.
func EventNames() []string {
	return []string{
		EventDefined, EventDeleted, EventMembersChanged, EventMembersHeld, EventCancelled, EventRetried, EventSkipped, EventSuperseded, EventApproved, EventRejected, EventApplied, EventDeployed, EventStepsBegun, EventStepsEnded,
		EventPaused, EventResumed, EventStagePaused, EventStageResumed,
		pipelineStarted, pipelineFinished, pipelineFailed, stageStarted, stageFinished, stageFailed,
		groupStarted, groupFinished, groupFailed, hostStarted, hostFinished, hostFailed,
	}
}

// InProgress records for each deployment of a pipeline whether it is running, as
// folded from the events of the pipeline's own target, in order. What an ended
// deployment had started has no end of its own: a cancellation and a deletion have
// no marker, and a stage beside the one that failed, or that the definition lost,
// is not finished.
type InProgress map[string]bool

// Apply folds in an event.
func (u InProgress) Apply(e deploylog.Event) {
	switch e.Name {
	case pipelineStarted, EventRetried:
		u[e.Deployment] = true
	case pipelineFinished, pipelineFailed, EventCancelled, EventSkipped, EventSuperseded:
		u[e.Deployment] = false
	case EventDeleted:
		for deployment := range u {
			u[deployment] = false
		}
	}
}

const (
	pipelineStarted  = "pipeline-started"
	pipelineFinished = "pipeline-finished-successfully"
	pipelineFailed   = "pipeline-failed"
	stageStarted     = "stage-started"
	stageFinished    = "stage-finished-successfully"
	stageFailed      = "stage-failed"
	groupStarted     = "host-group-started"
	groupFinished    = "host-group-finished-successfully"
	groupFailed      = "host-group-failed"
	hostStarted      = "host-started"
	hostFinished     = "host-finished-successfully"
	hostFailed       = "host-failed"

	failedAfter = "-failed"
)

func isFailure(event string) bool { return strings.HasSuffix(event, failedAfter) }

// payload is the data of all events. Fields are only ever added.
type payload struct {
	Version      int                    `json:"version"`
	Definition   *definition.Definition `json:"definition,omitempty"`
	Introduced   map[string]int         `json:"introduced,omitempty"` // unit → number of revisions registered before it
	Latest       string                 `json:"latest_revision,omitempty"`
	Hosts        []string               `json:"hosts,omitempty"`
	Ref          string                 `json:"ref,omitempty"`
	Rollback     *RollbackInfo          `json:"rollback,omitempty"`      // of a stage, by a deployment
	SupersededBy string                 `json:"superseded_by,omitempty"` // revision
	By           string                 `json:"by,omitempty"`
	Carries      Files                  `json:"carries,omitzero"`          // of a revision, or of what a definition brings to those under way
	Adopt        []string               `json:"adopt,omitempty"`           // revisions under way that take what a definition changes
	Skipped      []string               `json:"skipped,omitempty"`         // steps that the end of a place came without
	Nothing      bool                   `json:"nothing_applied,omitempty"` // it came without any
	Inventory    string                 `json:"inventory,omitempty"`       // that the queries of a definition are over
	Reason       string                 `json:"reason,omitempty"`
	Error        string                 `json:"error,omitempty"`
	Steps        []stepWork             `json:"steps,omitempty"`
	Try          int                    `json:"try,omitempty"` // that failed for good
	Fix          bool                   `json:"fix,omitempty"` // the revision enters stages in which earlier ones failed
}

// keepsManifests is the version of the payload of a definition since which revisions under
// way keep the manifests of their steps.
const keepsManifests = 2

func (p payload) data() json.RawMessage {
	p.Version = max(p.Version, 1)
	data, err := json.Marshal(p)
	if err != nil {
		return nil // no field of payload can fail
	}
	return data
}

// read decodes what it can: history is never refused.
func read(data json.RawMessage) (p payload) {
	if len(data) > 0 {
		_ = json.Unmarshal(data, &p)
	}
	return p
}

// Target is the target of the pipeline with that name.
func Target(pipeline string) deploylog.Target { return deploylog.Target("pipeline/" + pipeline) }

// StageTarget is the target of a stage of a pipeline.
func StageTarget(pipeline, stage string) deploylog.Target {
	return deploylog.Target("stage/" + definition.Path(pipeline, stage))
}

// GroupTarget is the target of a host group of a pipeline.
func GroupTarget(pipeline, group string) deploylog.Target {
	return deploylog.Target("host-group/" + definition.Path(pipeline, group))
}

// HostTarget is the target of a host as a member of a host group: a host may be
// in several, of several pipelines, and each of them deploys to it.
func HostTarget(pipeline, group, host string) deploylog.Target {
	return deploylog.Target("host/" + definition.Path(pipeline, group) + "/" + host)
}

// NameOf is the pipeline of a target of any of its kinds.
func NameOf(t deploylog.Target) (name string, ok bool) {
	switch t.Kind() {
	case "pipeline", "stage", "host-group", "host":
	default:
		return "", false
	}
	_, path, _ := strings.Cut(string(t), "/")
	name, _, _ = strings.Cut(path, "/")
	return name, name != ""
}

// groupOf is the host group in which a host target is, member or not.
func groupOf(t deploylog.Target) (group deploylog.Target, host string, ok bool) {
	path, ok := strings.CutPrefix(string(t), "host/")
	i := strings.LastIndexByte(path, '/')
	if !ok || i < 0 {
		return "", "", false
	}
	return deploylog.Target("host-group/" + path[:i]), path[i+1:], true
}

// marks are the events of one target in one deployment, in log order.
type marks []mark

type mark struct {
	event string
	seq   int64
	cause string // of failures
}

// first finds the first event that is as wanted.
func (m *marks) first(wanted func(event string) bool) (mark, bool) {
	if m != nil {
		if i := slices.IndexFunc(*m, func(k mark) bool { return wanted(k.event) }); i >= 0 {
			return (*m)[i], true
		}
	}
	return mark{}, false
}

func (m *marks) find(event string) (mark, bool) {
	return m.first(func(e string) bool { return e == event })
}

func (m *marks) has(event string) bool {
	_, ok := m.find(event)
	return ok
}

// failure finds the first event that records a failure.
func (m *marks) failure() (mark, bool) { return m.first(isFailure) }

// began finds the event with which work on the target began.
func (m *marks) began() (mark, bool) { return m.first(begins) }

// begins reports whether an event shows that work on its target has begun. An
// artifact does not: it may be received, or fail, before its stage starts.
func begins(event string) bool {
	_, is := definition.ArtifactKind(strings.TrimSuffix(event, failedAfter))
	return !is
}

// describe says which step failed and why.
func (k mark) describe() string {
	step := strings.TrimSuffix(k.event, failedAfter)
	if k.cause == "" {
		return step + " failed"
	}
	return step + " failed: " + k.cause
}
