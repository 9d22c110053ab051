package runner

import (
	"context"
	"errors"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/runner/walk"
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
// an end to what else runs. Where a visit expands a late resource, the instances
// are visited in its place. The processes that will serve the visits are started at once:
// none has to wait for what it depends on to be started. Nodes that no resource has are passed.
func (r *Runner) walkAlong(ctx context.Context, g *graph.Graph[string], visit func(*resource) error, skipped func(*resource, report.Skip)) {
	closing := r.closing // why nothing new begins
	defer func() {
		if r.applying {
			r.closing = closing // what the Apply does next does not begin either
		}
	}()
	names, _ := g.Sort()
	for _, name := range names {
		if res := r.find(name); res != nil && closing == nil {
			r.invoker.Expect(ctx, &res.target, res.init.StateAction)
		}
	}
	walk.Walk[report.Skip]{
		Graph: g, Parallelism: r.containers.Parallelism,
		Visit: func(name string) (members []string, err error) {
			res := r.find(name)
			if res == nil {
				return nil, nil
			}
			defer r.panics.Catch(&err, "working on "+res.Name)
			r.ready(ctx, res)
			if err := visit(res); err != nil {
				return nil, err
			}
			for _, one := range res.instances {
				members = append(members, one.Name)
			}
			return members, nil
		},
		Skip: func(name string, why report.Skip) {
			if res := r.find(name); res != nil {
				skipped(res, why)
			}
		},
		// What has failed already is visited, to fail with its own reason.
		Tries: func(name string) bool {
			res := r.find(name)
			return res != nil && res.failure != nil
		},
		Closed: func() *report.Skip {
			if closing == nil && (r.containers.Stop.Requested() || ctx.Err() != nil) {
				closing = &report.Skip{Code: report.ReasonInterrupted}
			}
			return closing
		},
		Failed: func(node string, err error) *report.Skip {
			name := r.find(node).Name
			switch {
			case closing != nil:
			case errors.Is(err, failure.ErrQuit):
				closing = &report.Skip{Code: report.ReasonRunQuit, Resource: name}
			case !r.spec.KeepGoing:
				closing = &report.Skip{Code: report.ReasonRunFailed, Resource: name}
			}
			return &report.Skip{Code: report.ReasonDependencyFailed, Resource: name}
		},
	}.Run()
}
