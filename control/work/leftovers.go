package work

import (
	"context"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// recordsStep has a run of a step record what it makes on its host.
func (r *Run) recordsStep(s step.Step) {
	r.Control.Step, r.Control.Moved = runs.Step{Target: s.Target, Event: s.Event}, r.Whole.Renamed
	if s.Keeps {
		r.Caller.Details[runs.DetailKeeps] = "true"
	}
	if s.Prunes != nil {
		r.Caller.Details[runs.DetailSteps] = runs.Steps(visit(s).Steps())
	}
	// Links are not followed: what is removed is removed by the path that it was made by.
	r.Spec.Thing = func(m *manifest.Manifest, res *manifest.Resource, config map[string]any) runner.Thing {
		key, name, value := shipped.Check{Manifest: m}.Thing(res, config)
		return runner.Thing{Key: key, Name: name, Value: value}
	}
}

// visit is what a deployment did on the host of its last step there.
func visit(last step.Step) runs.Visit {
	v := runs.Visit{Last: runs.Step{Target: last.Target, Event: last.Event}, RollsBack: last.Prunes.RollsBack}
	for _, event := range last.Prunes.Done {
		v.Done = append(v.Done, runs.Step{Target: last.Target, Event: event})
	}
	for _, event := range last.Prunes.LeftOut {
		v.LeftOut = append(v.LeftOut, runs.Step{Target: last.Target, Event: event})
	}
	for _, other := range last.Prunes.Elsewhere {
		v.Elsewhere = append(v.Elsewhere, runs.Step(other))
	}
	return v
}

// prune removes what steps made on the host of a last step there and none of them declares any more. It
// notes in the step what it removed, and what it could not remove.
func (w *StepWorker) prune(ctx context.Context, s step.Step, artifacts map[string]string, on *Connection) error {
	if s.Prunes == nil {
		return nil
	}
	host, err := w.pasts.Host(ctx, s.Host)
	if err != nil {
		return err
	}
	left := host.Leftovers(visit(s))
	if len(left) == 0 {
		return nil
	}
	run, err := w.prepareStep(s, artifacts, on)
	if err != nil {
		return err
	}
	run.Removes([]string{}) // nothing of the manifest, which is applied
	run.Spec.Prune, run.Spec.Undeclared = true, w.removable(ctx, run, left, s.Prunes)
	if len(run.Spec.Undeclared) == 0 {
		return nil
	}
	_, end, err := w.hold(ctx, run, string(run.Control.Target))
	if err != nil {
		return err
	}
	defer end()
	if _, err := runner.New(run.Spec, run.Containers).Destroy(ctx, run.Caller); err != nil {
		var names []string
		for _, u := range run.Spec.Undeclared {
			names = append(names, invoke.Placed(u.Name, s.Host))
		}
		return fmt.Errorf("removing what no step declares any more (to leave it there: deployster state forget %s): %w", strings.Join(names, " "), err)
	}
	for _, u := range run.Spec.Undeclared {
		s.Prunes.Removed = append(s.Prunes.Removed, u.Name)
	}
	w.kept.Add(string(run.Control.Target), run.Work)
	return nil
}

// mostLeft is how many resources that cannot be removed an event names.
const mostLeft = 20

// removable finds out how to remove what is left of steps, and notes what nobody knows how to remove.
func (w *StepWorker) removable(ctx context.Context, run *Run, left []runs.StepMade, found *deployment.Pruning) (list []report.Undeclared) {
	found.Left = nil
	for _, m := range left {
		u, err := m.Open(ctx, w.Log, run.Control.Protected)
		if err == nil {
			list = append(list, u)
			continue
		}
		if len(found.Left) < mostLeft {
			name := invoke.Placed(m.Name, run.Control.Place)
			found.Left = append(found.Left, fmt.Sprintf("%s: %v; remove it by hand, then: deployster state forget %s", m.Name, err, name))
		}
	}
	return list
}
