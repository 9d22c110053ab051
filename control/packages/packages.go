// Package packages builds the groups of packages that stages of pipelines want. A revision
// has a build group of its own, which carries what the revision does; the stage ends with
// the group, and later stages get the artifacts of its packages.
package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/deployster-go/deployster/build"
	buildrecord "github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/runner"
)

// Submission is the group that a revision carries for a stage.
type Submission func(ctx context.Context, s step.Step) (build.Submit, error)

// Stages is a pipelines.Worker that builds groups, where stages say so. All other work is
// another's. What it began it finds again in the log, so doing its work twice builds once.
type Stages struct {
	pipelines.Options
	builds     *builds.Builds
	submission Submission
	control    func()          // is called when a group is waited for
	life       context.Context //nolint:containedctx // of the scheduler, for what outlasts a step
}

// Schedule runs a scheduler of pipelines, by run, whose stages may build groups, and beside it
// a dispatcher from when one of them does. That works off all groups, as any does, so it goes
// on until the scheduler ends: nobody else could go on with what it has begun.
func Schedule(ctx context.Context, o pipelines.Options, dispatch builds.Options, submission Submission, run func(context.Context, pipelines.Options) error) error {
	scope := reconcile.Only()
	over := make(chan struct{})
	dispatch.Scope, dispatch.Drain, dispatch.UntilIdle = scope, over, false
	return reconcile.Beside(ctx, "dispatching build groups", over, builds.NewController(dispatch).Run, func(ctx context.Context) error {
		o.Worker = newStages(ctx, o, submission, sync.OnceFunc(func() { scope.Add(buildrecord.Entity) }))
		return run(ctx, o)
	})
}

// Worker is the Stages of a scheduler that ends with ctx, beside which somebody dispatches
// the jobs of all groups.
func Worker(ctx context.Context, o pipelines.Options, submission Submission) *Stages {
	return newStages(ctx, o, submission, func() {})
}

func newStages(ctx context.Context, o pipelines.Options, submission Submission, control func()) *Stages {
	return &Stages{Options: o, builds: builds.New(o.Log, o.Now), submission: submission, life: ctx, control: control}
}

// Work implements pipelines.Worker. It returns when the group has ended, and cancels it when
// its stage took too long, or waits for it no more.
func (p *Stages) Work(ctx context.Context, s step.Step, artifacts map[string]string, wanted func() error) (map[string]string, error) {
	if s.Packages == "" {
		return p.Worker.Work(ctx, s, artifacts, wanted)
	}
	id, err := p.group(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("build group of %s: %w", s.Packages, err)
	}
	p.control()
	waiting, cancel := p.Drain.Context(ctx)
	defer cancel()
	if err := p.wait(waiting, id); err != nil || waiting.Err() != nil {
		return nil, p.stop(ctx, s, id, err)
	}
	return p.artifacts(id, s.Artifacts)
}

// Settle implements pipelines.Worker. The group of a stage that nobody waits for any more is
// canceled.
func (p *Stages) Settle(ctx context.Context, w step.Work) error {
	if w.Event != record.StageBuilt {
		return p.Worker.Settle(ctx, w)
	}
	if err := p.builds.Follow(ctx, 0); err != nil {
		return err
	}
	g, found := p.find(w.Deployment, w.Target)
	if !found || g.State.Ended() {
		return nil
	}
	return p.cancel(ctx, g.ID, string(w.Target), "its stage waits for it no more")
}

// stepOf is what a group, or its retry, is known again by: the step that wants it.
func stepOf(s step.Step) string { return fmt.Sprintf("%s/%s/%d", s.Deployment, s.Target, s.Attempt) }

// find returns the newest group of a stage of a deployment.
func (p *Stages) find(deployment string, stage deploylog.Target) (g build.Summary, found bool) {
	_ = p.builds.State(func(s *build.State) error {
		for _, known := range slices.Backward(s.Groups()) {
			if from := known.Pipeline; from != nil && from.Deployment == deployment && from.Target == stage {
				g, found = known, true
				return nil
			}
		}
		return nil
	})
	return g, found
}

// group returns the id of the group of a step. One that has ended otherwise than well is
// retried once for each attempt of the deployment.
func (p *Stages) group(ctx context.Context, s step.Step) (id string, err error) {
	if err := p.builds.Follow(ctx, 0); err != nil {
		return "", err
	}
	name, _ := record.NameOf(s.Target)
	g, found := p.find(s.Deployment, s.Target)
	switch {
	case !found:
		submit, err := p.submission(ctx, s)
		if err != nil {
			return "", err
		}
		submit.By = string(s.Target)
		submit.Pipeline = &buildrecord.From{Pipeline: name, Stage: s.Stage, Revision: s.Revision, Deployment: s.Deployment, Target: s.Target, Step: stepOf(s)}
		events, err := p.builds.Command(ctx, submit)
		if err != nil {
			return "", err
		}
		return events[0].Deployment, nil
	case g.State.Ended() && g.State != transition.Complete && g.Pipeline.Step != stepOf(s):
		_, err := p.builds.Command(ctx, build.Retry{Group: g.ID, By: string(s.Target), Step: stepOf(s)})
		return g.ID, err
	}
	return g.ID, nil
}

// wait waits until a group has ended, and fails unless it is complete.
func (p *Stages) wait(ctx context.Context, id string) error {
	for {
		if err := p.builds.Follow(ctx, 0); err != nil {
			return err
		}
		report, seen, err := p.report(id)
		switch {
		case err != nil:
			return err
		case report.State == transition.Complete:
			return nil
		case report.State.Ended():
			return &endedError{id, report}
		}
		if err := p.moves(ctx, id, seen); err != nil {
			return err
		}
	}
}

// endedError is why a stage fails: its group did.
type endedError struct {
	id     string
	report build.Report
}

func (e *endedError) Error() string {
	return fmt.Sprintf("build group %s: %s: %s; deployster build status %s shows its jobs", e.id, e.report.State, cmp.Or(e.report.Cause, "some of its jobs failed"), e.id)
}

// report is how far a group is, as of an event.
func (p *Stages) report(id string) (r build.Report, seen int64, err error) {
	err = p.builds.State(func(s *build.State) (err error) {
		seen = s.Head()
		r, err = s.Report(id)
		return err
	})
	return r, seen, err
}

// moves waits for an event, after one, with which a group may have ended.
func (p *Stages) moves(ctx context.Context, id string, seen int64) error {
	for e, err := range p.Log.Watch(ctx, deploylog.Filter{Target: buildrecord.Group(id), After: seen}) {
		if err != nil {
			return fmt.Errorf("watching build group %s: %w", id, err)
		}
		switch e.Name {
		case buildrecord.GroupFinished, buildrecord.GroupFailed, buildrecord.GroupCanceled:
			return nil
		}
	}
	return cmp.Or(context.Cause(ctx), error(runner.ErrInterrupted))
}

// stop is what Work fails with whose wait has failed. Unless this process is to end, what the
// stage does not wait for any more is canceled, and waited for.
func (p *Stages) stop(ctx context.Context, s step.Step, id string, failed error) error {
	var ended *endedError
	switch {
	case errors.As(failed, &ended):
		return failed
	case p.life.Err() != nil || ctx.Err() == nil:
		return errors.Join(runner.ErrInterrupted, failed)
	}
	why := "its stage took too long"
	if errors.Is(context.Cause(ctx), pipelines.ErrGivenUp) {
		why = "its stage waits for it no more"
	}
	return errors.Join(failed, p.cancel(p.life, id, string(s.Target), why))
}

// cancel cancels a group, unless it has ended, and waits until nothing of it runs any more.
// Where nobody dispatches yet, that begins afterwards: it would begin jobs only to end them.
func (p *Stages) cancel(ctx context.Context, id, by, why string) error {
	g, _, err := p.report(id)
	if err != nil || g.State.Ended() {
		return err
	}
	if g.State != transition.Canceling {
		if _, err := p.builds.Command(ctx, build.Cancel{Group: id, By: by, Reason: why}); err != nil {
			return err
		}
	}
	p.control()
	var ended *endedError
	if err := p.wait(ctx, id); !errors.As(err, &ended) {
		return err
	}
	return nil
}

// artifacts are references to what a group has built last of some of its packages; none are
// all.
func (p *Stages) artifacts(id string, names []string) (made map[string]string, err error) {
	all := map[string]string{}
	err = p.builds.State(func(s *build.State) error {
		jobs, err := s.Jobs(id)
		for _, j := range jobs {
			if j.Finished != nil {
				all[j.Package] = cmp.Or(j.Finished.Pushed, j.Finished.Artifact)
			}
		}
		return err
	})
	if err != nil || len(names) == 0 {
		return all, err
	}
	made = map[string]string{}
	for _, name := range names {
		ref, built := all[name]
		if !built {
			return nil, fmt.Errorf("build group %s has no package %s, whose artifact the stage is to give to later ones", id, name)
		}
		made[name] = ref
	}
	return made, nil
}
