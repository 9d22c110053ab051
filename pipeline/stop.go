package pipeline

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
)

// stop is that a revision failed in a stage. Until that is overcome those released after
// it do not enter the stage, for what broke it may break them, too: until a person says
// otherwise, a revision goes through the stage that was released as a fix, or the one that
// failed goes through it after all.
type stop struct {
	order    int // of the revision that failed
	revision string
	seq      int64
	cause    string
}

// fixAt is a revision, released as a fix, that began a stage.
type fixAt struct {
	order    int
	revision string
	seq      int64
}

// applyOutcome folds in what an event says of a stage as a whole. A failure that is
// recorded late, of a revision after which another one went through the stage, stops nothing.
func (s *State) applyOutcome(d *deployment, e deploylog.Event) {
	if e.Target.Kind() != "stage" || d.rollback != nil {
		return
	}
	switch e.Name {
	case stageStarted:
		if d.fix && d.order > s.fixes[e.Target].order {
			s.fixes[e.Target] = fixAt{order: d.order, revision: d.revision, seq: e.Seq}
		}
	case stageFailed:
		if e.Attempt >= d.attempt && d.order >= s.through[e.Target] && d.order >= s.stops[e.Target].order {
			s.stops[e.Target] = stop{order: d.order, revision: d.revision, seq: e.Seq, cause: read(e.Data).Error}
		}
	case stageFinished:
		s.through[e.Target] = max(s.through[e.Target], d.order)
		if d.order >= s.stops[e.Target].order {
			delete(s.stops, e.Target)
		}
	}
}

// stoppedBy finds the failure for which a deployment does not enter a stage: in the stage,
// or in one of a batch that begins with it, or with a stage that it would be kept out of
// before it leaves that batch. It could not leave that again, and would keep out the revision
// that is to go through.
func (s *State) stoppedBy(d *deployment, stage int) (why Reason, stopped bool) {
	l := s.layout
	var ahead []int // batches
	for t, p := range s.stops {
		i, ok := l.stageAt[t]
		if !ok || d.fix || d.order <= p.order || !l.stages[i].StopsOnFailure() || why.Seq > p.seq {
			continue
		}
		if ahead == nil {
			ahead = l.ahead(stage)
		}
		if slices.ContainsFunc(ahead, func(b int) bool { return l.within(i, l.batches[b]) }) {
			why, stopped = p.because(&l.stages[i]), true
		}
	}
	return why, stopped
}

func (p stop) because(stage *stageLayout) Reason {
	return Reason{Code: AwaitsFix, Name: stage.Name, Holder: p.revision, By: stage.target, ByEvent: stageFailed, Seq: p.seq, Cause: p.cause}
}

// Stops are the failures that keep later revisions out of stages, whether or not there is
// one that waits for that.
func (s *State) Stops() (reasons []Reason) {
	l := s.currentLayout()
	if l == nil {
		return nil
	}
	for i := range l.stages {
		if p, failed := s.stops[l.stages[i].target]; failed && l.stages[i].StopsOnFailure() {
			reasons = append(reasons, p.because(&l.stages[i]))
		}
	}
	return reasons
}

// ahead are the batches that begin with a stage, and those that begin in one of these, and
// so on: who enters the stage leaves none of them before it has entered the next.
func (l *layout) ahead(stage int) []int {
	batches := slices.Clone(l.stages[stage].opens)
	for n := 0; n < len(batches); n++ {
		for j := range l.stages {
			if !l.within(j, l.batches[batches[n]]) {
				continue
			}
			for _, b := range l.stages[j].opens {
				if !slices.Contains(batches, b) {
					batches = append(batches, b)
				}
			}
		}
	}
	return batches
}

// within reports whether a stage belongs to a batch.
func (l *layout) within(stage int, b span) bool {
	after := func(i, j int) bool { return i == j || slices.Contains(l.stages[i].ancestors, j) }
	return after(stage, b.from) && after(b.to, stage)
}

// fixAhead finds the fix that went by a deployment: it began a stage that the
// deployment has not come to, and now would undo the fix there.
func (s *State) fixAhead(d *deployment) (why Reason, is bool) {
	if d.rollback != nil || len(s.fixes) == 0 {
		return why, false
	}
	for i := range s.layout.stages {
		stage, run := &s.layout.stages[i], &d.stages[i]
		if f := s.fixes[stage.target]; f.order > d.order && !run.begun && !run.passed {
			return Reason{Code: AwaitsSkip, Name: stage.Name, Holder: f.revision, By: stage.target, ByEvent: stageStarted, Seq: f.seq}, true
		}
	}
	return why, false
}

// passedOver is why a deployment is skipped that a fix has overtaken. What it is at work in
// ends first, for that would stay half done.
func (s *State) passedOver(d *deployment) (cause string) {
	why, is := s.fixAhead(d)
	if !is || d.worksIn(s.layout) != none {
		return ""
	}
	return fmt.Sprintf("revision %s, a fix, went by it into stage %s (event %d)", why.Holder, why.Name, why.Seq)
}

func (r Reason) stopChange() string {
	name, _ := NameOf(r.By)
	return fmt.Sprintf("deployster pipeline resume %s %s; a revision released as a fix (deployster pipeline release %s REVISION --fix); or the success of revision %s, tried again (deployster pipeline retry %s %s)",
		name, r.Name, name, r.Holder, name, r.Holder)
}
