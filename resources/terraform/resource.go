package terraform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/deployster-go/deployster/resources/internal/tfplugin"
)

// resource is one resource at its provider, for one request.
type resource struct {
	name     string // as the provider calls it
	schema   tfplugin.Schema
	provider *tfplugin.Provider
	own      any // configuration of the provider
	warn     func(string)
}

// found is what is known of it: what there is, if anything, and whether that was made
// completely.
type found struct {
	tfplugin.Instance
	tainted bool
	settled string // see settlement
}

func (f found) there() bool { return !f.State.IsNull() }

// look reads what was kept, and observes what there is now.
func (r *resource) look(ctx context.Context, m *memory) (found, error) {
	var identity cty.Value
	if m != nil {
		identity = r.provider.Identity(ctx, r.name, m.IdentityOf, m.Identity)
	}
	was, err := recall(r.schema, m, func(version int64, state json.RawMessage) (cty.Value, error) {
		upgraded, said, err := r.provider.Upgrade(ctx, r.name, version, state)
		return upgraded, failed(said, err, r.warn)
	})
	if err != nil {
		return found{}, fmt.Errorf("reading what was kept of it: %w", err)
	}
	was.Identity = identity
	if was.State.IsNull() {
		return found{Instance: was}, nil
	}
	now, err := r.read(ctx, was)
	return found{now, m.Tainted, m.Settled}, err
}

func (r *resource) read(ctx context.Context, was tfplugin.Instance) (tfplugin.Instance, error) {
	now, said, err := r.provider.Read(ctx, r.name, was)
	if err := failed(said, err, r.warn); err != nil {
		return now, fmt.Errorf("observing it: %w", err)
	}
	if !now.State.IsWhollyKnown() {
		return now, errors.New("observing it: the provider answered something that is not known, which is an error in the provider")
	}
	return now, nil
}

// adopt finds what exists with an id, of which nothing was kept.
func (r *resource) adopt(ctx context.Context, id string) (found, error) {
	imported, said, err := r.provider.Import(ctx, r.name, id)
	if err := failed(said, err, r.warn); err != nil {
		return found{}, fmt.Errorf("looking for %s: %w", id, err)
	}
	if imported.State.IsNull() {
		return found{}, fmt.Errorf("looking for %s: there is none", id)
	}
	now, err := r.read(ctx, imported)
	if err == nil && now.State.IsNull() {
		err = fmt.Errorf("looking for %s: there is none", id)
	}
	return found{Instance: now}, err
}

// configuration is the one that a request has, checked by the provider.
func (r *resource) configuration(ctx context.Context, config any) (cty.Value, error) {
	value, err := blockValue(r.schema.Block, config, nil)
	if err != nil {
		return cty.NilVal, inConfig(err)
	}
	said, err := r.provider.Validate(ctx, r.name, value)
	if err := failed(said, err, r.warn); err != nil {
		return cty.NilVal, fmt.Errorf("the configuration: %w", err)
	}
	return value, nil
}

// inConfig says where in a configuration something is wrong.
func inConfig(err error) error {
	var at cty.PathError
	if errors.As(err, &at) && len(at.Path) > 0 {
		return fmt.Errorf("config.%s: %w", tfplugin.PathText(at.Path), err)
	}
	return fmt.Errorf("config: %w", err)
}

// plan asks what would be done to bring the resource from what there is to a
// configuration.
func (r *resource) plan(ctx context.Context, prior tfplugin.Instance, config cty.Value) (tfplugin.Plan, error) {
	plan, said, err := r.provider.Plan(ctx, r.name, prior, proposed(r.schema.Block, prior.State, config), config)
	if err := failed(said, err, r.warn); err != nil {
		return plan, fmt.Errorf("planning: %w", err)
	}
	if !plan.Legacy {
		if err := checkPlan(r.schema.Block, prior.State, config, plan.Planned.State); err != nil {
			return plan, fmt.Errorf("planning: %w", err)
		}
	}
	return plan, nil
}

// change is what is to be done with a resource, once it is planned.
type change struct {
	kind    string // create, update, replace, or "" if it is as configured
	legacy  bool   // the provider plans imprecisely
	planned cty.Value
	because string // of a replacement: what cannot be changed
}

// Kinds of changes.
const (
	createKind  = "create"
	updateKind  = "update"
	replaceKind = "replace"
	destroyKind = "destroy"
)

// change plans, and says what that comes to.
func (r *resource) change(ctx context.Context, now found, config cty.Value) (change, error) {
	plan, err := r.plan(ctx, now.Instance, config)
	if err != nil {
		return change{}, err
	}
	c := change{planned: plan.Planned.State, legacy: plan.Legacy}
	switch {
	case !now.there():
		c.kind = createKind
		return c, nil
	case now.tainted:
		c.kind, c.because = replaceKind, "it was not made completely"
	case plan.Planned.State.RawEquals(now.State):
		return c, nil
	default:
		c.because = strings.Join(replaced(now.State, plan), ", ")
		if c.kind = updateKind; c.because == "" {
			return c, nil
		}
		c.kind, c.because = replaceKind, c.because+" cannot be changed in place"
	}
	// What there will be after a replacement is planned as if there were nothing.
	plan, err = r.plan(ctx, tfplugin.Instance{State: cty.NullVal(r.schema.Type())}, config)
	c.planned = plan.Planned.State
	return c, err
}

// replaced are those paths that cannot be changed in place, and do change.
func replaced(was cty.Value, plan tfplugin.Plan) (paths []string) {
	for _, path := range plan.Replace {
		old, err1 := path.Apply(was)
		wanted, err2 := path.Apply(plan.Planned.State)
		if err1 != nil || err2 != nil || !old.RawEquals(wanted) {
			paths = append(paths, tfplugin.PathText(path))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// apply does what is planned now, from what there is to a configuration; config is null
// to remove it. What there is then is returned also with an error, where that is known.
func (r *resource) apply(ctx context.Context, now found, config cty.Value) (found, error) {
	planned := tfplugin.Instance{State: cty.NullVal(r.schema.Type()), Private: now.Private}
	legacy := true
	if !config.IsNull() {
		plan, err := r.plan(ctx, now.Instance, config)
		if err != nil {
			return now, err
		}
		planned, legacy = plan.Planned, plan.Legacy
	} else if r.provider.Schemas.PlanDestroy {
		plan, said, err := r.provider.Plan(ctx, r.name, now.Instance, config, config)
		if err := failed(said, err, r.warn); err != nil {
			return now, fmt.Errorf("planning: %w", err)
		}
		planned = plan.Planned
		if !planned.State.IsNull() {
			return now, errors.New("planning: the provider planned to have something that is to be removed, which is an error in the provider")
		}
	}
	// A provider that is asked to stop still says what it has done; a call that is given
	// up would leave something behind that nobody knows of.
	going, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = r.provider.Stop(going) })()
	after, said, err := r.provider.Apply(going, r.name, now.State, planned, config)
	if err != nil {
		return now, err
	}
	return r.applied(now, after, planned.State, failed(said, nil, r.warn), legacy)
}

// applied says what there is after something was applied, and whether that is what was
// planned.
func (r *resource) applied(was found, after tfplugin.Instance, planned cty.Value, failure error, legacy bool) (found, error) {
	state, all := known(after.State)
	now := found{Instance: tfplugin.Instance{State: state, Private: after.Private, Identity: after.Identity}, tainted: was.tainted}
	if failure != nil {
		// What was begun is not what was wanted: it is replaced by the next run.
		now.tainted = was.tainted || !was.there() && now.there()
		return now, failure
	}
	if !all {
		return now, errors.New("the provider answered something that is not known after it was applied, which is an error in the provider")
	}
	if legacy {
		return now, nil
	}
	return now, checkApplied(planned, state)
}

// null is no resource.
func (r *resource) null() cty.Value { return cty.NullVal(r.schema.Type()) }
