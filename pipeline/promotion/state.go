package promotion

import (
	"maps"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/unwatched"
	"github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/window"
)

// State is one pipeline as recorded in the log. It is not safe for concurrent use.
type State struct {
	name       string
	definition *definition.Definition
	schedules  []*window.Schedule // of the calendars of its stages
	defined    int64              // event of the definition
	created    int64              // of the first since it was created last
	deleted    int64              // 0 while it exists
	head       int64

	runs       []*Run // in order; the last is the current one
	promotions []*Promotion
	byID       map[string]*Promotion
	last       map[string]*Promotion                  // of each stage
	approvals  map[string]map[string][]approval.Given // by stage and revision, the last of each identity
	rejected   map[string]rejection                   // by stage, the last
	asked      map[string]asked                       // by stage, the last
	keys       approval.Keys
	holds      map[string]*Hold // by stage, by command
	released   map[string]int64 // by stage: what held before this event holds no more
	rolled     map[string]int64 // by stage: the last rollback of which the log says that it holds
	stopped    *Hold            // the whole line

	verifications map[string]*Verification // by stage, the last
	proposals     map[string]proposal      // that may be open, by place
	sighted       map[string]*sighted      // what stages run that are no environments, by stage

	heard  time.Time       // when a controller recorded something last
	heeded bool            // one has recorded that it watches
	away   unwatched.Spans // in which none was there
}

// Run is that a revision is current: the first stage runs it, and the others are to.
type Run struct {
	ID           string    `json:"run"`
	Revision     string    `json:"revision"`
	Event        int64     `json:"event"`
	Started      time.Time `json:"started"`
	Finished     time.Time `json:"finished,omitzero"` // all stages ran it
	Superseded   time.Time `json:"superseded,omitzero"`
	SupersededBy string    `json:"superseded_by,omitempty"`

	came int64 // event with which the first stage came to run it
}

// Status is how far a promotion has come.
type Status string

// The statuses of promotions.
const (
	Running    Status = "running"
	Failed     Status = "failed" // it is tried again
	Finished   Status = "finished"
	Superseded Status = "superseded"
)

// Promotion is that a revision is brought to a stage, in one or several tries.
type Promotion struct {
	ID          string    `json:"promotion"`
	Stage       string    `json:"stage"`
	Revision    string    `json:"revision"`
	From        string    `json:"from"` // stage
	Environment string    `json:"environment"`
	Status      Status    `json:"status"`
	Attempt     int       `json:"attempt"`
	Failures    int       `json:"failures,omitempty"`
	Event       int64     `json:"event"` // of its first try
	Since       int64     `json:"since"` // event that gave it the status
	Started     time.Time `json:"started"`
	Changed     time.Time `json:"changed"` // when it got the status
	Cause       string    `json:"cause,omitempty"`

	SupersededBy string              `json:"superseded_by,omitempty"`
	Strategy     definition.Strategy `json:"strategy,omitempty"` // of its try; "" is that the environment is deployed
	Answer       string              `json:"answer,omitempty"`   // of who was asked to bring the revision
	Asked        time.Time           `json:"asked,omitzero"`     // when that was
	Merged       time.Time           `json:"merged,omitzero"`    // when it was seen that the repository has it
	Declined     bool                `json:"declined,omitempty"` // somebody closed its pull request

	Deployment          string `json:"environment_deployment,omitempty"` // that its try has started
	EnvironmentRevision int    `json:"environment_revision,omitempty"`

	came            int64 // what it is for, see Run
	deploymentEvent int64
	pull            *definition.PullRequest // of its try
}

// Hold is why a stage gets nothing, or the whole line stands.
type Hold struct {
	By         string    `json:"by,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Event      int64     `json:"event"`
	Since      time.Time `json:"since,omitzero"`
	RolledBack bool      `json:"rolled_back,omitempty"` // by hand, which holds by itself
}

// New returns the state of a pipeline without any events.
func New(name string) *State {
	s := &State{name: name}
	s.forget()
	return s
}

func (s *State) forget() {
	s.definition, s.stopped, s.runs, s.promotions = nil, nil, nil, nil
	s.byID, s.last = map[string]*Promotion{}, map[string]*Promotion{}
	s.approvals, s.rejected, s.asked = map[string]map[string][]approval.Given{}, map[string]rejection{}, map[string]asked{}
	s.holds, s.released, s.keys = map[string]*Hold{}, map[string]int64{}, s.keys.Forget()
	s.rolled = map[string]int64{}
	s.verifications, s.proposals = map[string]*Verification{}, map[string]proposal{}
	s.sighted = map[string]*sighted{}
	s.heard, s.heeded, s.away = time.Time{}, false, nil
}

// Name is that of the pipeline.
func (s *State) Name() string { return s.name }

// Head is the Seq of the last event that was applied.
func (s *State) Head() int64 { return s.head }

// Exists reports whether the pipeline is defined, and not deleted since.
func (s *State) Exists() bool { return s.definition != nil }

// Deleted is the event that deleted the pipeline, 0 when it exists.
func (s *State) Deleted() int64 { return s.deleted }

// Definition is the current one, nil where there is none. It must not be changed.
func (s *State) Definition() *definition.Definition { return s.definition }

// Defined is the event of the definition.
func (s *State) Defined() int64 { return s.defined }

// Environments are those of the stages, which are to be observed. Stages on hosts, and of objects in
// clusters, have none.
func (s *State) Environments() (names []string) {
	if s.definition != nil {
		for _, stage := range s.definition.Stages {
			if !stage.Sighted() {
				names = append(names, stage.Environment)
			}
		}
	}
	return names
}

// SightedPlaces are what the stages are known as that are no environments, see definition.Stage.
func (s *State) SightedPlaces() (names []string) {
	if s.definition != nil {
		for _, stage := range s.definition.Stages {
			if stage.Sighted() {
				names = append(names, stage.Environment)
			}
		}
	}
	return names
}

// Stages are the targets of the stages.
func (s *State) Stages() (all []deploylog.Target) {
	if s.definition != nil {
		for _, stage := range s.definition.Stages {
			all = append(all, StageTarget(s.name, stage.Name))
		}
	}
	return all
}

// Apply folds in an event. Events of other pipelines are ignored, and so are those that
// contradict the state: history is never refused.
func (s *State) Apply(e deploylog.Event) {
	name, ok := NameOf(e.Target)
	if !ok || name != s.name {
		return
	}
	s.head = e.Seq
	if s.definition == nil && e.Name != PipelineDefined {
		return
	}
	s.hear(e)
	p := PayloadOf(e)
	if e.Target == Target(s.name) {
		s.applyPipeline(e, p)
	} else {
		s.applyStage(e, p)
	}
}

func (s *State) applyPipeline(e deploylog.Event, p Payload) {
	switch e.Name {
	case PipelineDefined:
		s.define(e, p)
	case PipelineDeleted:
		s.forget()
		s.deleted = e.Seq
	case RunStarted:
		if r := s.Current(); r != nil && r.Superseded.IsZero() {
			r.Superseded, r.SupersededBy = e.CreatedAt, e.Revision
		}
		for _, open := range s.last {
			if open.Status == Failed { // what waits to be tried again is not wanted any more
				open.Status, open.SupersededBy, open.Since, open.Changed = Superseded, e.Revision, e.Seq, e.CreatedAt
			}
		}
		s.runs = append(s.runs, &Run{ID: e.Deployment, Revision: e.Revision, Event: e.Seq, Started: e.CreatedAt, came: p.Came})
	case RunFinished:
		if r := s.Current(); r != nil && r.ID == e.Deployment {
			r.Finished = e.CreatedAt
		}
	case LineStopped:
		s.stopped = &Hold{By: p.By, Reason: p.Reason, Event: e.Seq, Since: e.CreatedAt}
	case LineResumed:
		s.stopped = nil
	case PipelineWatched:
		s.applyWatched(e, p)
	default:
		s.keys.Apply(e)
	}
}

// define folds in a definition.
func (s *State) define(e deploylog.Event, p Payload) {
	if p.Definition == nil || len(p.Definition.Stages) == 0 {
		return // it cannot be read
	}
	if s.definition == nil {
		s.created, s.deleted = e.Seq, 0
	}
	if s.definition != nil {
		for i := range s.definition.Stages { // an approval means the environments of its stage and of the one before
			stage := s.definition.Stages[i].Name
			other := environmentOf(s.definition, stage) != environmentOf(p.Definition, stage)
			if other {
				delete(s.rejected, stage) // a rejection ends with its stage, or with a new arrival
			}
			if other || environmentBefore(s.definition, stage) != environmentBefore(p.Definition, stage) {
				delete(s.approvals, stage)
				delete(s.asked, stage)
			}
		}
	}
	for stage, k := range s.sighted {
		k.members = nil // whoever applies another definition may have fewer hosts
		if environmentOf(s.definition, stage) != environmentOf(p.Definition, stage) {
			delete(s.sighted, stage)
		}
	}
	for stage := range s.verifications {
		if !sameVerification(s.definition, p.Definition, stage) {
			delete(s.verifications, stage)
		}
	}
	p.Definition.Stages = slices.Clone(p.Definition.Stages) // without the room that decoding has left
	s.definition, s.defined, s.schedules = p.Definition, e.Seq, nil
	for i := range p.Definition.Stages {
		s.schedules = append(s.schedules, p.Definition.Stages[i].Calendar.Schedule())
	}
	s.redefined()
}

// environmentOf is the environment of a stage, or which hosts and manifest it is; "" where the
// definition has no such stage.
func environmentOf(d *definition.Definition, stage string) string {
	if d != nil {
		if i := d.Index(stage); i >= 0 {
			return d.Stages[i].Identity()
		}
	}
	return ""
}

// environmentBefore returns the environment of the stage before a stage; "" if there is none.
func environmentBefore(d *definition.Definition, stage string) string {
	if i := d.Index(stage); i > 0 {
		return d.Stages[i-1].Identity()
	}
	return ""
}

// sameVerification reports whether two definitions have a stage verified by the same.
func sameVerification(a, b *definition.Definition, stage string) bool {
	i, k := a.Index(stage), b.Index(stage)
	return i >= 0 && k >= 0 && a.Stages[i].Verify == b.Stages[k].Verify && maps.Equal(a.Stages[i].VerifyFiles, b.Stages[k].VerifyFiles)
}

func (s *State) applyStage(e deploylog.Event, p Payload) {
	stage := string(e.Target)[len(StageTarget(s.name, "")):]
	if s.applyVerification(stage, e, p) {
		return
	}
	if e.Name == StageStarted {
		s.started(stage, e, p)
		return
	}
	if s.applyApproval(stage, e, p) {
		return
	}
	switch e.Name {
	case HostsObserved:
		s.applySighting(stage, e, p)
		return
	case Held:
		s.holds[stage] = &Hold{By: p.By, Reason: p.Reason, Event: e.Seq, Since: e.CreatedAt}
		return
	case RolledBackHolds:
		s.rolled[stage] = p.Came
		return
	case HoldReleased:
		delete(s.holds, stage)
		s.released[stage] = e.Seq
		return
	}
	pr := s.byID[e.Deployment]
	if e.Name == Withdrawn {
		s.withdrawn(e)
		return
	}
	if pr == nil || pr.Stage != stage || pr.Status != Running {
		return
	}
	switch e.Name {
	case Triggered:
		pr.Deployment, pr.deploymentEvent, pr.EnvironmentRevision = p.Deployment, p.DeploymentEvent, p.EnvironmentRevision
		if pr.Deployment == "" {
			pr.Answer, pr.Asked = p.Answer, e.CreatedAt
		}
		if p.Taken {
			pr.Merged = e.CreatedAt
		}
		return
	case Merged:
		pr.Merged, pr.Answer = e.CreatedAt, p.Answer
		return
	case StageFinished:
		if !pr.open() {
			s.settled(pr)
		}
		pr.Status, pr.Cause, pr.Failures = Finished, "", 0
	case StageFailed:
		pr.Status, pr.Cause, pr.Declined = Failed, p.Cause, p.Declined
		pr.Failures++
		if p.SupersededBy != "" {
			pr.Status, pr.SupersededBy = Superseded, p.SupersededBy
		}
	default:
		return
	}
	pr.Since, pr.Changed = e.Seq, e.CreatedAt
}

// started folds in the beginning of a try.
func (s *State) started(stage string, e deploylog.Event, p Payload) {
	pr := s.byID[e.Deployment]
	if pr == nil {
		pr = &Promotion{ID: e.Deployment, Stage: stage, Revision: e.Revision, From: p.From, Environment: p.Environment, Event: e.Seq, Started: e.CreatedAt, came: p.Came}
		if old := s.last[stage]; old != nil && (old.Status == Failed || old.Status == Running) {
			old.Status, old.SupersededBy, old.Since, old.Changed = Superseded, e.Revision, e.Seq, e.CreatedAt
		}
		s.byID[pr.ID], s.last[stage] = pr, pr
		s.promotions = append(s.promotions, pr)
	}
	pr.Status, pr.Attempt, pr.Since, pr.Changed, pr.Deployment, pr.deploymentEvent = Running, e.Attempt, e.Seq, e.CreatedAt, "", 0
	pr.Strategy, pr.Answer, pr.Asked = definition.Strategy(p.Strategy), "", time.Time{}
	pr.Merged, pr.Declined = time.Time{}, false
	s.proposed(pr)
}

// Current is the run of the current revision; nil before the first. It must not be changed.
func (s *State) Current() *Run {
	if len(s.runs) == 0 {
		return nil
	}
	return s.runs[len(s.runs)-1]
}

// Wanted reports whether a try of a promotion is under way.
func (s *State) Wanted(id string, attempt int) bool {
	p := s.byID[id]
	return p != nil && p.Status == Running && p.Attempt == attempt
}
