package runner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/protocol"
)

// A survey resolves configurations without bringing anything about. Unlike a
// walk it does not wait for dependencies to be verified: what a configuration
// needs of another resource is a state, and one that is STALE has a state, too.

// sight is what a survey found of a resource.
type sight struct {
	resolved bool                  // its configuration is known
	answer   *protocol.StateOutput // nil where it was not asked
	lacks    []string              // the resources without a state because of which its configuration is not known
	drifted  []string              // the resources whose states it needs and that are not as configured, where err came of that
	err      error                 // why its configuration or state is not known
	skipped  *skip                 // why it was not looked at
}

// needs returns the dependencies whose states the configuration of a resource
// refers to.
func (r *Runner) needs(res *resource) []string {
	var names []string
	for _, alias := range slices.Sorted(maps.Keys(res.Dependencies)) {
		// What can not be read is told when it is resolved.
		if reads, err := r.spec.Expressions.Reads(any(res.Config), alias); reads || err != nil {
			names = append(names, res.Dependencies[alias])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// survey resolves the configurations of all resources, and asks those for their
// state that ask names. It goes on whatever it finds.
func (r *Runner) survey(ctx context.Context, needs map[string][]string, ask func(*resource) bool, seen func(*resource, sight)) map[string]sight {
	g := graph.New[string]()
	taking := map[string]bool{}
	for _, res := range r.resources {
		g.Add(res.Name)
		taking[res.Name] = true
		res.state, res.stale, res.ensure, res.refused = nil, false, protocol.Present, nil
	}
	for _, res := range r.resources {
		for _, d := range res.dependsOn {
			// Expressions are given the states of all dependencies, needed or not.
			if taking[d] && len(needs[res.Name]) > 0 {
				g.Add(res.Name, d)
			}
		}
	}
	var mu sync.Mutex
	sights := make(map[string]sight, len(r.resources))
	found := func(res *resource, s sight) {
		mu.Lock()
		sights[res.Name] = s
		mu.Unlock()
		if seen != nil {
			seen(res, s)
		}
	}
	r.walkAlong(ctx, g, func(res *resource) error {
		s, err := guarded(ctx, r, res, "looking at", func(ctx context.Context, res *resource) (sight, error) {
			return r.look(ctx, res, needs[res.Name], ask(res)), nil
		})
		if err != nil {
			s.err = err
		}
		found(res, s)
		return nil
	}, func(res *resource, why skip) {
		found(res, sight{skipped: &why})
	})
	return sights
}

// look is the survey of one resource; those it needs have had theirs.
func (r *Runner) look(ctx context.Context, res *resource, needs []string, ask bool) sight {
	var s sight
	for _, d := range needs {
		if r.byName[d].state == nil {
			s.lacks = append(s.lacks, d)
		}
	}
	if len(s.lacks) > 0 {
		return s
	}
	s.err = r.resolve(res)
	s.resolved = s.err == nil
	if !s.resolved {
		for _, d := range needs {
			if r.byName[d].stale {
				s.drifted = append(s.drifted, d)
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

// refuse notes, and tells, why a resource is not to be touched.
func (r *Runner) refuse(ctx context.Context, res *resource, why error) {
	res.refused = errors.Join(why, r.emit(ctx, failed(res, why)))
}
