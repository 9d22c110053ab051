package terraform

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/deployster-go/deployster/resources/internal/tfplugin"
)

// object is one of JSON.
type object = map[string]any

// maxDescribed is how large a schema may be that still has descriptions: those of some
// resources are larger than what may be a schema of Deployster.
const maxDescribed = 512 << 10

// draft is the one of JSON Schema that the schemas are of.
const draft = "https://json-schema.org/draft/2020-12/schema"

// providerKey is where the configuration of a resource has that of its provider. No
// resource has an attribute of that name, which Terraform reserves.
const providerKey = "provider"

// configSchema is the schema of the configurations of a resource.
func configSchema(provider, resource tfplugin.Block) (json.RawMessage, error) {
	return described(func(descriptions bool) object {
		w := schemaWriter{descriptions: descriptions, defs: object{}, names: map[string]string{}}
		schema := w.block(resource)
		properties, _ := schema["properties"].(object)
		of := w.block(provider)
		of["type"] = "object"
		of["description"] = "configuration of the provider"
		properties[providerKey] = of
		return w.finish(schema)
	})
}

// stateSchema is the schema of the states of a resource, which says what in them is
// secret.
func stateSchema(resource tfplugin.Block) (json.RawMessage, error) {
	return described(func(descriptions bool) object {
		w := schemaWriter{state: true, descriptions: descriptions, defs: object{}, names: map[string]string{}}
		return w.finish(w.block(resource))
	})
}

// described is a schema with descriptions, unless that would be too large.
func described(write func(descriptions bool) object) (json.RawMessage, error) {
	text, err := json.Marshal(write(true))
	if err == nil && len(text) > maxDescribed {
		text, err = json.Marshal(write(false))
	}
	return text, err
}

// schemaWriter writes a JSON Schema. Blocks that are alike are written once, since some
// providers nest the same ones again and again.
type schemaWriter struct {
	state        bool // what a provider answers, instead of what it is given
	descriptions bool
	defs         object
	names        map[string]string // of the definitions, by their text
}

func (w *schemaWriter) finish(schema object) object {
	schema["$schema"], schema["type"] = draft, "object"
	if len(w.defs) > 0 {
		schema["$defs"] = w.defs
	}
	return schema
}

// block is the schema of objects that are such a block. It leaves open whether there is
// an object at all.
func (w *schemaWriter) block(b tfplugin.Block) object {
	schema := w.attributes(b.Attributes)
	properties, _ := schema["properties"].(object)
	required, _ := schema["required"].([]string)
	for _, n := range b.Blocks {
		property := w.nested(n.Nesting, w.block(n.Block), n.Min, n.Max)
		w.describe(property, n.Block.Description, n.Block.Deprecated)
		properties[n.Name] = property
		if !w.state && n.Min > 0 {
			required = append(required, n.Name)
		}
	}
	if slices.Sort(required); len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

func (w *schemaWriter) attributes(attributes []tfplugin.Attribute) object {
	properties := object{}
	var required []string
	for _, a := range attributes {
		if !w.state && !a.Required && !a.Optional || w.state && a.WriteOnly {
			continue // it is never given, or never answered
		}
		property := w.attribute(a)
		if a.Sensitive || a.WriteOnly {
			property["writeOnly"] = true
		}
		w.describe(property, a.Description, a.Deprecated)
		properties[a.Name] = property
		if !w.state && a.Required {
			required = append(required, a.Name)
		}
	}
	schema := object{"properties": properties}
	if !w.state {
		schema["additionalProperties"] = false
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

func (w *schemaWriter) describe(schema object, description string, deprecated bool) {
	if w.descriptions && description != "" {
		schema["description"] = description
	}
	if deprecated && !w.state {
		schema["deprecated"] = true
	}
}

func (w *schemaWriter) attribute(a tfplugin.Attribute) object {
	var schema object
	if a.Nested != nil {
		schema = w.nested(a.Nested.Nesting, w.attributes(a.Nested.Attributes), 0, 0)
	} else {
		schema = w.value(a.Type)
	}
	if kinds, ok := schema["type"].([]string); ok && !a.Required {
		schema["type"] = append(kinds, "null")
	}
	return schema
}

// nested is the schema of what there may be several of. Where there is one element it
// may stand for the list that has only it, as in Terraform.
func (w *schemaWriter) nested(n tfplugin.Nesting, element object, atLeast, atMost int64) object {
	ref := w.define(element)
	switch n {
	case tfplugin.Single, tfplugin.Group:
		return object{"type": []string{"object"}, "$ref": ref}
	case tfplugin.Map:
		return object{"type": []string{"object"}, "additionalProperties": object{"type": "object", "$ref": ref}}
	default:
		schema := object{"type": []string{"array", "object"}, "$ref": ref, "items": object{"type": "object", "$ref": ref}}
		if atLeast > 0 && !w.state {
			schema["minItems"] = atLeast
		}
		if atMost > 0 && !w.state {
			schema["maxItems"] = atMost
		}
		return schema
	}
}

// define makes a schema a definition, and returns the reference to it.
func (w *schemaWriter) define(schema object) string {
	text, err := json.Marshal(schema)
	if err != nil {
		return "" // it is made of what can be encoded
	}
	name, known := w.names[string(text)]
	if !known {
		name = fmt.Sprintf("block%d", len(w.names)+1)
		w.names[string(text)], w.defs[name] = name, schema
	}
	return "#/$defs/" + name
}

// value is the schema of values of a type. Texts, numbers and booleans are taken for one
// another as Terraform does.
func (w *schemaWriter) value(t cty.Type) object {
	kinds := func(state string, given ...string) object {
		if w.state {
			return object{"type": []string{state}}
		}
		return object{"type": given}
	}
	switch {
	case t == cty.String:
		return kinds("string", "string", "number", "boolean")
	case t == cty.Number:
		schema := kinds("number", "number", "string")
		if !w.state {
			schema["pattern"] = `^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`
		}
		return schema
	case t == cty.Bool:
		schema := kinds("boolean", "boolean", "string")
		if !w.state {
			schema["pattern"] = `^(true|false|1|0)$`
		}
		return schema
	case t.IsListType() || t.IsSetType():
		return object{"type": []string{"array"}, "items": w.value(t.ElementType())}
	case t.IsMapType():
		return object{"type": []string{"object"}, "additionalProperties": w.value(t.ElementType())}
	case t.IsTupleType():
		var items []any
		for _, e := range t.TupleElementTypes() {
			items = append(items, w.value(e))
		}
		if len(items) == 0 {
			return object{"type": []string{"array"}, "maxItems": 0}
		}
		return object{"type": []string{"array"}, "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
	case t.IsObjectType():
		return w.objectOf(t)
	default: // any
		return object{}
	}
}

func (w *schemaWriter) objectOf(t cty.Type) object {
	properties := object{}
	var required []string
	types := t.AttributeTypes()
	for _, name := range slices.Sorted(maps.Keys(types)) {
		property := w.value(types[name])
		optional := t.AttributeOptional(name)
		if kinds, ok := property["type"].([]string); ok {
			property["type"] = append(kinds, "null")
		}
		properties[name] = property
		if !optional {
			required = append(required, name)
		}
	}
	schema := object{"type": []string{"object"}, "properties": properties}
	if w.state {
		return schema
	}
	schema["additionalProperties"] = false
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}
