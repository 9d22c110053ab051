package tfplugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"google.golang.org/protobuf/encoding/protowire"
)

// IdentitySchema is the shape of what a provider identifies resources of one type by, whichever configuration or
// manifest they are of.
type IdentitySchema struct {
	Version int64
	Type    cty.Type // an object
}

// identities asks for the identity schemas. Providers made before version 5.10 or 6.10 of the protocol have none.
func (p *Provider) identities(ctx context.Context) (map[string]IdentitySchema, error) {
	all := map[string]IdentitySchema{}
	var said Diagnostics
	err := p.call(ctx, "GetResourceIdentitySchemas", nil, &said, 2, func(f field) error {
		if f.number != 1 {
			return nil
		}
		var name string
		var s IdentitySchema
		err := eachField(f.bytes, func(f field) (err error) {
			switch f.number {
			case 1:
				name = f.text()
			case 2:
				s, err = readIdentitySchema(f.bytes)
			}
			return err
		})
		all[name] = s
		return err
	})
	var status *statusError
	if errors.As(err, &status) && status.code == unimplemented {
		return nil, nil
	}
	if err == nil {
		err = said.Errors()
	}
	return all, err
}

func readIdentitySchema(data []byte) (s IdentitySchema, err error) {
	types := map[string]cty.Type{}
	err = eachField(data, func(f field) error {
		switch f.number {
		case 1:
			s.Version = f.int()
		case 2:
			name, t := "", cty.NilType
			if err := eachField(f.bytes, func(f field) (err error) {
				switch f.number {
				case 1:
					name = f.text()
				case 2:
					t, err = ctyjson.UnmarshalType(f.bytes)
				}
				return err
			}); err != nil || name == "" || t == cty.NilType {
				return errors.Join(err, fmt.Errorf("the attribute %q of an identity lacks a name or a type", name))
			}
			types[name] = t
		}
		return nil
	})
	s.Type = cty.Object(types)
	return s, err
}

// Identity reads an identity that was kept, as JSON, by whatever version of the provider. One that the provider
// cannot read any more is none: it says another one when the resource is observed.
func (p *Provider) Identity(ctx context.Context, resource string, version int64, identity json.RawMessage) cty.Value {
	s, has := p.Schemas.Identities[resource]
	if !has || len(identity) == 0 {
		return cty.NilVal
	}
	if version == s.Version {
		v, err := ctyjson.Unmarshal(identity, s.Type)
		if err != nil {
			return cty.NilVal
		}
		return v
	}
	r := named(resource)
	r.message.number(2, version)
	var raw message
	raw.bytes(1, identity)
	r.message.message(3, raw)
	v := cty.NilVal
	var said Diagnostics
	err := p.call(ctx, "UpgradeResourceIdentity", r.message, &said, 2, func(f field) (err error) {
		if f.number == 1 {
			v, err = p.readIdentity(f.bytes, resource)
		}
		return err
	})
	if err != nil || said.Errors() != nil {
		return cty.NilVal
	}
	return v
}

// withIdentity adds what is known of the identity of a resource.
func (p *Provider) withIdentity(r request, number protowire.Number, resource string, identity cty.Value) (request, error) {
	s, has := p.Schemas.Identities[resource]
	if !has || identity == cty.NilVal {
		return r, nil
	}
	data, err := request{}.value(1, identity, s.Type)
	if err != nil {
		return r, err
	}
	r.message.message(number, data.message)
	return r, nil
}

// readIdentity reads the identity of a resource. Types without a schema of it have none.
func (p *Provider) readIdentity(data []byte, resource string) (v cty.Value, err error) {
	s, has := p.Schemas.Identities[resource]
	if !has {
		return cty.NilVal, nil
	}
	err = eachField(data, func(f field) (err error) {
		if f.number == 1 {
			v, err = readValue(f.bytes, s.Type)
		}
		return err
	})
	if err != nil || v == cty.NilVal || v.IsNull() {
		return cty.NilVal, err
	}
	return v, nil
}
