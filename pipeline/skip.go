package pipeline

import (
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Skip passes over a revision that waits, because it is not wanted any more: it
// enters no further stage, and later ones proceed at once. One that is at work in a
// stage is refused, for that would stay half done; cancelling is for it.
type Skip struct {
	Revision, By, Reason string
}

func (c Skip) propose(s *State) ([]deploylog.Event, error) {
	r, err := s.meant(c.Revision)
	if err != nil {
		return nil, err
	}
	d, err := s.inProgress(r, "be skipped")
	if err != nil {
		return nil, err
	}
	if d.Left == 0 {
		return nil, refusal.New(NotWaiting, "revision %s cannot be skipped: it has passed every stage", c.Revision)
	}
	if i := d.WorksIn(s.layout); i != deployment.None {
		since := ""
		if k, ok := d.Stages[i].Marks.Began(); ok {
			since = fmt.Sprintf(" (event %d)", k.Seq)
		}
		return nil, refusal.New(NotWaiting, "revision %s cannot be skipped: it is at work in stage %s%s; cancel it, which leaves that half done, or skip it where it waits", c.Revision, s.layout.Stages[i].Name, since)
	}
	return []deploylog.Event{s.endEvent(d, deployment.PassedOver, record.PipelineSkipped, record.Payload{By: c.By, Reason: c.Reason})}, nil
}

// failsAt are the events with which a deployment fails at a stage at once, whether or
// not a scheduler is running. Without an event of its own the stage, when it has not
// begun, is not entered by that.
func (s *State) failsAt(d *deployment.Deployment, stage *deployment.StageLayout, cause string) (events []deploylog.Event) {
	at := s.layout.StageAt[stage.Target]
	closes := d.AwaitsClosing(s.layout, deployment.Failed, at)
	if d.Stages[at].Begun {
		events = append(events, d.Event(stage.Target, record.StageFailed, record.Payload{Error: deploylog.Cause(cause)}))
	}
	p := record.Payload{Error: deploylog.Cause(fmt.Sprintf("stage %s failed: %s", stage.Name, cause))}
	switch {
	case !closes:
		return append(events, d.Event(s.target, record.PipelineFailed, p))
	case len(events) > 0:
		return events // the end follows from the failure of the stage
	default:
		p.Ends, p.FailedAt = string(deployment.Failed), stage.Target
		return append(events, d.Event(s.target, record.EndRequested, p))
	}
}

// newestRevisions are those that have come to a stage, by the order of their release.
type newestRevisions struct {
	order int
	fix   int // that was released as one
}

// newestAt is, for each stage of a pipeline in which the newest revision wins, the newest
// deployment in progress that has come to its beginning, or past it. It is nil where
// every revision takes its turn.
func (s *State) newestAt() (newest []newestRevisions) {
	if !s.definition.Supersede {
		return nil
	}
	newest = make([]newestRevisions, len(s.layout.Stages))
	for _, d := range s.deployments {
		if d.Status != deployment.Running || d.Only() != "" {
			continue
		}
		for i := range s.layout.Stages {
			if run := &d.Stages[i]; run.Begun || run.Passed || d.Reached(&s.layout.Stages[i]) {
				newest[i].order = d.Order
				if d.Fix {
					newest[i].fix = d.Order
				}
			}
		}
	}
	return newest
}

// supersededBy is the revision for which a deployment is passed over: the newest one that
// has come to a stage for which it waits, or has finished. One that has begun a stage is
// not passed over there, whatever else it waits for. While a stage keeps revisions out, one
// that was released as a fix is passed over only for another fix: the others do not get in.
func (s *State) supersededBy(d *deployment.Deployment, newest []newestRevisions) string {
	if newest == nil || d.Only() != "" || d.Status != deployment.Running || d.Left == 0 || d.End != nil {
		return ""
	}
	closing := 0 // stages that it has not begun
	last, awaited := s.finished, d.Fix && s.outcomes.FailedBefore(s.layout, d)
	for i := range s.layout.Stages {
		switch run := &d.Stages[i]; {
		case run.Passed:
		case run.Begun:
			return ""
		case s.layout.Stages[i].Closing():
			closing++
		case d.Reached(&s.layout.Stages[i]) && awaited:
			last = max(last, newest[i].fix)
		case d.Reached(&s.layout.Stages[i]):
			last = max(last, newest[i].order)
		}
	}
	if last <= d.Order || d.Left == closing { // it has gone through what others wait for
		return ""
	}
	return s.revisions[last-1].Revision
}
