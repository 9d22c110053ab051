package tfplugin

import (
	"errors"
	"fmt"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Schemas is what a provider says about itself.
type Schemas struct {
	Provider    Schema
	Resources   map[string]Schema
	DataSources map[string]Schema
	PlanDestroy bool // it wants to plan what will be removed, too

	Identities map[string]IdentitySchema // of resources that the provider identifies
}

// Schema is the shape of a resource, a data source, or the configuration of a provider.
type Schema struct {
	Version int64
	Block
}

// Block is a part of a schema: attributes, and blocks within it.
type Block struct {
	Attributes  []Attribute
	Blocks      []NestedBlock
	Description string
	Deprecated  bool
}

// Attribute is a value of a block. It has a Type, or is Nested.
type Attribute struct {
	Name        string
	Type        cty.Type
	Nested      *Object
	Description string
	Required    bool
	Optional    bool
	Computed    bool // the provider says what it is, unless it is given
	Sensitive   bool
	WriteOnly   bool // it is given, and never in a state
	Deprecated  bool
}

// Object is what a nested attribute consists of.
type Object struct {
	Attributes []Attribute
	Nesting    Nesting
}

// NestedBlock is blocks within a block.
type NestedBlock struct {
	Name     string
	Block    Block
	Nesting  Nesting
	Min, Max int64
}

// Nesting is how many there are of something nested, and how they are told apart.
type Nesting int

// The kinds of Nesting. A group is a single one that is always there.
const (
	Single Nesting = iota + 1
	List
	Set
	Map
	Group
)

// Bounds of schemas.
const (
	maxNesting = 48      // of blocks and objects
	maxNodes   = 200_000 // attributes and blocks of all schemas of a provider, ten times as many as the largest has
)

// schemaReader reads schemas; the version of the protocol says which field is which.
type schemaReader struct {
	nested, writeOnly int
	nodes             int
}

func newSchemaReader(m methods) *schemaReader {
	if m.service == versions()[5].service {
		return &schemaReader{nested: -1, writeOnly: 10}
	}
	return &schemaReader{nested: 10, writeOnly: 11}
}

func (r *schemaReader) schema(data []byte) (s Schema, err error) {
	err = eachField(data, func(f field) (err error) {
		switch f.number {
		case 1:
			s.Version = f.int()
		case 2:
			s.Block, err = r.block(f.bytes, 0)
		}
		return err
	})
	return s, err
}

func (r *schemaReader) block(data []byte, depth int) (b Block, err error) {
	if err := r.count(depth); err != nil {
		return b, err
	}
	err = eachField(data, func(f field) (err error) {
		switch f.number {
		case 2:
			var a Attribute
			a, err = r.attribute(f.bytes, depth+1)
			b.Attributes = append(b.Attributes, a)
		case 3:
			var n NestedBlock
			n, err = r.nestedBlock(f.bytes, depth+1)
			b.Blocks = append(b.Blocks, n)
		case 4:
			b.Description = f.text()
		case 6:
			b.Deprecated = f.flag()
		}
		return err
	})
	return b, err
}

func (r *schemaReader) count(depth int) error {
	if r.nodes++; r.nodes > maxNodes {
		return fmt.Errorf("there are more than %d attributes", maxNodes)
	}
	if depth > maxNesting {
		return fmt.Errorf("it is nested deeper than %d levels", maxNesting)
	}
	return nil
}

func (r *schemaReader) attribute(data []byte, depth int) (a Attribute, err error) {
	if err := r.count(depth); err != nil {
		return a, err
	}
	err = eachField(data, func(f field) (err error) {
		switch f.number {
		case 1:
			a.Name = f.text()
		case 2:
			if a.Type, err = ctyjson.UnmarshalType(f.bytes); err != nil {
				err = fmt.Errorf("the type %.200q: %w", f.bytes, err)
			}
		case 3:
			a.Description = f.text()
		case 4:
			a.Required = f.flag()
		case 5:
			a.Optional = f.flag()
		case 6:
			a.Computed = f.flag()
		case 7:
			a.Sensitive = f.flag()
		case 9:
			a.Deprecated = f.flag()
		case r.nested:
			a.Nested, err = r.object(f.bytes, depth)
		case r.writeOnly:
			a.WriteOnly = f.flag()
		}
		return err
	})
	if err == nil && (a.Name == "" || a.Nested == nil && a.Type == cty.NilType) {
		err = errors.New("an attribute lacks a name or a type")
	}
	if err != nil && a.Name != "" {
		err = fmt.Errorf("%s: %w", a.Name, err)
	}
	return a, err
}

func (r *schemaReader) object(data []byte, depth int) (*Object, error) {
	o := &Object{}
	err := eachField(data, func(f field) (err error) {
		switch f.number {
		case 1:
			var a Attribute
			a, err = r.attribute(f.bytes, depth+1)
			o.Attributes = append(o.Attributes, a)
		case 3:
			o.Nesting = Nesting(f.value)
		}
		return err
	})
	if err == nil && (o.Nesting < Single || o.Nesting > Map) {
		err = fmt.Errorf("there is no nesting mode %d of attributes", o.Nesting)
	}
	return o, err
}

func (r *schemaReader) nestedBlock(data []byte, depth int) (n NestedBlock, err error) {
	err = eachField(data, func(f field) (err error) {
		switch f.number {
		case 1:
			n.Name = f.text()
		case 2:
			n.Block, err = r.block(f.bytes, depth)
		case 3:
			n.Nesting = Nesting(f.value)
		case 4:
			n.Min = f.int()
		case 5:
			n.Max = f.int()
		}
		return err
	})
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", n.Name, err)
	case n.Name == "":
		err = errors.New("a block lacks a name")
	case n.Nesting < Single || n.Nesting > Group:
		err = fmt.Errorf("%s: there is no nesting mode %d of blocks", n.Name, n.Nesting)
	}
	return n, err
}

// Type is that of the values of the block.
func (b Block) Type() cty.Type {
	types := attributeTypes(b.Attributes)
	for _, n := range b.Blocks {
		types[n.Name] = n.Type()
	}
	return cty.Object(types)
}

// Type is that of all blocks of the name.
func (n NestedBlock) Type() cty.Type { return n.Nesting.Of(n.Block.Type()) }

// ValueType is the type of the attribute's values.
func (a Attribute) ValueType() cty.Type {
	if a.Nested == nil {
		return a.Type
	}
	return a.Nested.Nesting.Of(a.Nested.Element())
}

// Element is the type of one of the objects.
func (o Object) Element() cty.Type { return cty.Object(attributeTypes(o.Attributes)) }

func attributeTypes(attributes []Attribute) map[string]cty.Type {
	types := make(map[string]cty.Type, len(attributes))
	for _, a := range attributes {
		types[a.Name] = a.ValueType()
	}
	return types
}

// Of is the type of what is nested so. Lists and maps have elements of one type each, so
// where that is not fixed, what the values are is said with them.
func (n Nesting) Of(element cty.Type) cty.Type {
	switch {
	case n == Single || n == Group:
		return element
	case element.HasDynamicTypes():
		return cty.DynamicPseudoType
	case n == List:
		return cty.List(element)
	case n == Set:
		return cty.Set(element)
	default:
		return cty.Map(element)
	}
}
