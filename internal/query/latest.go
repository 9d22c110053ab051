package query

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	envrecord "github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Latest is what of a target succeeded last, failed last, and is in progress.
type Latest struct {
	Target     deploylog.Target  `json:"target"`
	Succeeded  *deploylog.Event  `json:"succeeded"`
	Failed     *deploylog.Event  `json:"failed"`
	InProgress []deploylog.Event `json:"in_progress"`
	Known      bool              `json:"-"` // the log has any of it, also what has ended without a marker
}

// LatestOf returns what is latest of a target.
func LatestOf(ctx context.Context, log deploylog.Log, target deploylog.Target) (Latest, error) {
	l := Latest{Target: target, InProgress: []deploylog.Event{}}
	for outcome, into := range map[deploylog.Outcome]**deploylog.Event{deploylog.Succeeded: &l.Succeeded, deploylog.Failed: &l.Failed} {
		e, ok, err := log.Latest(ctx, target, outcome)
		if err != nil {
			return l, err
		}
		if ok {
			*into = &e
		}
	}
	if err := l.rollBack(ctx, log); err != nil {
		return l, err
	}
	started, err := log.InProgress(ctx, target)
	if err != nil {
		return l, err
	}
	l.Known = l.Succeeded != nil || l.Failed != nil || len(started) > 0
	open, err := unended(ctx, log, target, started)
	if name, ok := record.NameOf(target); ok && err == nil && l.Failed != nil {
		open, err = retried(ctx, log, record.Target(name), target, open)
	}
	l.InProgress = append(l.InProgress, open...)
	return l, err
}

// rollBack finds the latest ends of a target of a pipeline that was rolled back, or of which
// something was done again, as its status tells them: those of revisions that were released before a rollback may come after
// it, and count then. Of the pipeline itself the success of a rollback is no end, for its
// revision does not go through; its failure is one until its stage is finished.
func (l *Latest) rollBack(ctx context.Context, log deploylog.Log) error {
	name, ok := record.NameOf(l.Target)
	if !ok || l.Succeeded == nil && l.Failed == nil {
		return nil
	}
	of, registered, rollbacks, beside := record.Target(name), map[string]int64{}, map[string]bool{}, map[string]deploylog.Target{}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: of, Name: of.Started()}) {
		if err != nil {
			return err
		}
		registered[e.Deployment] = e.Seq
		if rollback := record.RollbackOf(e); rollback != nil {
			rollbacks[e.Deployment], beside[e.Deployment] = true, rollback.Target
		}
		if redo := record.RedoOf(e); redo != nil { // it counts as what it does again
			registered[e.Deployment], rollbacks[e.Deployment], beside[e.Deployment] = registered[redo.Of], rollbacks[redo.Of], redo.Target
		}
	}
	if len(beside) == 0 {
		return nil
	}
	l.Succeeded, l.Failed = nil, nil
	rolledBack := false
	var aside []deploylog.Event
	for e, err := range log.Read(ctx, deploylog.Filter{Target: l.Target}) {
		if err != nil {
			return err
		}
		if beside[e.Deployment] != "" && l.Target == of {
			if e.Name == of.Failed() {
				aside = append(aside, e)
			}
			continue
		}
		rolledBack = rolledBack || rollbacks[e.Deployment]
		for event, into := range map[string]**deploylog.Event{l.Target.Succeeded(): &l.Succeeded, l.Target.Failed(): &l.Failed} {
			if e.Name == event && (*into == nil || rolledBack || registered[e.Deployment] >= registered[(*into).Deployment]) {
				*into = &e
			}
		}
	}
	return l.failAside(ctx, log, aside, beside)
}

// failAside lets the last failure of a deployment of one stage count that is newer than all
// others, where nothing has finished the stage since.
func (l *Latest) failAside(ctx context.Context, log deploylog.Log, failures []deploylog.Event, stages map[string]deploylog.Target) error {
	for _, e := range slices.Backward(failures) {
		if l.Failed != nil && l.Failed.Seq > e.Seq {
			return nil
		}
		finished, ever, err := log.Latest(ctx, stages[e.Deployment], deploylog.Succeeded)
		if err != nil {
			return err
		}
		if !ever || finished.Seq < e.Seq {
			l.Failed = &e
			return nil
		}
	}
	return nil
}

// retried adds what of a target of a pipeline failed in an attempt of a deployment that
// is retried now: it is in progress again, though nothing of it is started anew.
func retried(ctx context.Context, log deploylog.Log, of, target deploylog.Target, open []deploylog.Event) ([]deploylog.Event, error) {
	deployments, attempts := record.InProgress{}, map[string]int{}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: of}) {
		if err != nil {
			return nil, err
		}
		if deployments.Apply(e); e.Name == record.PipelineRetried {
			attempts[e.Deployment] = e.Attempt
		}
	}
	again := map[string]deploylog.Event{}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: target}) {
		switch {
		case err != nil:
			return nil, err
		case e.Name == target.Started() && attempts[e.Deployment] > 0 && deployments[e.Deployment]:
			again[e.Deployment] = e
		case e.Name == target.Succeeded(), e.Name == target.Failed() && e.Attempt >= attempts[e.Deployment]:
			delete(again, e.Deployment)
		}
	}
	for _, e := range open {
		delete(again, e.Deployment)
	}
	open = slices.AppendSeq(open, maps.Values(again))
	slices.SortFunc(open, func(a, b deploylog.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return open, nil
}

// unended leaves out of what was started of a target what has ended since
// without a marker of its own.
func unended(ctx context.Context, log deploylog.Log, target deploylog.Target, started []deploylog.Event) ([]deploylog.Event, error) {
	if len(started) == 0 {
		return nil, nil
	}
	if name, ok := record.NameOf(target); ok {
		return stillGoing(ctx, log, record.Target(name), started)
	}
	name, ok := envrecord.NameOf(target)
	if !ok {
		return started, nil
	}
	last := int64(0) // of the events that end what was started before
	for _, t := range slices.Compact([]deploylog.Target{target, envrecord.Target(name)}) {
		for e, err := range log.Read(ctx, deploylog.Filter{Target: t, After: started[0].Seq}) {
			if err != nil {
				return nil, err
			}
			if envrecord.Ends(e, target) {
				last = max(last, e.Seq)
			}
		}
	}
	// The newest start is such an event itself.
	return slices.DeleteFunc(started, func(e deploylog.Event) bool { return e.Seq < last }), nil
}

// stillGoing leaves what deployments of a pipeline had started that are under way,
// and what others than its scheduler did.
func stillGoing(ctx context.Context, log deploylog.Log, of deploylog.Target, started []deploylog.Event) ([]deploylog.Event, error) {
	deployments := record.InProgress{}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: of}) {
		if err != nil {
			return nil, err
		}
		deployments.Apply(e)
	}
	return slices.DeleteFunc(started, func(e deploylog.Event) bool {
		going, known := deployments[e.Deployment]
		return known && !going
	}), nil
}
