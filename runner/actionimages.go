package runner

import (
	"context"
	"errors"
	"slices"

	"github.com/deployster-go/deployster/runner/invoke"
)

// ActionImages asks the types of some resources for init, and returns by resource the images
// that these name for their own actions, and why one could not be asked. Nothing else is
// looked at or done.
func (r *Runner) ActionImages(ctx context.Context, caller Caller, resources []string) (named map[string][]string, failed map[string]error) {
	r.caller = caller
	defer r.invoker.Drain(ctx)
	named, failed = map[string][]string{}, map[string]error{}
	for _, name := range resources {
		all, err := guarded(ctx, r, r.byNode[name], "asking", r.actionImages)
		if err == nil {
			err = context.Cause(ctx)
		}
		if named[name] = all; err != nil {
			failed[name] = err
		}
		if errors.Is(err, invoke.ErrInterrupted) {
			break
		}
	}
	return named, failed
}

func (r *Runner) actionImages(ctx context.Context, res *resource) ([]string, error) {
	image, err := r.invoker.Image(ctx, res.Name, res.Type)
	if err != nil {
		return nil, err
	}
	res.target.Image = image
	if err := r.askInit(ctx, res); err != nil {
		return nil, err
	}
	all := append([]string{res.init.StateAction.Image}, res.init.ActionImages...)
	if res.init.ServeAction != nil {
		all = append(all, res.init.ServeAction.Image)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(ref string) bool { return ref == "" || ref == res.Type }), nil
}
