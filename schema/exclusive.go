package schema

import (
	"maps"
	"slices"
)

// withNumbers returns a schema in which exclusiveMaximum and exclusiveMinimum are
// numbers. In draft 04 they are true or false and say how maximum and minimum are
// meant. No later draft gives that another meaning, so whoever writes it there
// means the same, and what else the schema has can be of a later draft.
func withNumbers(doc map[string]any) map[string]any {
	out := maps.Clone(doc)
	exclude(out, "maximum", "exclusiveMaximum")
	exclude(out, "minimum", "exclusiveMinimum")
	for key, value := range out {
		place := places[key]
		switch value := value.(type) {
		case map[string]any:
			if place.one {
				out[key] = withNumbers(value)
			}
			if place.named {
				named := maps.Clone(value)
				for name, item := range named {
					named[name] = ofSchema(item)
				}
				out[key] = named
			}
		case []any:
			if place.numbered {
				numbered := slices.Clone(value)
				for i, item := range numbered {
					numbered[i] = ofSchema(item)
				}
				out[key] = numbered
			}
		}
	}
	return out
}

// ofSchema is withNumbers of what may also be a boolean, or be wrong.
func ofSchema(v any) any {
	if object, ok := v.(map[string]any); ok {
		return withNumbers(object)
	}
	return v
}

// exclude replaces an exclusive that is true or false. Without the bound that it
// is about it stays, and is refused.
func exclude(schema map[string]any, bound, exclusive string) {
	excluded, isBool := schema[exclusive].(bool)
	value, there := schema[bound]
	switch {
	case !isBool || !there:
	case excluded:
		schema[exclusive] = value
		delete(schema, bound)
	default:
		delete(schema, exclusive)
	}
}
