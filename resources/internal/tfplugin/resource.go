package tfplugin

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/zclconf/go-cty/cty"
	"google.golang.org/protobuf/encoding/protowire"
)

// Instance is what is known of a resource: its state, and what only the provider reads.
type Instance struct {
	State    cty.Value // null if there is none
	Private  []byte
	Identity cty.Value // NilVal if the provider says none, or it is not known
}

// Upgrade reads a state that was kept, as JSON, by whatever version of the provider.
func (p *Provider) Upgrade(ctx context.Context, resource string, version int64, state json.RawMessage) (cty.Value, Diagnostics, error) {
	t := p.Schemas.Resources[resource].Type()
	r := named(resource)
	r.message.number(2, version)
	var raw message
	raw.bytes(1, state)
	r.message.message(3, raw)
	upgraded := cty.NullVal(t)
	var said Diagnostics
	err := p.call(ctx, "UpgradeResourceState", r.message, &said, 2, func(f field) (err error) {
		if f.number == 1 {
			upgraded, err = readValue(f.bytes, t)
		}
		return err
	})
	return upgraded, said, err
}

// Read observes a resource. The state is null if it is gone.
func (p *Provider) Read(ctx context.Context, resource string, was Instance) (Instance, Diagnostics, error) {
	t := p.Schemas.Resources[resource].Type()
	r, err := named(resource).value(2, was.State, t)
	if err != nil {
		return was, nil, err
	}
	r.message.bytes(3, was.Private)
	if r, err = p.withIdentity(r, 6, resource, was.Identity); err != nil {
		return was, nil, err
	}
	now := Instance{State: cty.NullVal(t), Identity: was.Identity}
	var said Diagnostics
	err = p.call(ctx, "ReadResource", r.message, &said, 2, func(f field) (err error) {
		switch f.number {
		case 1:
			now.State, err = readValue(f.bytes, t)
		case 3:
			now.Private = f.bytes
		case 5:
			now.Identity, err = p.readIdentity(f.bytes, resource)
		}
		return err
	})
	return now, said, err
}

// Plan is what a provider would do.
type Plan struct {
	Planned Instance   // what there will be; null if it will be removed
	Replace []cty.Path // what cannot be changed of what there is
	Legacy  bool       // the provider is made with a library that answers imprecisely
}

// Plan asks what would be done to bring a resource from what there is to what is proposed.
func (p *Provider) Plan(ctx context.Context, resource string, prior Instance, proposed, config cty.Value) (Plan, Diagnostics, error) {
	t := p.Schemas.Resources[resource].Type()
	r := named(resource)
	for i, v := range map[protowire.Number]cty.Value{2: prior.State, 3: proposed, 4: config} {
		var err error
		if r, err = r.value(i, v, t); err != nil {
			return Plan{}, nil, err
		}
	}
	r.message.bytes(5, prior.Private)
	r, err := p.withIdentity(r, 8, resource, prior.Identity)
	if err != nil {
		return Plan{}, nil, err
	}
	plan := Plan{Planned: Instance{State: cty.NullVal(t)}}
	var said Diagnostics
	err = p.call(ctx, "PlanResourceChange", r.message, &said, 4, func(f field) (err error) {
		switch f.number {
		case 1:
			plan.Planned.State, err = readValue(f.bytes, t)
		case 2:
			var path cty.Path
			path, err = readPath(f.bytes)
			plan.Replace = append(plan.Replace, path)
		case 3:
			plan.Planned.Private = f.bytes
		case 5:
			plan.Legacy = f.flag()
		case 7:
			plan.Planned.Identity, err = p.readIdentity(f.bytes, resource)
		}
		return err
	})
	return plan, said, err
}

// Apply does what was planned, and returns what there is then, also where the
// diagnostics have errors. If there is an error, it is not known what there is.
func (p *Provider) Apply(ctx context.Context, resource string, prior cty.Value, planned Instance, config cty.Value) (Instance, Diagnostics, error) {
	t := p.Schemas.Resources[resource].Type()
	r := named(resource)
	for i, v := range map[protowire.Number]cty.Value{2: prior, 3: planned.State, 4: config} {
		var err error
		if r, err = r.value(i, v, t); err != nil {
			return Instance{}, nil, err
		}
	}
	r.message.bytes(5, planned.Private)
	r, err := p.withIdentity(r, 7, resource, planned.Identity)
	if err != nil {
		return Instance{}, nil, err
	}
	now := Instance{State: cty.NullVal(t)}
	var said Diagnostics
	err = p.call(ctx, "ApplyResourceChange", r.message, &said, 3, func(f field) (err error) {
		switch f.number {
		case 1:
			now.State, err = readValue(f.bytes, t)
		case 2:
			now.Private = f.bytes
		case 5:
			now.Identity, err = p.readIdentity(f.bytes, resource)
		}
		return err
	})
	return now, said, err
}

// Import finds a resource by its id, as the provider defines that.
func (p *Provider) Import(ctx context.Context, resource, id string) (Instance, Diagnostics, error) {
	t := p.Schemas.Resources[resource].Type()
	r := named(resource)
	r.message.text(2, id)
	var found Instance
	var said Diagnostics
	err := p.call(ctx, "ImportResourceState", r.message, &said, 2, func(f field) error {
		if f.number != 1 {
			return nil
		}
		var name string
		one := Instance{State: cty.NullVal(t)}
		var state []byte
		if err := eachField(f.bytes, func(f field) (err error) {
			switch f.number {
			case 1:
				name = f.text()
			case 2:
				state = f.bytes
			case 3:
				one.Private = f.bytes
			case 4:
				one.Identity, err = p.readIdentity(f.bytes, resource)
			}
			return err
		}); err != nil || name != resource {
			return err // others are imported along with it by some
		}
		if found.State != cty.NilVal {
			return fmt.Errorf("there are several %s with the id %q", resource, id)
		}
		var err error
		one.State, err = readValue(state, t)
		found = one
		return err
	})
	if found.State == cty.NilVal {
		found.State = cty.NullVal(t)
	}
	return found, said, err
}

// ReadData reads a data source.
func (p *Provider) ReadData(ctx context.Context, source string, config cty.Value) (cty.Value, Diagnostics, error) {
	t := p.Schemas.DataSources[source].Type()
	r, err := named(source).value(2, config, t)
	if err != nil {
		return config, nil, err
	}
	state := cty.NullVal(t)
	var said Diagnostics
	err = p.call(ctx, "ReadDataSource", r.message, &said, 2, func(f field) (err error) {
		if f.number == 1 {
			state, err = readValue(f.bytes, t)
		}
		return err
	})
	return state, said, err
}
