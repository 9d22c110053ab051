package runner

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/runner/report"
)

// walk visits the resources in parallel, each once all it depends on have been
// visited well; skipped is called for those that are not to be visited, with the
// reason. After a visit that failed, or once the run is stopped, what is being
// visited goes on to its end and nothing new begins; with KeepGoing only what
// depends on the failure is skipped. At the end nothing of the run is left
// running.
func (r *Runner) walk(ctx context.Context, visit func(*resource) error, skipped func(*resource, report.Skip)) {
	defer r.invoker.Drain(ctx)
	g := graph.New[string]()
	for _, res := range r.declared() {
		g.Add(res.Name, res.dependsOn...)
	}
	r.walkAlong(ctx, g, visit, skipped)
}

// walkAlong is walk along other edges than those of the manifest, and without
// an end to what else runs.
func (r *Runner) walkAlong(ctx context.Context, g *graph.Graph[string], visit func(*resource) error, skipped func(*resource, report.Skip)) {
	type visited struct {
		res *resource
		err error
	}
	var (
		ready   = g.Ready()
		queue   = ready.Initial()
		done    = make(chan visited, r.containers.Parallelism)
		visits  sync.WaitGroup
		active  int
		unmet   = map[string]*report.Skip{} // resource → why it is not visited
		closing = r.closing                 // why nothing new begins
	)
	defer visits.Wait() // also when this panics: nothing goes on unseen
	defer func() {
		if r.applying {
			r.closing = closing // what the Apply does next does not begin either
		}
	}()
	finish := func(res *resource, bad *report.Skip) {
		if bad != nil {
			for _, d := range g.Dependents(res.Name) {
				if unmet[d] == nil {
					unmet[d] = bad
				}
			}
		}
		queue = append(queue, ready.Done(res.Name)...)
	}
	for len(queue) > 0 || active > 0 {
		if closing == nil && (r.containers.Stop.Requested() || ctx.Err() != nil) {
			closing = &report.Skip{Code: report.ReasonInterrupted}
		}
		if len(queue) > 0 {
			res := r.byName[queue[0]]
			// What has failed already is visited, to fail with its own reason.
			if why := cmp.Or(unmet[res.Name], closing); why != nil && res.failure == nil {
				queue = queue[1:]
				skipped(res, *why)
				finish(res, why)
				continue
			}
			if active < r.containers.Parallelism {
				queue = queue[1:]
				active++
				visits.Go(func() {
					v := visited{res: res}
					defer func() { done <- v }()
					defer r.panics.Catch(&v.err, "working on "+res.Name)
					v.err = visit(res)
				})
				continue
			}
		}
		v := <-done
		active--
		var bad *report.Skip
		if v.err != nil {
			bad = &report.Skip{Code: report.ReasonDependencyFailed, Resource: v.res.Name}
			switch {
			case closing != nil:
			case errors.Is(v.err, ErrQuit):
				closing = &report.Skip{Code: report.ReasonRunQuit, Resource: v.res.Name}
			case !r.spec.KeepGoing:
				closing = &report.Skip{Code: report.ReasonRunFailed, Resource: v.res.Name}
			}
		}
		finish(v.res, bad)
	}
}
