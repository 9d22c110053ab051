package pipeline

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// ReceiveArtifact records that an artifact of a revision was received.
type ReceiveArtifact struct {
	Revision, Kind, Ref, By string
	Bound                   bool // as of Release
}

// FailArtifact records that an artifact of a revision was not built, as whoever was to
// build it reports: its stage fails at once, and the revision with it.
type FailArtifact struct {
	Revision, Kind, By, Reason string
}

func (c ReceiveArtifact) propose(s *State) ([]deploylog.Event, error) {
	d, stage, err := s.awaitedArtifact(c.Revision, c.Kind, "receive an artifact")
	if err != nil {
		return nil, err
	}
	return []deploylog.Event{d.Event(stage.Target, definition.ArtifactReceived(c.Kind), record.Payload{Ref: c.Ref, By: c.By, Bound: c.Bound})}, nil
}

func (c FailArtifact) propose(s *State) ([]deploylog.Event, error) {
	d, stage, err := s.awaitedArtifact(c.Revision, c.Kind, "fail for want of an artifact")
	if err != nil {
		return nil, err
	}
	run := &d.Stages[s.layout.StageAt[stage.Target]]
	if run.Passed || !d.Awaits(stage, run, slices.Index(stage.Build.Artifacts, c.Kind)) {
		return nil, refusal.New(Passed, "revision %s does not wait for artifact %s: it is past that", c.Revision, c.Kind)
	}
	cause := "artifact " + c.Kind + " was not built"
	if c.By != "" {
		cause += ", as " + c.By + " reports"
	}
	if c.Reason != "" {
		cause += ": " + c.Reason
	}
	failed := d.Event(stage.Target, definition.ArtifactFailed(c.Kind), record.Payload{By: c.By, Reason: c.Reason, Error: deploylog.Cause(cause)})
	return append([]deploylog.Event{failed}, s.failsAt(d, stage, cause)...), nil
}

// awaitedArtifact finds the deployment of a revision and the stage for whose artifact,
// which has not been received, it waits or will wait.
func (s *State) awaitedArtifact(revision, kind, to string) (*deployment.Deployment, *deployment.StageLayout, error) {
	d, err := s.running(revision, to)
	if err != nil {
		return nil, nil, err
	}
	var kinds []string
	for i := range s.layout.Stages {
		stage := &s.layout.Stages[i]
		if stage.Build == nil {
			continue
		}
		kinds = append(kinds, stage.Build.Artifacts...)
		if !slices.Contains(stage.Build.Artifacts, kind) {
			continue
		}
		k, received := d.Stages[i].Marks.Find(definition.ArtifactReceived(kind))
		switch {
		case stage.Build.Manifest != "":
			return nil, nil, refusal.New(MadeByManifest, "artifact %s is made by manifest %s of stage %s: it is not received from elsewhere", kind, stage.Build.Manifest, stage.Name)
		case received:
			return nil, nil, refusal.New(AlreadyReceived, "artifact %s of revision %s was %w received (event %d): what others may have used does not change; release another revision", kind, revision, ErrRepeated, k.Seq)
		}
		return d, stage, nil
	}
	return nil, nil, s.unknown(UnknownArtifact, "artifact kind", kind, kinds)
}

// Deadline is when the first artifact or approval must have come for which a stage waits,
// after now. Zero is never.
func (s *State) Deadline(now time.Time) (first time.Time) {
	l := s.currentLayout()
	if l == nil || !l.Timed {
		return first
	}
	s.doable(func(step step.Step) bool {
		if step.NotBefore.After(now) && (first.IsZero() || step.NotBefore.Before(first)) {
			first = step.NotBefore
		}
		return true
	})
	return first
}
