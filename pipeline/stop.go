package pipeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
)

// Stops are the failures that keep later revisions out of stages, whether or not there is
// one that waits for that.
func (s *State) Stops() []reason.Reason {
	l := s.currentLayout()
	if l == nil {
		return nil
	}
	stops := s.outcomes.Stops(l)
	for i := range stops {
		s.callFailed(&stops[i])
	}
	return stops
}

// callFailed adds what pipeline retry calls the deployment that failed, if it can be retried.
func (s *State) callFailed(why *reason.Reason) {
	if d := s.byID[why.HeldBy]; d != nil && d.Status != deployment.Running && s.retryOvertaken(d) == nil {
		why.Called = cmp.Or(s.called(d), d.Revision)
	}
}

// skippedFor finds the fix for which a deployment is skipped: it went by the deployment, or
// cannot, because the deployment is in its way.
func (s *State) skippedFor(d *deployment.Deployment) (why reason.Reason, is bool) {
	if why, is = s.outcomes.FixAhead(s.layout, d); is {
		return why, true
	}
	return s.fixBehind(d)
}

// fixBehind finds the fix that waits for a batch in which a deployment is, and which the
// deployment cannot leave, because of a failure that keeps it out of a stage of the batch. So
// each would wait for the other. A fix that a pause keeps out does not wait for a batch yet.
func (s *State) fixBehind(d *deployment.Deployment) (why reason.Reason, is bool) {
	if d.Only() != "" || d.Fix || !s.outcomes.FailedBefore(s.layout, d) {
		return why, false
	}
	for _, f := range s.deployments {
		if !f.Fix || f.Only() != "" || f.Status != deployment.Running || f.Order < d.Order {
			continue
		}
		for i := range s.layout.Stages {
			stage, run := &s.layout.Stages[i], &f.Stages[i]
			if run.Begun || run.Passed || !f.Reached(stage) {
				continue
			}
			if _, paused := s.pause(f, stage); paused {
				continue
			}
			for _, b := range stage.Opens {
				batch := s.layout.Batches[b]
				failure, stays := s.cannotLeave(d, batch)
				if stays {
					return reason.Reason{
						Code: reason.AwaitsSkip, Name: stage.Name, To: s.layout.Stages[batch.To].Name, Holder: f.Revision,
						By: failure.By, ByEvent: failure.ByEvent, Seq: failure.Seq,
						Cause: fmt.Sprintf("revision %s failed in stage %s", failure.Holder, failure.Name),
					}, true
				}
			}
		}
	}
	return why, false
}

// isTriedAgain reports whether a revision that failed has been retried: its success would let
// others follow.
func (s *State) isTriedAgain(revision string) bool {
	return slices.ContainsFunc(s.deployments, func(d *deployment.Deployment) bool {
		return d.Revision == revision && d.Only() == "" && d.Status == deployment.Running
	})
}

// cannotLeave finds the failure for which a deployment never comes to the end of a batch that
// it is in: of a revision that is tried again it is not known.
func (s *State) cannotLeave(d *deployment.Deployment, b deployment.Span) (failure reason.Reason, stays bool) {
	if !d.Holds(s.layout, b) {
		return failure, false
	}
	for i := range s.layout.Stages {
		if run := &d.Stages[i]; run.Begun || run.Passed || !s.layout.Within(i, b) {
			continue
		}
		if failure, stays = s.outcomes.Stopped(s.layout, d, i, s.isTriedAgain); stays {
			return failure, true
		}
	}
	return failure, false
}

// passedOver is why a deployment is skipped for a fix. What it is at work in ends first, for
// that would stay half done.
func (s *State) passedOver(d *deployment.Deployment) (cause string) {
	if d.WorksIn(s.layout) != deployment.None {
		return ""
	}
	why, is := s.skippedFor(d)
	switch {
	case !is:
		return ""
	case why.To != "":
		return fmt.Sprintf("revision %s, a fix, waits at stage %s for the batch up to stage %s, which this one cannot leave: %s (event %d)", why.Holder, why.Name, why.To, why.Cause, why.Seq)
	}
	return fmt.Sprintf("revision %s, a fix, went by it into stage %s (event %d)", why.Holder, why.Name, why.Seq)
}
