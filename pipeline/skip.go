package pipeline

import (
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
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
	if d.left == 0 {
		return nil, refusal.New(NotWaiting, "revision %s cannot be skipped: it has passed every stage", c.Revision)
	}
	if i := d.worksIn(s.layout); i != none {
		since := ""
		if k, ok := d.stages[i].marks.began(); ok {
			since = fmt.Sprintf(" (event %d)", k.seq)
		}
		return nil, refusal.New(NotWaiting, "revision %s cannot be skipped: it is at work in stage %s%s; cancel it, which leaves that half done, or skip it where it waits", c.Revision, s.layout.stages[i].Name, since)
	}
	return []deploylog.Event{d.event(s.target, EventSkipped, payload{By: c.By, Reason: c.Reason})}, nil
}

// worksIn is the first stage, by index, that would stay half done if the deployment ended
// now; none is none.
func (d *deployment) worksIn(l *layout) int {
	for i := range l.stages {
		if run := &d.stages[i]; run.begun && !run.passed && !l.stages[i].waitsForOthers() {
			return i
		}
	}
	return none
}

// waitsForOthers reports whether nothing happens in a stage but that somebody approves,
// or brings artifacts.
func (s *stageLayout) waitsForOthers() bool {
	return s.Approval != nil || s.Build != nil && s.Build.Manifest == ""
}

// failsAt are the events with which a deployment fails at a stage at once, whether or
// not a scheduler is running. Without an event of its own the stage, when it has not
// begun, is not entered by that.
func (s *State) failsAt(d *deployment, stage *stageLayout, cause string) (events []deploylog.Event) {
	if d.stages[s.layout.stageAt[stage.target]].begun {
		events = append(events, d.event(stage.target, stageFailed, payload{Error: deploylog.Cause(cause)}))
	}
	return append(events, d.event(s.target, pipelineFailed, payload{Error: deploylog.Cause(fmt.Sprintf("stage %s failed: %s", stage.Name, cause))}))
}
