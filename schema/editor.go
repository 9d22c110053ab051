package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// errNamed says that a schema has names that would mean something else within another one.
var errNamed = errors.New("it refers to parts of itself by $id, $anchor, $dynamicRef or $recursiveRef, which only #/… can within the schema of a workspace")

// ForEditors returns the schema of manifests (JSON Schema, draft 2020-12) in which the config
// of resources of the given types is as the config_schema of these says: for editors, which
// propose and check what people write. Where a value may stand, an expression may. Of a type
// whose schema cannot be part of another one any config is accepted; left says of which, and
// why.
func ForEditors(types map[string]json.RawMessage) (text []byte, left map[string]error, err error) {
	source, err := Source("manifest")
	if err != nil {
		return nil, nil, err
	}
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the schema of manifests: %w", err)
	}
	doc, _ := read.(map[string]any)
	defs, _ := doc["$defs"].(map[string]any)
	resource, _ := defs["resource"].(map[string]any)
	left = map[string]error{}
	var cases []any
	for i, name := range slices.Sorted(maps.Keys(types)) {
		key := "config-" + strconv.Itoa(i)
		config, err := within(types[name], "#/$defs/"+key)
		if err != nil {
			left[name] = err
			continue
		}
		defs[key] = config
		cases = append(cases, map[string]any{
			"if":   map[string]any{"properties": map[string]any{"type": map[string]any{"const": name}}, "required": []any{"type"}},
			"then": map[string]any{"properties": map[string]any{"config": map[string]any{"$ref": "#/$defs/" + key}}},
		})
	}
	if len(cases) > 0 {
		resource["allOf"] = cases
	}
	doc["$id"], doc["title"] = "urn:deployster:schema:workspace", "Deployster manifest, with the types of a workspace"
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(doc); err != nil {
		return nil, nil, fmt.Errorf("writing the schema of the workspace: %w", err)
	}
	return out.Bytes(), left, nil
}

// within makes a schema a part of another one, at a place there.
func within(raw json.RawMessage, at string) (any, error) {
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("it is not one JSON document: %w", err)
	}
	doc, ok := read.(map[string]any)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	doc = withNumbers(doc)
	for _, name := range []string{"$schema", "$id", "id"} {
		delete(doc, name)
	}
	e := embedding{at: at}
	config := e.schema(doc, true)
	if e.err != nil {
		return nil, e.err
	}
	return config, nil
}

// embedding makes schemas parts of another one.
type embedding struct {
	at  string // where the outermost one is
	err error
}

// valued are the keywords whose schemas are of values within the value.
var valued = []string{"properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "items", "additionalItems", "prefixItems", "unevaluatedItems"}

// strict are the keywords below which an expression is not taken for a value: it is not known
// what comes of it.
var strict = []string{"not", "if", "contains", "propertyNames"}

// schema is a schema as a part; open is that expressions may stand for the values in it.
func (e *embedding) schema(from map[string]any, open bool) map[string]any {
	out := maps.Clone(from)
	for key, value := range from {
		place := places[key]
		inner := open && !slices.Contains(strict, key)
		child := func(v any) any {
			s := e.any(v, inner)
			if inner && slices.Contains(valued, key) {
				return orExpression(s)
			}
			return s
		}
		switch value := value.(type) {
		case string:
			out[key] = e.text(key, value)
		case map[string]any:
			switch {
			case place.one:
				out[key] = child(value)
			case place.named:
				named := make(map[string]any, len(value))
				for name, item := range value {
					named[name] = child(item)
				}
				out[key] = named
			}
		case []any:
			if place.numbered {
				numbered := make([]any, len(value))
				for i, item := range value {
					numbered[i] = child(item)
				}
				out[key] = numbered
			}
		}
	}
	if open {
		relax(out)
	}
	modernize(out)
	return out
}

// any is schema of what may also be a boolean, or a list of names.
func (e *embedding) any(v any, open bool) any {
	if object, ok := v.(map[string]any); ok {
		return e.schema(object, open)
	}
	return v
}

// text is the value of a keyword, of which references lead to the place of the schema.
func (e *embedding) text(key, value string) string {
	switch key {
	case "$ref":
		if value == "#" || strings.HasPrefix(value, "#/") {
			return e.at + strings.TrimPrefix(value, "#")
		}
		e.err = errNamed
	case "$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef":
		e.err = errNamed
	}
	return value
}

// orExpression accepts an expression where a schema would accept a value.
func orExpression(s any) any {
	if accepts, is := s.(bool); is {
		return accepts
	}
	if object, is := s.(map[string]any); is && len(object) == 0 {
		return s
	}
	return map[string]any{"anyOf": []any{s, map[string]any{"$ref": "#/$defs/template"}}}
}

// relax accepts what more than one of several schemas accepts: an expression may be each.
func relax(s map[string]any) {
	one, is := s["oneOf"]
	if !is {
		return
	}
	delete(s, "oneOf")
	if _, taken := s["anyOf"]; !taken {
		s["anyOf"] = one
		return
	}
	all, _ := s["allOf"].([]any)
	s["allOf"] = append(slices.Clip(all), map[string]any{"anyOf": one})
}

// modernize has lists of items as draft 2020-12 has them.
func modernize(s map[string]any) {
	list, is := s["items"].([]any)
	if !is {
		return
	}
	delete(s, "items")
	s["prefixItems"] = list
	if rest, is := s["additionalItems"]; is {
		s["items"] = rest
		delete(s, "additionalItems")
	}
}
