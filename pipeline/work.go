package pipeline

import (
	"cmp"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// applyBegun folds in that work begins.
func (s *State) applyBegun(e deploylog.Event) {
	for _, b := range record.Read(e.Data).Steps {
		s.begin(&step.Work{
			Deployment: b.Deployment, Revision: b.Revision, Target: b.Target, Event: b.Event, Attempt: b.Attempt, Manifest: b.Manifest,
			Seq: e.Seq, Since: e.CreatedAt, Told: e.Name,
		})
	}
}

func (s *State) begin(w *step.Work) {
	_, w.Host, _ = record.GroupOf(w.Target)
	if s.layout != nil {
		w.Place = s.layout.PlaceOfWork(w.Target)
	}
	s.work.Begin(w)
}

// applyWorkEnded folds in how work ended.
func (s *State) applyWorkEnded(e deploylog.Event) {
	for _, b := range record.Read(e.Data).Steps {
		k := step.Key{Deployment: b.Deployment, Target: b.Target, Event: b.Event}
		switch was := s.work.All[k]; {
		case b.Outcome != record.WorkLost:
			s.work.End(k)
		case was != nil:
			changed := *was
			changed.Run, changed.Cause = b.Run, b.Error
			s.work.Begin(&changed)
		default:
			s.begin(&step.Work{
				Deployment: b.Deployment, Revision: b.Revision, Target: b.Target, Event: b.Event, Attempt: b.Attempt, Manifest: b.Manifest,
				Seq: e.Seq, Since: e.CreatedAt, Run: b.Run, Cause: b.Error, Told: e.Name,
			})
		}
		if b.Try > 0 {
			s.countTry(b, e)
		}
	}
}

// stragglers are, for each batch, the work in it of revisions that are not in it any more:
// their deployments ended, or the definition changed. What the definition has lost the
// place of is in every batch, since nobody knows what is done at the same time as it.
func (s *State) stragglers() [][]*step.Work {
	var in [][]*step.Work
	for _, w := range s.work.All {
		d := s.byID[w.Deployment]
		if d != nil && d.Status == deployment.Running && w.Place.Stage != deployment.None && !d.Stages[w.Place.Stage].Passed {
			continue // it is in the batches itself
		}
		if in == nil {
			in = make([][]*step.Work, len(s.layout.Batches))
		}
		for b, batch := range s.layout.Batches {
			if w.Place.Stage == deployment.None || s.layout.Includes(batch, w.Place.Stage) {
				in[b] = append(in[b], w)
			}
		}
	}
	return in
}

// Left is work that nobody does any more: it is not mine, and Decide will not have it
// done again. Who left it may have died while it was done.
func (s *State) Left(mine func(step.Work) bool) (left []step.Work) {
	others := map[step.Key]bool{}
	for k, w := range s.work.All {
		if !mine(*w) {
			others[k] = true
		}
	}
	if len(others) == 0 {
		return nil
	}
	s.doable(func(step step.Step) bool {
		delete(others, step.Key())
		return true
	})
	for k := range others {
		left = append(left, *s.work.All[k])
	}
	slices.SortFunc(left, func(a, b step.Work) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Event, b.Event))
	})
	return left
}

// Underway reports whether work of a step has begun and not ended.
func (s *State) Underway(deployment string, t deploylog.Target, event string) bool {
	return s.work.All[step.Key{Deployment: deployment, Target: t, Event: event}] != nil
}

// At reports whether any work of a deployment has begun at a target and not ended.
func (s *State) At(deployment string, t deploylog.Target) bool {
	return s.work.FirstAt(t, func(w *step.Work) bool { return w.Deployment == deployment }) != nil
}

// Begun is the event that records that the work of steps begins now, once for each
// time that it does. It changes nothing: an end decides. It has an ID of its own, for
// the steps may be of several deployments.
func (s *State) Begun(id string, steps []step.Step) deploylog.Event {
	p := record.Payload{}
	for _, step := range steps {
		p.Steps = append(p.Steps, step.Data(step.Tries.Failed+1))
	}
	return deploylog.Event{Deployment: id, Target: s.target, Name: record.StepsBegun, Attempt: 1, Data: p.Data()}
}

// countTry folds in that a try failed.
func (s *State) countTry(w record.Work, e deploylog.Event) {
	d := s.byID[w.Deployment]
	if d == nil || w.Attempt != d.Attempt {
		return
	}
	k := deployment.EntryKey{Target: w.Target, Event: w.Event}
	if d.Tries == nil {
		d.Tries = map[deployment.EntryKey]deployment.Tries{}
	}
	d.Tries[k] = deployment.Tries{Failed: d.Tries[k].Failed + 1, Seq: e.Seq, At: e.CreatedAt, Cause: w.Error}
}
