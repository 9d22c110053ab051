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
