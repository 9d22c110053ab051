package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/outputs"
	"github.com/deployster-go/deployster/runner/report"
)

// Apply brings every resource to its configuration, in dependency order, and
// records each step before it relies on it. What is to be made again it removes
// before, and what is no longer declared, if it is to, when all the rest is done. It fails with a *manifest.Error
// when it refused before touching anything, with ErrInterrupted when it was
// stopped, and with a *failure.Error when resources failed.
func (r *Runner) Apply(ctx context.Context, caller Caller) (*report.Result, error) {
	r.caller, r.closing, r.outputs = caller, nil, report.Outputs{}
	return r.execute(ctx, func() []*resource { return r.resources }, r.prepareApply, report.Skip{Code: report.ReasonRunRefused}, func(ctx context.Context) error {
		if err := r.applyAll(ctx); err != nil {
			return err
		}
		var err error
		r.outputs, err = outputs.Of(r.spec.Manifest, r.scope(), r.secrets)
		return err
	})
}

// execute runs an operation on resources and records it from its start to its end.
// Where prepare refuses, the resources that it did not refuse are skipped, with the
// reason untried.
func (r *Runner) execute(ctx context.Context, resources func() []*resource, prepare func(context.Context) error, untried report.Skip,
	run func(context.Context) error,
) (*report.Result, error) {
	started := r.now()
	result := &report.Result{Run: r.containers.Run, Resources: []report.ResourceResult{}}
	r.forgetInstances()
	for _, res := range resources() {
		res.result = nil
	}
	r.applying = true
	if err := r.begin(ctx); err != nil {
		return result, err
	}
	err := r.panics.Try("preparing the run", func() error { return prepare(ctx) })
	if err == nil {
		err = r.panics.Try("walking the resources", func() error { return run(ctx) })
	} else {
		for _, res := range resources() {
			entry := res.entry()
			if res.refused != nil {
				entry.Status, entry.Reason, entry.Error = report.Failed, failure.Reason(res.refused), r.secrets.Mask(res.refused.Error())
				continue
			}
			entry.Status, entry.Reason, entry.Error = report.Skipped, untried.Code, untried.Error()
			err = errors.Join(err, r.emit(ctx, skipped(res, untried)))
		}
	}
	err = r.panics.Join(err)
	for _, one := range each(resources()) {
		res := *one.entry()
		result.Resources = append(result.Resources, res)
		if res.Status == report.Destroyed && untried.Code != report.ReasonRemovalRefused { // of a Destroy all are Changed
			result.Counts.Removed++
			continue
		}
		result.Counts.Add(res.Status)
	}
	if excess := r.invoker.Excess(); excess != "" {
		r.notify(report.Warning, "", "", excess)
	}
	result.Duration = r.now().Sub(started)
	end := report.Event{Kind: report.RunFinished, Counts: result.Counts, Duration: result.Duration, Outputs: r.outputs}
	end.Outputs.Reads = nil // said at the start
	if err != nil {
		end.Kind, end.Error, end.Outputs = report.RunFailed, err.Error(), report.Outputs{}
		if errors.Is(err, ErrInterrupted) {
			end.Data = map[string]string{"interrupted": "true"}
		}
	}
	// A run whose recorder failed ends with that failure.
	if recording := r.emit(ctx, end); recording != nil {
		err = recording
	}
	return result, err
}

// begin records the start and, where a Plan came first, what it prepared.
func (r *Runner) begin(ctx context.Context) error {
	if err := r.emit(ctx, report.Event{Kind: report.RunStarted, Resources: r.headers(), Data: r.caller.Details, Outputs: report.Outputs{Reads: r.outputs.Reads}}); err != nil {
		return err
	}
	if !r.prepared {
		return nil
	}
	for _, res := range r.resources {
		if res.unprepared {
			continue
		}
		if err := r.emit(ctx, res.initialized); err != nil {
			return err
		}
	}
	return nil
}

// prepareApply does all that may refuse an Apply before anything is touched.
func (r *Runner) prepareApply(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	return r.refuseRemovals(ctx)
}

func (r *Runner) applyAll(ctx context.Context) error {
	r.mention(r.listUndeclared())
	if err := r.removeReplaced(ctx); err != nil {
		return err
	}
	err := r.visitEach(ctx, r.walk, r.applyOne)
	if !r.shown {
		r.warnUnmatched(false)
	}
	if !r.spec.Prune {
		r.mention(r.gone())
	}
	r.orphanGone()
	r.addReplaced()
	if len(r.orphans) == 0 {
		return err
	}
	return errors.Join(err, r.prune(ctx, err))
}

// walker visits resources, as Runner.walk does.
type walker func(ctx context.Context, visit func(*resource) error, skipped func(*resource, report.Skip))

// visitEach runs an operation on every resource of a walk, and records its result.
func (r *Runner) visitEach(ctx context.Context, walk walker,
	run func(context.Context, *resource) (report.Status, error),
) error {
	var failures failure.Several
	end := func(res *resource, status report.Status, why error, took time.Duration) {
		entry := res.entry()
		entry.Status, entry.Duration = status, took
		if why != nil {
			entry.Reason, entry.Error = failure.Reason(why), r.secrets.Mask(why.Error())
		}
	}
	walk(ctx, func(res *resource) error {
		started := r.now()
		if res.Late != nil && res.failure == nil {
			if _, res.failure = guarded(ctx, r, res, "expanding", r.expandNow); res.failure == nil {
				return nil
			}
		}
		status, err := guarded(ctx, r, res, "working on", run)
		took := r.now().Sub(started)
		if why := (report.Skip{}); errors.As(err, &why) {
			end(res, report.Skipped, why, took)
			return r.emit(ctx, skipped(res, why))
		}
		if err == nil {
			err = r.emit(ctx, lasted(res.having(report.ResourceFinished, status), took))
		} else {
			err = errors.Join(err, r.emit(ctx, lasted(failed(res, err), took)))
		}
		if err != nil {
			end(res, report.Failed, err, took)
			failures.Add(fmt.Errorf("%s: %w", res.Name, err))
			return err
		}
		end(res, status, nil, took)
		return nil
	}, func(res *resource, why report.Skip) {
		end(res, report.Skipped, why, 0)
		if err := r.emit(ctx, skipped(res, why)); err != nil {
			failures.Add(err)
		}
	})
	return r.verdict(ctx, &failures)
}

// entry is the result for a resource.
func (res *resource) entry() *report.ResourceResult {
	if res.result == nil {
		res.result = &report.ResourceResult{Name: res.Name, Type: res.Type, Status: report.Pending}
	}
	return res.result
}

// applyOne brings one resource to its configuration.
func (r *Runner) applyOne(ctx context.Context, res *resource) (report.Status, error) {
	if res.failure != nil {
		return report.Failed, res.failure
	}
	leave, err := r.enter(ctx, res)
	if err != nil {
		return report.Failed, err
	}
	defer leave()
	if !res.begun {
		if err := r.emit(ctx, res.event(report.ResourceStarted)); err != nil {
			return report.Failed, err
		}
	}
	if err := r.resolve(res); err != nil {
		return report.Failed, err
	}
	out, leaveThings, err := r.observeEntered(ctx, res)
	if err != nil {
		return report.Failed, err
	}
	defer leaveThings()
	resolved := res.having(report.ResourceResolved, report.Status(out.Status))
	if resolved.Attempt = res.attempt(); out.Status == protocol.Valid {
		resolved = resolved.With(r.made(res))
		resolved.Took = res.took
	}
	for _, a := range out.Actions {
		resolved.Actions = append(resolved.Actions, a.Name)
	}
	if out.StaleState != nil { // of what does not exist everything differs
		resolved.Differs = diff.Lines(r.differs(res, out))
	}
	if err := r.emit(ctx, resolved); err != nil {
		return report.Failed, err
	}
	if err := r.bound(res, &out); err != nil {
		return report.Failed, err
	}
	if out, err = r.observeAgain(ctx, res, out); err != nil {
		return report.Failed, err
	}
	if out.Status == protocol.Valid {
		res.state = out.State
		return report.Unchanged, nil
	}
	return r.change(ctx, res, out)
}

// change brings one resource, which is not as configured, to its configuration.
func (r *Runner) change(ctx context.Context, res *resource, out protocol.StateOutput) (report.Status, error) {
	defer res.target.Discard()
	if !res.begun { // else it is a replacement that removed it, and has to make it again
		if err := r.invoker.MayBegin(); err != nil {
			return report.Failed, err
		}
	}
	if err := r.runActions(ctx, res, out); err != nil {
		return report.Failed, err
	}
	return report.Changed, r.verify(ctx, res)
}

// enter waits until this run may work on a resource.
func (r *Runner) enter(ctx context.Context, res *resource) (leave func(), err error) {
	if r.caller.Guard == nil {
		return func() {}, nil
	}
	entering, cancel := r.containers.Stop.Context(ctx)
	defer cancel()
	leave, err = r.caller.Guard.Enter(entering, res.Name, func(text string) { r.notify(report.Waiting, res.Name, "", text) })
	if err != nil {
		return nil, r.containers.Stop.Interrupted(ctx, fmt.Errorf("waiting for its turn: %w", err))
	}
	return leave, nil
}
