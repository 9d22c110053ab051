package promotions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// deploy has an environment deployed with a revision. What it began it finds again in the log,
// so that doing it twice deploys once: also where that was recorded while this was under way.
func (c *Controller) deploy(ctx context.Context, pipeline string, s promotion.Step, variable string) (begun promotion.Begun, err error) {
	if err := c.commands.Follow(ctx, 0); err != nil {
		return begun, err
	}
	if begun, err = c.find(s); err != nil || begun.Deployment != "" {
		return begun, err
	}
	if err := c.tries.Follow(ctx, 0); err != nil {
		return begun, err
	}
	bound := c.bound(pipeline, s, variable)
	revision, err := c.revise(ctx, s, variable, bound)
	if err != nil {
		return begun, fmt.Errorf("environment %s: setting task.vars.%s: %w", s.Environment, variable, err)
	}
	hosts, err := c.Selected(revision.Definition.InstanceGroup.Query)
	if err == nil {
		err = c.command(ctx, pipeline, s, variable, environment.Deploy{
			Revision: revision.Number, Hosts: hosts, Inventory: c.Identity(), By: string(s.Target),
			Reason: fmt.Sprintf("promotion of revision %s, try %d", s.Revision, s.Attempt), Step: s.Key(),
		})
	}
	if err != nil && !errors.Is(err, errBegun) {
		return begun, fmt.Errorf("environment %s: deploying revision %d: %w", s.Environment, revision.Number, err)
	}
	return c.find(s)
}

// errBegun is that a try has deployed already.
var errBegun = errors.New("it has deployed already")

// command records the deployment of a try, unless one is recorded by then, or something that
// was recorded since it was decided forbids it: that is looked at while nothing else changes.
func (c *Controller) command(ctx context.Context, pipeline string, s promotion.Step, variable string, d environment.Deploy) error {
	return c.tries.Hold(ctx, func() error {
		p, err := c.tries.Find(pipeline)
		if err != nil {
			return err
		}
		_, err = c.commands.CommandIf(ctx, s.Environment, d, func(e *environment.State) error {
			seen := observe(e, variable)
			if _, begun := seen.Begun[s.Key()]; begun {
				return errBegun
			}
			return p.Forbids(s, seen)
		})
		return err
	})
}

// find is the deployment that a try began, without an ID if there is none.
func (c *Controller) find(s promotion.Step) (begun promotion.Begun, err error) {
	err = c.commands.Ask(s.Environment, func(state *environment.State) error {
		for _, d := range slices.Backward(state.Deployments()) {
			if d.Step == s.Key() {
				begun = promotion.Begun{Deployment: d.ID, Event: d.Seq, Revision: d.Revision}
				return nil
			}
		}
		return nil
	})
	return begun, err
}

// revise returns the newest revision of the environment if it has the variable as it is to
// be, or makes one of it that has.
// With bound, that may bring no more than the environment names and allows.
func (c *Controller) revise(ctx context.Context, s promotion.Step, variable string, bound bool) (r report.Revision, err error) {
	_, err = c.commands.Change(ctx, s.Environment, false, func(state *environment.State) ([]deploylog.Event, error) {
		if !state.Exists() {
			return nil, errors.New("it was deleted")
		}
		all := state.Revisions()
		r = all[len(all)-1]
		if promotion.TextOf(r.Definition.Task.Vars[variable]) == s.Revision {
			return nil, nil
		}
		d, vars := *r.Definition, maps.Clone(r.Definition.Task.Vars)
		if vars == nil {
			vars = map[string]any{}
		}
		vars[variable] = valueOf(s)
		d.Task.Vars = vars
		r = report.Revision{Number: len(all) + 1, Definition: &d}
		return state.Propose(environment.Update{Base: len(all), Definition: &d, Bound: bound || state.StaysBound(variable), By: string(s.Target)}, c.Now())
	})
	return r, err
}

// bound reports whether the revision came to an environment of the pipeline by who may bring no more than that names and
// allows: so it is for the next one.
func (c *Controller) bound(pipeline string, s promotion.Step, variable string) (bound bool) {
	var others []string
	if err := c.tries.Ask(pipeline, func(p *promotion.State) error {
		if d := p.Definition(); d != nil {
			for i := range d.Stages {
				others = append(others, d.Stages[i].Environment)
			}
		}
		return nil
	}); err != nil {
		return true
	}
	for _, name := range others {
		if name == "" || name == s.Environment {
			continue
		}
		_ = c.commands.Ask(name, func(state *environment.State) error { // one that there is not has brought nothing
			for _, r := range state.Revisions() {
				bound = bound || r.Bound && promotion.TextOf(r.Definition.Task.Vars[variable]) == s.Revision
			}
			return nil
		})
	}
	return bound
}

// valueOf is the revision as the environment before has it, which may be a number.
func valueOf(s promotion.Step) any {
	if s.Value != nil && promotion.TextOf(s.Value) == s.Revision {
		return s.Value
	}
	return s.Revision
}
