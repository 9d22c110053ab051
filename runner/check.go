package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/report"
)

// Accepted reports whether the types of a manifest accept it, as far as that can be known
// without what is there: they answer init, have their plugs, and configurations that wait for
// no state are as their schemas say. It warns of paths to ignore that a schema forbids. Nothing is asked for its state, touched or recorded.
func (r *Runner) Accepted(ctx context.Context, caller Caller) (err error) {
	r.caller = caller
	defer r.panics.Catch(&err, "asking the types")
	defer r.invoker.Drain(ctx)
	if err = r.prepare(ctx); err == nil {
		r.warnUnmatched(true)
	}
	return err
}

// Check reports why an Apply could not succeed, as far as that can be known without
// changing anything: what Plan fails on, but for resources that are read-only and not as
// configured. They may be once something else is gone.
func (r *Runner) Check(ctx context.Context, caller Caller) error {
	r.spec.KeepGoing = true // what is not counted must not hide what is
	plan, err := r.Plan(ctx, caller)
	var failed *failure.Error
	if plan == nil || err == nil || !errors.As(err, &failed) {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(failed.Causes), func(cause error) bool { return errors.Is(cause, failure.ErrReadOnly) })
	if len(others) == 0 {
		return nil
	}
	var causes []error
	for _, p := range plan.Resources {
		if p.Status == report.Failed && !p.ReadOnly {
			causes = append(causes, fmt.Errorf("%s: %s", p.Name, p.Error))
		}
	}
	if len(causes) == 0 {
		return err
	}
	return &failure.Error{Causes: causes}
}
