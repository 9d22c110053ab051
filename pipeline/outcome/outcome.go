package outcome

import (
	"maps"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Stages is what became of revisions in the stages of a pipeline, folded from events. The
// zero value is that of a pipeline in which nothing happened.
type Stages struct {
	stops   map[deploylog.Target]stop
	fixes   map[deploylog.Target]fix // the last of each stage
	through map[deploylog.Target]int // the order of the last revision that finished the stage
}

// stop is that a revision failed in a stage. Until that is overcome those released after
// it do not enter the stage, for what broke it may break them, too: until a person says
// otherwise, a revision goes through the stage that was released as a fix, or the one that
// failed goes through it after all.
type stop struct {
	order    int // of the revision that failed
	revision string
	id       string // of the deployment
	seq      int64
	cause    string
}

// fix is a revision, released as a fix, that began a stage.
type fix struct {
	order    int
	revision string
	seq      int64
}

// Apply folds in what an event of a deployment says of a stage as a whole. A failure that is
// recorded late, of a revision after which another one went through the stage, stops nothing.
func (s *Stages) Apply(d *deployment.Deployment, e deploylog.Event) {
	if e.Target.Kind() != "stage" || d.Aside() {
		return
	}
	switch e.Name {
	case record.StageStarted:
		if d.Fix && d.Order > s.fixes[e.Target].order {
			set(&s.fixes, e.Target, fix{order: d.Order, revision: d.Revision, seq: e.Seq})
		}
	case record.StageFailed:
		if e.Attempt >= d.Attempt && d.Rank() >= s.through[e.Target] && d.Rank() >= s.stops[e.Target].order {
			set(&s.stops, e.Target, stop{order: d.Rank(), revision: d.Revision, id: d.ID, seq: e.Seq, cause: record.Read(e.Data).Error})
		}
	case record.StageFinished:
		set(&s.through, e.Target, max(s.through[e.Target], d.Rank()))
		if d.Rank() >= s.stops[e.Target].order {
			s.Resume(e.Target)
		}
	}
}

func set[V any](m *map[deploylog.Target]V, t deploylog.Target, v V) {
	if *m == nil {
		*m = map[deploylog.Target]V{}
	}
	(*m)[t] = v
}

// Resume lets later revisions enter a stage although one failed there.
func (s *Stages) Resume(stage deploylog.Target) { delete(s.stops, stage) }

// Clone returns a copy to which events that have not happened may be applied.
func (s *Stages) Clone() Stages {
	return Stages{stops: maps.Clone(s.stops), fixes: maps.Clone(s.fixes), through: maps.Clone(s.through)}
}

// Stopped finds the failure for which a deployment does not enter a stage: in the stage,
// or in one of a batch that begins with it, or with a stage that it would be kept out of
// before it leaves that batch. It could not leave that again, and would keep out the revision
// that is to go through. Failures of which but says so are left out; it may be nil.
func (s *Stages) Stopped(l *deployment.Layout, d *deployment.Deployment, stage int, but func(revision string) bool) (why reason.Reason, stopped bool) {
	var ahead []int // batches
	for t, p := range s.stops {
		i, ok := l.StageAt[t]
		if !ok || d.Fix || d.Order <= p.order || !l.Stages[i].StopsOnFailure() || why.Seq > p.seq || but != nil && but(p.revision) {
			continue
		}
		if ahead == nil {
			ahead = l.Ahead(stage)
		}
		if slices.ContainsFunc(ahead, func(b int) bool { return l.Within(i, l.Batches[b]) }) {
			why, stopped = p.because(&l.Stages[i]), true
		}
	}
	return why, stopped
}

func (p stop) because(stage *deployment.StageLayout) reason.Reason {
	return reason.Reason{Code: reason.AwaitsFix, Name: stage.Name, Holder: p.revision, HeldBy: p.id, By: stage.Target, ByEvent: record.StageFailed, Seq: p.seq, Cause: p.cause}
}

// Stops are the failures that keep later revisions out of stages, whether or not there is
// one that waits for that.
func (s *Stages) Stops(l *deployment.Layout) (reasons []reason.Reason) {
	for i := range l.Stages {
		if p, failed := s.stops[l.Stages[i].Target]; failed && l.Stages[i].StopsOnFailure() {
			reasons = append(reasons, p.because(&l.Stages[i]))
		}
	}
	return reasons
}

// FailedBefore reports whether a revision before a deployment failed in a stage, which waits
// for a fix.
func (s *Stages) FailedBefore(l *deployment.Layout, d *deployment.Deployment) bool {
	for i := range l.Stages {
		if p, failed := s.stops[l.Stages[i].Target]; failed && p.order < d.Order && l.Stages[i].StopsOnFailure() {
			return true
		}
	}
	return false
}

// FixAhead finds the fix that went by a deployment: it began a stage that the
// deployment has not come to, and now would undo the fix there.
func (s *Stages) FixAhead(l *deployment.Layout, d *deployment.Deployment) (why reason.Reason, is bool) {
	if d.Only() != "" || len(s.fixes) == 0 {
		return why, false
	}
	for i := range l.Stages {
		stage, run := &l.Stages[i], &d.Stages[i]
		if f := s.fixes[stage.Target]; f.order > d.Order && !run.Begun && !run.Passed && !stage.Closing() {
			return reason.Reason{Code: reason.AwaitsSkip, Name: stage.Name, Holder: f.revision, By: stage.Target, ByEvent: record.StageStarted, Seq: f.seq}, true
		}
	}
	return why, false
}
