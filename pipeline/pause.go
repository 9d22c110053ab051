package pipeline

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// PausePipeline lets nothing begin in a pipeline, or in one of its stages, until it is resumed.
// What has begun ends and is recorded. A change of the definition does not end it.
type PausePipeline struct {
	Stage      string // "" is the whole pipeline
	ID         string // of a fresh deployment, for the event
	By, Reason string
}

// ResumePipeline ends a pause, the first where there are several. Of a stage that is not
// paused it ends that later revisions do not enter it, because one failed there: who ends a
// pause need not know of that.
type ResumePipeline struct {
	Stage      string // "" is the whole pipeline, but not a pause of one of its stages
	ID         string // of a fresh deployment, for the event
	By, Reason string
}

// PauseInfo is who paused a pipeline or a stage, since when, and why.
type PauseInfo struct {
	Target deploylog.Target `json:"target"`
	Stage  string           `json:"stage,omitempty"` // "" is the whole pipeline
	By     string           `json:"by"`
	Reason string           `json:"reason,omitempty"`
	Seq    int64            `json:"event"`
	Since  time.Time        `json:"since"`

	deployment string     // of the event; of a rollback the one that it is
	then       *PauseInfo // that stays when this one ends
}

func (c PausePipeline) propose(s *State) ([]deploylog.Event, error) {
	t, err := s.pausable(c.Stage)
	if err != nil {
		return nil, err
	}
	if _, already := s.paused[t]; already {
		return nil, nil
	}
	name := record.PipelinePaused
	if t != s.target {
		name = record.StagePaused
	}
	return []deploylog.Event{{Deployment: c.ID, Target: t, Name: name, Attempt: 1, Data: record.Payload{By: c.By, Reason: c.Reason}.Data()}}, nil
}

func (c ResumePipeline) propose(s *State) ([]deploylog.Event, error) {
	t, err := s.pausable(c.Stage)
	if err != nil {
		return nil, err
	}
	name := record.PipelineResumed
	if t != s.target {
		name = record.StageResumed
	}
	_, paused := s.paused[t]
	for _, d := range s.deployments {
		if paused && d.Status == deployment.Running && d.Rollback != nil && d.Rollback.Target == t {
			return nil, refusal.New(RollbackRunning, "stage %s cannot be resumed yet: it is being rolled back to revision %s (event %d), which would overwrite whoever enters before; wait for its end, or cancel it (deployster pipeline cancel %s %s)", d.Rollback.Stage, d.Revision, d.Seq, s.name, s.nameOf(d))
		}
	}
	stopped := slices.ContainsFunc(s.Stops(), func(r reason.Reason) bool { return r.By == t })
	if !paused && !stopped {
		return nil, nil
	}
	return []deploylog.Event{{Deployment: c.ID, Target: t, Name: name, Attempt: 1, Data: record.Payload{By: c.By, Reason: c.Reason}.Data()}}, nil
}

// pausable finds what is to be paused or resumed.
func (s *State) pausable(stage string) (deploylog.Target, error) {
	if err := s.isDefined(); err != nil || stage == "" {
		return s.target, err
	}
	whole, err := s.Stage(stage)
	return record.StageTarget(s.name, whole), err
}

// applyPause folds in that a pipeline or a stage is paused or resumed.
func (s *State) applyPause(e deploylog.Event) {
	switch e.Name {
	case record.PipelinePaused, record.StagePaused:
		p := record.Read(e.Data)
		pause := PauseInfo{Target: e.Target, By: p.By, Reason: p.Reason, Seq: e.Seq, Since: e.CreatedAt, deployment: e.Deployment}
		if first, already := s.paused[e.Target]; already {
			first.then = &pause
			s.paused[e.Target] = first
			return
		}
		s.paused[e.Target] = pause
	default:
		switch p, paused := s.paused[e.Target]; {
		case paused && p.then != nil:
			s.paused[e.Target] = *p.then
		case paused:
			delete(s.paused, e.Target)
		default:
			s.outcomes.Resume(e.Target)
		}
	}
}

// Pauses are the pauses that are in effect: that of the pipeline, and those of its
// stages in their order.
func (s *State) Pauses() (all []PauseInfo) {
	l := s.currentLayout()
	if l == nil {
		return nil
	}
	if p, paused := s.paused[s.target]; paused {
		all = append(all, p)
	}
	for i := range l.Stages {
		if p, paused := s.paused[l.Stages[i].Target]; paused {
			for ; ; p = *p.then {
				p.Stage = l.Stages[i].Name
				all = append(all, p)
				if p.then == nil {
					break
				}
			}
		}
	}
	return all
}

// Message says it in words.
func (p PauseInfo) Message() string { return p.because().Message() }

// because is the pause as the reason why something does not begin.
func (p PauseInfo) because() reason.Reason {
	r := reason.Reason{Code: reason.IsPaused, Name: p.Stage, Actor: p.By, Since: p.Since, Cause: p.Reason, By: p.Target, ByEvent: record.PipelinePaused, Seq: p.Seq}
	if p.Target.Kind() == "stage" {
		r.ByEvent = record.StagePaused
	}
	return r
}

// pause finds why nothing of a deployment may begin in a stage. A rollback, for which the
// stage is paused, waits only where the whole pipeline is; nor does what does something of it
// again wait for the end of that pause.
func (s *State) pause(d *deployment.Deployment, stage *deployment.StageLayout) (why reason.Reason, paused bool) {
	p, paused := s.paused[s.target]
	if !paused && d.Rollback == nil {
		p, paused = s.paused[stage.Target]
		for paused && d.Redo.Info != nil && s.rolledBackTo(d.Original, p) {
			if paused = p.then != nil; paused {
				p = *p.then
			}
		}
		p.Stage = stage.Name
	}
	return p.because(), paused
}

// Unheld are the pauses and failures that hold stages which a definition does not have, and
// so hold nothing with it. A stage that gets another name is another stage.
func (s *State) Unheld(d *definition.Definition) (all []reason.Reason) {
	for _, r := range slices.Concat(s.pauseReasons(), s.Stops()) {
		if r.Name != "" && !slices.ContainsFunc(d.Stages, func(stage definition.Stage) bool { return stage.Name == r.Name }) {
			all = append(all, r)
		}
	}
	return all
}

// pauseReasons are the pauses as reasons of their own, whether or not a revision waits
// for them to end.
func (s *State) pauseReasons() (reasons []reason.Reason) {
	for _, p := range s.Pauses() {
		r := p.because()
		r.Target, r.Event = p.Target, record.PipelineResumed
		if p.Stage != "" {
			r.Event = record.StageResumed
		}
		reasons = append(reasons, r)
	}
	return reasons
}
