package tfplugin

import (
	"context"
	"fmt"
	"time"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"github.com/zclconf/go-cty/cty/msgpack"
	"google.golang.org/protobuf/encoding/protowire"
)

// Provider is a provider that runs. Its calls may be made at the same time.
type Provider struct {
	process *process
	Schemas Schemas
}

// Start starts the program of a provider and asks it for its schemas. env is its whole
// environment, to which Start adds what the handshake needs. The provider outlives ctx.
func Start(ctx context.Context, program string, env []string, now time.Time) (*Provider, error) {
	process, err := start(ctx, program, env, now)
	if err != nil {
		return nil, err
	}
	p := &Provider{process: process}
	if p.Schemas, err = p.schemas(ctx); err == nil {
		p.Schemas.Identities, err = p.identities(ctx)
	}
	if err != nil {
		process.close()
		return nil, fmt.Errorf("asking the provider for its schemas: %w", err)
	}
	return p, nil
}

// Close ends the provider's process.
func (p *Provider) Close() { p.process.close() }

// Dead reports whether the provider's process has ended.
func (p *Provider) Dead() bool { return p.process.dead() }

// Stop asks the provider to end what it is doing soon.
func (p *Provider) Stop(ctx context.Context) error {
	_, err := p.process.call(ctx, p.process.names.stop, nil)
	return err
}

func (p *Provider) schemas(ctx context.Context) (s Schemas, err error) {
	s.Resources, s.DataSources = map[string]Schema{}, map[string]Schema{}
	r := newSchemaReader(p.process.names)
	var said Diagnostics
	err = p.call(ctx, p.process.names.schema, nil, &said, 4, func(f field) (err error) {
		switch f.number {
		case 1:
			s.Provider, err = r.schema(f.bytes)
		case 2:
			err = r.named(f.bytes, s.Resources)
		case 3:
			err = r.named(f.bytes, s.DataSources)
		case 6:
			err = eachField(f.bytes, func(f field) error {
				if f.number == 1 {
					s.PlanDestroy = f.flag()
				}
				return nil
			})
		}
		return err
	})
	if err == nil {
		err = said.Errors()
	}
	return s, err
}

// named reads an entry of a map of schemas.
func (r *schemaReader) named(data []byte, into map[string]Schema) error {
	var name string
	var s Schema
	err := eachField(data, func(f field) (err error) {
		switch f.number {
		case 1:
			name = f.text()
		case 2:
			s, err = r.schema(f.bytes)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the schema of %s: %w", name, err)
	}
	into[name] = s
	return nil
}

// ValidateProvider checks a configuration of the provider, and returns it as it is to be
// given to Configure.
func (p *Provider) ValidateProvider(ctx context.Context, config cty.Value) (cty.Value, Diagnostics, error) {
	var said Diagnostics
	r, err := request{}.value(1, config, p.Schemas.Provider.Type())
	if err != nil {
		return config, nil, err
	}
	err = p.call(ctx, p.process.names.validateProvider, r.message, &said, 2, func(f field) (err error) {
		if f.number == 1 && p.process.names.service == versions()[5].service {
			config, err = readValue(f.bytes, p.Schemas.Provider.Type())
		}
		return err
	})
	return config, said, err
}

// Configure gives the provider its configuration, once.
func (p *Provider) Configure(ctx context.Context, config cty.Value) (Diagnostics, error) {
	var said Diagnostics
	var r request
	r.message.text(1, terraformVersion)
	r, err := r.value(2, config, p.Schemas.Provider.Type())
	if err != nil {
		return nil, err
	}
	r.message.message(3, capabilities())
	err = p.call(ctx, p.process.names.configure, r.message, &said, 1, nil)
	return said, err
}

// Validate checks the configuration of a resource.
func (p *Provider) Validate(ctx context.Context, resource string, config cty.Value) (Diagnostics, error) {
	return p.validate(ctx, p.process.names.validate, resource, p.Schemas.Resources[resource], config)
}

// ValidateData checks the configuration of a data source.
func (p *Provider) ValidateData(ctx context.Context, source string, config cty.Value) (Diagnostics, error) {
	return p.validate(ctx, p.process.names.validateData, source, p.Schemas.DataSources[source], config)
}

func (p *Provider) validate(ctx context.Context, method, name string, s Schema, config cty.Value) (Diagnostics, error) {
	var said Diagnostics
	r, err := named(name).value(2, config, s.Type())
	if err != nil {
		return nil, err
	}
	r.message.message(3, capabilities())
	err = p.call(ctx, method, r.message, &said, 1, nil)
	return said, err
}

// capabilities say what we can do with answers: take write-only attributes.
func capabilities() message {
	var m message
	m.number(2, 1)
	return m
}

// call makes a call, and reads the answer: its diagnostics are field number diagnostics,
// all other fields are for read, which may be nil.
func (p *Provider) call(ctx context.Context, method string, r message, said *Diagnostics, diagnostics int, read func(field) error) error {
	answer, err := p.process.call(ctx, method, r)
	if err != nil {
		return err
	}
	err = eachField(answer, func(f field) error {
		if f.number == diagnostics {
			d, err := readDiagnostic(f.bytes)
			*said = append(*said, d)
			return err
		}
		if read == nil {
			return nil
		}
		return read(f)
	})
	if err != nil {
		return fmt.Errorf("the answer of the provider to %s: %w", method, err)
	}
	return nil
}

// request is one that is being written.
type request struct{ message message }

func named(resource string) request {
	var r request
	r.message.text(1, resource)
	return r
}

// value adds a value of a type.
func (r request) value(number protowire.Number, v cty.Value, t cty.Type) (request, error) {
	text, err := msgpack.Marshal(v, t)
	if err != nil {
		return r, fmt.Errorf("encoding a value for the provider: %w", err)
	}
	var m message
	m.bytes(1, text)
	r.message.message(number, m)
	return r, nil
}

// readValue reads a value of a type.
func readValue(data []byte, t cty.Type) (v cty.Value, err error) {
	v = cty.NullVal(t)
	err = eachField(data, func(f field) (err error) {
		switch f.number {
		case 1:
			v, err = msgpack.Unmarshal(f.bytes, t)
		case 2:
			v, err = ctyjson.Unmarshal(f.bytes, t)
		}
		return err
	})
	if err != nil {
		return v, fmt.Errorf("a value that does not fit its schema: %w", err)
	}
	return v, nil
}
