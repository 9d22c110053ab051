package runner

import (
	"context"
	"errors"
	"sync"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/report"
)

// A survey resolves configurations without bringing anything about. Unlike a
// walk it does not wait for dependencies to be verified: what a configuration
// needs of another resource is a state, and one that is STALE has a state, too.

// finding is what a survey found of a resource.
type finding struct {
	resolved bool                  // its configuration is known
	answer   *protocol.StateOutput // nil where it was not asked
	lacks    []string              // the resources without a state because of which its configuration is not known
	drifted  []string              // the resources whose states it needs and that are not as configured, where err came of that
	err      error                 // why its configuration or state is not known
	skipped  *report.Skip          // why it was not looked at
}

// needs returns the dependencies whose states the configuration of a resource
// refers to.
func (r *Runner) needs(res *resource) []string {
	var written any = res.Config
	if res.Late != nil {
		written = append(res.Decides(), res.Config)
	}
	names, err := res.Needs(written, r.spec.Expressions)
	if err != nil {
		return res.dependsOn // what cannot be read is reported when it is resolved
	}
	return names
}

// survey resolves the configurations of resources, and asks those for their
// state that ask names. It goes on whatever it finds.
func (r *Runner) survey(ctx context.Context, resources []*resource, needs map[string][]string, ask func(*resource) bool, seen func(*resource, finding)) map[string]finding {
	g := graph.New[string]()
	taking := map[string]bool{}
	for _, res := range resources {
		g.Add(res.node())
		taking[res.node()] = true
		res.state, res.stale, res.ensure, res.refused = nil, false, protocol.Present, nil
	}
	for _, res := range resources {
		for _, d := range res.dependsOn {
			// Expressions are given the states of all dependencies, needed or not.
			if taking[d] && len(needs[res.node()]) > 0 {
				g.Add(res.node(), d)
			}
		}
	}
	var mu sync.Mutex
	findings := make(map[string]finding, len(resources))
	found := func(res *resource, s finding) {
		mu.Lock()
		findings[res.node()] = s
		mu.Unlock()
		if seen != nil && !res.expanded {
			seen(res, s)
		}
	}
	r.walkAlong(ctx, g, func(res *resource) error {
		s, err := guarded(ctx, r, res, "looking at", func(ctx context.Context, res *resource) (finding, error) {
			return r.look(ctx, res, needs[res.node()], ask(res)), nil
		})
		if err != nil {
			s.err = err
		}
		found(res, s)
		return nil
	}, func(res *resource, why report.Skip) {
		found(res, finding{skipped: &why})
	})
	return findings
}

// look is inspect of any resource.
func (r *Runner) look(ctx context.Context, res *resource, needs []string, ask bool) finding {
	switch {
	case res.failure != nil:
		return finding{err: res.failure}
	case res.Late != nil:
		return r.inspectLate(ctx, res)
	case res.of != nil:
		needs = r.needs(res)
	}
	return r.inspect(ctx, res, needs, ask)
}

// inspect is the survey of one resource; those it needs have had theirs.
func (r *Runner) inspect(ctx context.Context, res *resource, needs []string, ask bool) finding {
	var s finding
	s.lacks = r.without(needs)
	if len(s.lacks) > 0 {
		return s
	}
	s.err = r.resolve(res)
	s.resolved = s.err == nil
	if !s.resolved {
		for _, d := range needs {
			for _, d := range r.behind(d) {
				if d.stale {
					s.drifted = append(s.drifted, d.Name)
				}
			}
		}
	}
	if !s.resolved || !ask {
		return s
	}
	var leave func()
	if leave, s.err = r.enter(ctx, res); s.err != nil {
		return s
	}
	defer leave()
	if s.err = r.recall(ctx, res); s.err != nil {
		return s
	}
	out, err := r.observe(ctx, res)
	if err != nil {
		s.err = err
		return s
	}
	s.answer = &out
	res.state, res.stale = out.StaleState, true
	if out.Status == protocol.Valid {
		res.state, res.stale = out.State, false
	}
	return s
}

// refuse marks a resource as not to be touched, and records why.
func (r *Runner) refuse(ctx context.Context, res *resource, why error) {
	res.refused = errors.Join(why, r.emit(ctx, failed(res, why)))
}
