package pipeline

import (
	"iter"
	"slices"
	"time"

	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/pipeline/walk"
)

// Can is what the caller of Decide is able to do.
type Can struct {
	Work func(step.Step) bool // begin the work of a step; nil is always
}

// Decide yields what is doable and unlocked, older revisions first, within one
// in the order of the pipeline. All steps of one pass may be done at once; a step
// in progress is yielded again until its event is recorded. One whose work failed is
// not yielded while that rests. A caller that has enough work stops iterating, which
// makes the rest cost nothing. Nothing may be applied to the state while it is iterated.
func (s *State) Decide(now time.Time, can Can) iter.Seq[step.Step] {
	return func(yield func(step.Step) bool) {
		s.doable(func(step step.Step) bool {
			if step.NotBefore.After(now) {
				return true
			}
			return step.Work() && (step.Tries.Rest(now) || can.Work != nil && !can.Work(step)) || yield(step)
		})
	}
}

// doable yields what Decide does, and what rests.
func (s *State) doable(yield func(step.Step) bool) {
	if s.currentLayout() == nil {
		return
	}
	held, stragglers, newest := s.batchHolders(), s.stragglers(), s.newestAt()
	for _, d := range s.deployments {
		w := s.walkOf(d, held, stragglers, yield, nil)
		w.Superseded = s.supersededBy(d, newest)
		if d.Status == deployment.Running && !w.Do() {
			return
		}
	}
}

// Wake is when the first of the steps may be tried again that failed and may be done, or
// the first artifact or approval must have come, which may be past. Zero is never: nothing else
// depends on the time.
func (s *State) Wake() time.Time {
	tries, deadline := s.wake(func(deployment.Tries) bool { return true }), s.Deadline(time.Time{})
	if tries.IsZero() || !deadline.IsZero() && deadline.Before(tries) {
		return deadline
	}
	return tries
}

// Rests is when the first of those steps may be tried again that may not be now.
func (s *State) Rests(now time.Time) time.Time {
	return s.wake(func(t deployment.Tries) bool { return t.Rest(now) })
}

func (s *State) wake(such func(deployment.Tries) bool) (first time.Time) {
	if !slices.ContainsFunc(s.deployments, func(d *deployment.Deployment) bool { return d.Status == deployment.Running && len(d.Tries) > 0 }) {
		return first
	}
	s.doable(func(step step.Step) bool {
		if next := step.Tries.Next(); step.Tries.Failed > 0 && such(step.Tries) && (first.IsZero() || next.Before(first)) {
			first = next
		}
		return true
	})
	return first
}

// batchHolders is, for each batch, the deployment in it.
func (s *State) batchHolders() []*deployment.Deployment {
	holders := make([]*deployment.Deployment, len(s.layout.Batches))
	for _, d := range s.deployments {
		for b := range holders {
			if holders[b] == nil && d.Holds(s.layout, s.layout.Batches[b]) {
				holders[b] = d
			}
		}
	}
	return holders
}

// walkOf is the walk through a deployment. What does not begin because it is paused is not
// yielded; kept, unless it is nil, is called with its stage, and why.
func (s *State) walkOf(d *deployment.Deployment, holders []*deployment.Deployment, stragglers [][]*step.Work, yield func(step.Step) bool, kept func(stage int, why reason.Reason)) walk.Walk {
	w := walk.Walk{Overtaken: s.overtaken(d), Layout: s.layout, Deployment: d, Holders: holders, Stragglers: stragglers, Work: &s.work, Pipeline: s.target, Yield: yield, Outcome: step.Outcome{Status: "succeeded"}, KeptOut: func(i int) bool {
		_, is := s.keptOut(d, i)
		return is
	}, PassedOver: func() string { return s.passedOver(d) }}
	if len(s.paused) > 0 {
		w.Yield = func(step step.Step) bool {
			if !step.Begins() {
				return yield(step)
			}
			i := w.Layout.StageAt[record.StageTarget(s.name, step.Stage)]
			why, paused := s.pause(d, &w.Layout.Stages[i])
			if paused && kept != nil {
				kept(i, why)
			}
			return paused || yield(step)
		}
	}
	return w
}

// keptOut finds why a deployment whose turn it is does not enter a stage.
func (s *State) keptOut(d *deployment.Deployment, stage int) (why reason.Reason, is bool) {
	if d.Only() != "" || s.layout.Stages[stage].Closing() { // others are kept out for it
		return s.pause(d, &s.layout.Stages[stage])
	}
	if why, is = s.outcomes.Stopped(s.layout, d, stage, nil); is {
		return why, true
	}
	if why, is = s.skippedFor(d); is && d.WorksIn(s.layout) != deployment.None {
		return why, true
	}
	return s.pause(d, &s.layout.Stages[stage])
}
