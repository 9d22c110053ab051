package promotion

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// The reasons for which Propose refuses a command.
const (
	UnknownPipeline refusal.Code = "unknown-pipeline"
	UnknownStage    refusal.Code = "unknown-stage"
	FirstStage      refusal.Code = "first-stage"
	NotManual       refusal.Code = "not-manual"
	NotAwaited      refusal.Code = "not-awaited" // the revision is not the next to come to the stage
	NotHeld         refusal.Code = "not-held"
	AlreadyHeld     refusal.Code = "already-held"
	DropsHold       refusal.Code = "drops-hold" // the definition has no stage of that name any more
	UnderWay        refusal.Code = "under-way"
	AlreadyApproved refusal.Code = "already-approved"
	AlreadyRejected refusal.Code = "already-rejected"
	CarriesOther    refusal.Code = "carries-other" // what is approved is not what the revision is
)

// Command is what a person wants of a pipeline.
type Command interface {
	propose(s *State, o Observed, now time.Time) ([]deploylog.Event, error)
}

// Propose returns the events that carry out a command, none when there is nothing to do, or a
// *refusal.Error.
func (s *State) Propose(c Command, o Observed, now time.Time) ([]deploylog.Event, error) {
	if _, defines := c.(Define); !defines && s.definition == nil {
		return nil, refusal.New(UnknownPipeline, "pipeline %s does not exist: deployster pipeline apply -f FILE defines it", s.name)
	}
	return c.propose(s, o, now)
}

// Define makes a definition the current one.
type Define struct {
	Definition *definition.Definition
	ID         string // of a fresh deployment, as of all commands
	By         string
}

func (c Define) propose(s *State, _ Observed, _ time.Time) ([]deploylog.Event, error) {
	if s.definition != nil && reflect.DeepEqual(s.definition, c.Definition) {
		return nil, nil
	}
	for _, stage := range slices.Sorted(maps.Keys(s.holds)) {
		if h := s.holds[stage]; c.Definition.Index(stage) < 1 {
			return nil, refusal.New(DropsHold, "the definition has no stage %s, which is held (event %d), and what comes to its environment would be held no more: deployster pipeline release-hold %s %s ends that first", stage, h.Event, s.name, stage)
		}
	}
	gone := s.giveUp("", "its stage is not in the definition any more, or has another environment or strategy", func(p *Promotion) bool {
		i := c.Definition.Index(p.Stage)
		k := s.definition.Index(p.Stage)
		return i < 1 || c.Definition.Stages[i].Environment != p.Environment || k >= 0 && !sameStrategy(&s.definition.Stages[k], &c.Definition.Stages[i])
	})
	return append(gone, deploylog.Event{
		Deployment: c.ID, Target: Target(s.name), Name: PipelineDefined, Attempt: 1, Data: Payload{Definition: c.Definition, By: c.By}.Data(),
	}), nil
}

// Delete ends the pipeline. What its environments run stays as it is.
type Delete struct {
	Cancel         bool // also while a promotion is under way
	ID, By, Reason string
}

func (c Delete) propose(s *State, _ Observed, _ time.Time) ([]deploylog.Event, error) {
	gone := s.giveUp("", "the pipeline was deleted", func(*Promotion) bool { return true })
	if len(gone) > 0 && !c.Cancel {
		return nil, refusal.New(UnderWay, "pipeline %s is not deleted: revision %s is being promoted to %s; --cancel deletes it all the same, and the environment goes on with what it is being deployed with", s.name, gone[0].Revision, gone[0].Target)
	}
	return append(gone, s.command(Target(s.name), "", PipelineDeleted, c.ID, c.By, c.Reason)), nil
}

func (s *State) command(t deploylog.Target, revision, name, id, by, reason string) deploylog.Event {
	return deploylog.Event{Deployment: id, Target: t, Revision: revision, Name: name, Attempt: 1, Data: Payload{By: by, Reason: reason}.Data()}
}

// Stage finds a stage to which something is promoted.
func (s *State) Stage(name string) (string, error) {
	name = s.definition.Short(name)
	switch s.definition.Index(name) {
	case -1:
		hint := ""
		if near := suggest.Closest(name, s.definition.Names()); near != "" {
			hint = fmt.Sprintf(", did you mean %s?", near)
		}
		return "", refusal.New(UnknownStage, "pipeline %s has no stage %.60q%s", s.name, name, hint)
	case 0:
		return "", refusal.New(FirstStage, "nothing is promoted to stage %s, which is the first of pipeline %s: its revision is observed; deployster pipeline stop-the-line %s keeps all others as they are", name, s.name, s.name)
	}
	return name, nil
}

// HoldStage keeps promotions from a stage until ReleaseHold.
type HoldStage struct {
	Stage          string
	ID, By, Reason string
}

func (c HoldStage) propose(s *State, _ Observed, _ time.Time) ([]deploylog.Event, error) {
	stage, err := s.Stage(c.Stage)
	if err != nil {
		return nil, err
	}
	if h := s.holds[stage]; h != nil {
		return nil, refusal.New(AlreadyHeld, "stage %s of pipeline %s is held already (event %d)", stage, s.name, h.Event)
	}
	return []deploylog.Event{s.command(StageTarget(s.name, stage), "", Held, c.ID, c.By, c.Reason)}, nil
}

// ReleaseHold lets promotions come to a stage again that was held, or rolled back by hand, or
// to which something was promoted that somebody has replaced since, or for which something was
// rejected, or whose pull request was closed.
type ReleaseHold struct {
	Stage          string
	ID, By, Reason string
}

func (c ReleaseHold) propose(s *State, o Observed, now time.Time) ([]deploylog.Event, error) {
	stage, err := s.Stage(c.Stage)
	if err != nil {
		return nil, err
	}
	i := s.definition.Index(stage)
	if code := s.verdicts(o, now)[i].code; s.HoldOf(stage, o) == nil && code != WasPromoted && code != IsDeclined && code != IsRejected {
		return nil, refusal.New(NotHeld, "stage %s of pipeline %s is not held", stage, s.name)
	}
	return []deploylog.Event{s.command(StageTarget(s.name, stage), "", HoldReleased, c.ID, c.By, c.Reason)}, nil
}

// StopLine keeps everything from being promoted until ResumeLine.
type StopLine struct{ ID, By, Reason string }

func (c StopLine) propose(s *State, _ Observed, _ time.Time) ([]deploylog.Event, error) {
	if s.stopped != nil {
		return nil, refusal.New(AlreadyHeld, "the line of pipeline %s is stopped already (event %d)", s.name, s.stopped.Event)
	}
	return []deploylog.Event{s.command(Target(s.name), "", LineStopped, c.ID, c.By, c.Reason)}, nil
}

// ResumeLine ends what StopLine began.
type ResumeLine struct{ ID, By, Reason string }

func (c ResumeLine) propose(s *State, _ Observed, _ time.Time) ([]deploylog.Event, error) {
	if s.stopped == nil {
		return nil, refusal.New(NotHeld, "the line of pipeline %s is not stopped; deployster pipeline release-hold %s STAGE releases a stage", s.name, s.name)
	}
	return []deploylog.Event{s.command(Target(s.name), "", LineResumed, c.ID, c.By, c.Reason)}, nil
}
