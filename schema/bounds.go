package schema

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
)

// The bounds of a config_schema. They are far above what describes a
// configuration, and hold before anything is compiled: the time to compile
// grows with the products of some of them.
const (
	maxSource   = 1 << 20   // bytes
	maxDepth    = 100       // objects and lists within each other
	maxParts    = 20_000    // objects and booleans: each may be a schema
	maxIDs      = 1_000     // "$id" and "id"
	maxCopies   = 4_000_000 // parts, times references to what is not at the place of a schema
	maxPatterns = 1_000_000 // instructions of all regular expressions, see Patterns
)

// maxConstants is how many of a schema's constants are tried in place of a value
// that is not known yet.
const maxConstants = 50

// Depth is how deep the arrays and objects of a JSON text are nested. It is asked
// before anything recursive reads the text.
func Depth(raw []byte) int {
	deepest, now := 0, 0
	for quoted, i := false, 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// inspection is what is counted of a schema before it is compiled.
type inspection struct {
	draft      draft
	parts, ids int
	odd        map[string]bool // references to what is not at the place of a schema
}

// inspect refuses what would take too long to compile, and what would be
// compiled, but not in the sense in which it was meant.
func inspect(doc map[string]any, as draft) error {
	in := inspection{draft: as, odd: map[string]bool{}}
	if err := in.value(doc, true); err != nil {
		return err
	}
	switch {
	case in.parts > maxParts:
		return fmt.Errorf("the schema has %d parts (objects and booleans), at most %d are possible", in.parts, maxParts)
	case in.ids > maxIDs:
		return fmt.Errorf("the schema has %d identifiers ($id), at most %d are possible", in.ids, maxIDs)
	case len(in.odd)*in.parts > maxCopies:
		return fmt.Errorf("the schema has %d references to what is not at the place of a schema; with its %d parts at most %d are possible: move what they mean to $defs or definitions",
			len(in.odd), in.parts, maxCopies/in.parts)
	}
	return nil
}

func (in *inspection) value(v any, top bool) error {
	switch v := v.(type) {
	case map[string]any:
		if err := in.object(v, top); err != nil {
			return err
		}
		for _, item := range v {
			if err := in.value(item, false); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := in.value(item, false); err != nil {
				return err
			}
		}
	case bool:
		in.parts++
	case json.Number:
		if odd := oddNumber(v); odd != "" {
			return fmt.Errorf("the number %s %s", phrase.Cut(v.String(), 20), odd)
		}
	}
	return nil
}

// object inspects an object without what is in it.
func (in *inspection) object(v map[string]any, top bool) error {
	in.parts++
	if named, nested := v["$schema"].(string); nested && !top {
		if d, ok, err := draftOf(v); err != nil || !ok || d.url != in.draft.url {
			return fmt.Errorf("$schema %q within the schema, which is of %s: another draft is only possible for the whole, at its top", phrase.Cut(named, 80), in.draft.name)
		}
	}
	ref, refers := v["$ref"].(string)
	if _, secret := v["writeOnly"].(bool); secret && refers && in.draft.refStandsAlone() {
		return fmt.Errorf("writeOnly beside $ref is ignored in %s, so the secret would be shown; put the $ref into an allOf or use draft 2020-12: %q", in.draft.name, phrase.Cut(ref, 80))
	}
	for _, key := range []string{"$id", "id"} {
		if _, ok := v[key].(string); ok {
			in.ids++
		}
	}
	for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if ref, ok := v[key].(string); ok && in.isOdd(ref) {
			in.odd[ref] = true
		}
	}
	return nil
}

// places are the keywords below which there are schemas: one, several by name,
// or several by number.
var places = map[string]struct{ one, named, numbered bool }{
	"definitions": {named: true}, "properties": {named: true}, "patternProperties": {named: true}, "dependencies": {named: true},
	"not": {one: true}, "additionalProperties": {one: true}, "additionalItems": {one: true}, "items": {one: true, numbered: true},
	"allOf": {numbered: true}, "anyOf": {numbered: true}, "oneOf": {numbered: true},
	"$defs": {named: true}, "dependentSchemas": {named: true}, "prefixItems": {numbered: true},
	"contains": {one: true}, "propertyNames": {one: true}, "if": {one: true}, "then": {one: true}, "else": {one: true},
	"unevaluatedProperties": {one: true}, "unevaluatedItems": {one: true},
}

// isOdd reports whether a reference leads to what is not at the place of a
// schema. The library copies all it knows for each of those.
func (in *inspection) isOdd(ref string) bool {
	_, pointer, _ := strings.Cut(ref, "#")
	if !strings.HasPrefix(pointer, "/") {
		return false
	}
	tokens := strings.Split(pointer[1:], "/")
	for len(tokens) > 0 {
		place := places[tokens[0]]
		switch {
		case tokens[0] == "$defs" && in.draft.refStandsAlone():
			return true // before draft 2019-09 it is no keyword
		case len(tokens) > 1 && (place.named || place.numbered && isIndex(tokens[1])):
			tokens = tokens[2:]
		case place.one:
			tokens = tokens[1:]
		default:
			return true
		}
	}
	return false
}
