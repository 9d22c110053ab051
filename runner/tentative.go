package runner

import (
	"context"
	"errors"
	"slices"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/partial"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/schema"
)

// planTentatively fills in what can be seen of a resource before those are applied that it
// depends on (entry.After): its configuration, as far as it is known, and what its type says
// of it as things are now. It is no more than that: nothing fails of it, and an Apply is
// bound to none of it.
func (r *Runner) planTentatively(ctx context.Context, res *resource, entry *report.ResourcePlan) error {
	config, ok := res.config, res.final
	if !ok {
		config, ok = r.configuredPartly(res, entry.After)
	}
	if !ok {
		return nil
	}
	entry.Config, entry.Diff = config, diff.Of(nil, config, res.target.Secret)
	if len(protocol.UnknownPaths(config)) > 0 && !res.init.AcceptsUnknown {
		return nil
	}
	out, err := r.observeTentatively(ctx, res, config)
	entry.Replaces = res.replaced
	switch {
	case errors.Is(err, ErrInterrupted) || ctx.Err() != nil, failure.Reason(err) == report.ReasonPrevented, failure.Reason(err) == report.ReasonOwned:
		return err
	case err != nil:
		return nil //nolint:nilerr // it may be asked only once those are there that it depends on
	}
	have := out.StaleState
	if entry.Tentative = report.Status(out.Status); out.Status == protocol.Valid {
		have = out.State
	}
	entry.Exists = have != nil
	entry.Diff = slices.DeleteFunc(diff.Of(have, config, res.target.Secret), func(c diff.Change) bool {
		// What is as configured differs in nothing but what is not known yet.
		return out.Status == protocol.Valid && len(protocol.UnknownPaths(c.New)) == 0
	})
	if entry.Actions = slices.Clone(out.Actions); out.Status != protocol.Valid || len(protocol.UnknownPaths(config)) == 0 {
		res.foresee(out) // else it may become another
	}
	return nil
}

// observeTentatively asks for a state with a configuration that may not be the last word.
func (r *Runner) observeTentatively(ctx context.Context, res *resource, config map[string]any) (protocol.StateOutput, error) {
	before := res.config
	res.config = config
	defer func() { res.config = before }()
	return r.observeOwned(ctx, res)
}

// foresee notes what the state of a resource will be, as far as its type says so.
func (res *resource) foresee(out protocol.StateOutput) {
	if res.foreseen = out.PlannedState; out.Status == protocol.Valid {
		res.foreseen = out.State
	}
}

// configuredPartly resolves a configuration that waits for resources which are not applied
// yet. A text that depends on what is not known of their states is protocol.Unknown as a
// whole. ok is false where the configuration cannot be resolved.
func (r *Runner) configuredPartly(res *resource, after []string) (config map[string]any, ok bool) {
	if res.undeclared != nil || r.spec.Configure != nil {
		return nil, false
	}
	resolved, err := r.partly(res, after).Resolve(any(res.Config))
	if err != nil {
		return nil, false // its error is one of the run once it is known
	}
	if config, _ = resolved.(map[string]any); config == nil {
		config = map[string]any{}
	}
	if res.schema != nil {
		config = res.Fit(config, r.scope(), func(config map[string]any) []schema.Violation {
			return res.schema.ValidatePartly(protocol.ReplaceUnknown(config, nil), protocol.UnknownPaths(config))
		})
		known := protocol.ReplaceUnknown(config, nil)
		res.target.Secret = res.schema.Secrets(known)
		r.secrets.Add(known, res.target.Secret)
		if len(res.schema.ValidatePartly(known, protocol.UnknownPaths(config))) > 0 {
			return nil, false
		}
	}
	return config, true
}

// partly resolves what waits for resources that are not applied yet.
func (r *Runner) partly(res *resource, after []string) partial.Resolver {
	return partial.Resolver{
		Waits: func(text string) (bool, error) {
			needs, err := res.Needs(text, r.spec.Expressions)
			return slices.ContainsFunc(needs, func(name string) bool { return slices.Contains(after, name) }), err
		},
		Known: func(text string) (any, error) { return res.Resolve(text, r.scope()) },
		Tried: func(text string, instead any) (any, error) { return r.tried(res, text, after, instead) },
	}
}

// tried resolves a text with something in the place of what is not known of states. It fails where
// that reads what a module is given and may not be shown, as that is then not known.
func (r *Runner) tried(res *resource, text string, after []string, instead any) (any, error) {
	scope, secret := r.scope(), false
	scope.Hide = func(any) { secret = true }
	scope.State = func(name string) any { return r.foreseen(name, after, instead) }
	value, err := res.Resolve(text, scope)
	if err == nil && secret {
		err = errSecret
	}
	return value, err
}

var errSecret = errors.New("it reads what may not be shown, and is not known")

// foreseen is what expressions see of a resource that may not be applied yet: where its state is
// not known it is something else instead.
func (r *Runner) foreseen(name string, after []string, instead any) any {
	if !slices.Contains(after, name) {
		return r.seen(name)
	}
	d, state := r.find(name), instead
	switch {
	case d.Late != nil && !d.expanded:
		return instead
	case d.Late != nil:
		return d.byKey(func(name string) any { return r.foreseen(name, append(slices.Clip(after), name), instead) })
	}
	if d.foreseen != nil {
		state = protocol.ReplaceUnknown(d.foreseen, instead)
	}
	return map[string]any{"name": d.Name, "type": d.Type, "state": state}
}
