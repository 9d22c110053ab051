package runner

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/deployster-go/deployster/runner/invoke"
)

// ActionImages asks the types of some resources for init, several at once, and returns by resource the
// images that these name for their own actions, and why one could not be asked. Nothing else is
// looked at or done.
func (r *Runner) ActionImages(ctx context.Context, caller Caller, resources []string) (named map[string][]string, failed map[string]error) {
	r.caller = caller
	defer r.invoker.Drain(ctx)
	named, failed = map[string][]string{}, map[string]error{}
	var mu sync.Mutex
	var workers sync.WaitGroup
	queue := make(chan string, len(resources))
	for _, name := range resources {
		queue <- name
	}
	close(queue)
	for range min(r.containers.Parallelism, len(resources)) {
		workers.Go(func() {
			for name := range queue {
				all, err := guarded(ctx, r, r.byNode[name], "asking", r.actionImages)
				if err == nil {
					err = context.Cause(ctx)
				}
				mu.Lock()
				if named[name] = all; err != nil {
					failed[name] = err
				}
				mu.Unlock()
				if errors.Is(err, invoke.ErrInterrupted) {
					return
				}
			}
		})
	}
	workers.Wait()
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
