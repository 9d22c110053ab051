package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/suggest"
)

// violations returns what is at the bottom of the library's tree of errors,
// sorted and each once. w may be nil.
func violations(e *jsonschema.ValidationError, w *walk) []Violation {
	r := reader{walk: w}
	out := r.leaves(e)
	slices.SortStableFunc(out, func(a, b Violation) int {
		return cmp.Or(comparePaths(a.Path, b.Path), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(out, func(a, b Violation) bool {
		return a.Message == b.Message && slices.Equal(a.Path, b.Path)
	})
}

type reader struct{ walk *walk }

func (r reader) leaves(e *jsonschema.ValidationError) []Violation {
	switch k := e.ErrorKind.(type) {
	case *kind.Group, *kind.Schema, *kind.AllOf, *kind.Reference:
		var out []Violation
		for _, c := range e.Causes {
			out = append(out, r.leaves(c)...)
		}
		if len(out) > 0 {
			return out
		}
	case *kind.AnyOf:
		return r.alternatives(e, "anyOf")
	case *kind.OneOf:
		if k.Subschemas == nil {
			return r.alternatives(e, "oneOf")
		}
	case *kind.Required:
		var out []Violation
		for _, name := range k.Missing {
			out = append(out, violation(e, "required", "missing property %q", name))
		}
		return out
	case *kind.AdditionalProperties:
		var out []Violation
		for _, name := range k.Properties {
			out = append(out, r.unknown(append(slices.Clone(e.InstanceLocation), name), "additionalProperties"))
		}
		return out
	case *kind.FalseSchema:
		switch {
		case strings.HasSuffix(e.SchemaURL, "/unevaluatedProperties"):
			return []Violation{r.unknown(e.InstanceLocation, "unevaluatedProperties")}
		case strings.HasSuffix(e.SchemaURL, "/unevaluatedItems"):
			return []Violation{violation(e, "unevaluatedItems", "is one item too many")}
		case strings.HasSuffix(e.SchemaURL, "/items"):
			return []Violation{violation(e, "items", "is one item too many")}
		}
		return []Violation{violation(e, "false", "must not be there")}
	case *kind.PropertyNames:
		return r.names(e, k.Property)
	}
	return []Violation{violation(e, rule(e.ErrorKind), "%s", describe(e.ErrorKind))}
}

func violation(e *jsonschema.ValidationError, rule, format string, args ...any) Violation {
	return Violation{Path: slices.Clone(e.InstanceLocation), Rule: rule, Message: fmt.Sprintf(format, args...)}
}

func rule(k jsonschema.ErrorKind) string {
	if path := k.KeywordPath(); len(path) > 0 {
		return path[0]
	}
	return "$schema"
}

// unknown is about a property that a schema does not know.
func (r reader) unknown(path []string, rule string) Violation {
	name := path[len(path)-1]
	message := fmt.Sprintf("unknown property %q", name)
	if r.walk != nil {
		if parent := r.walk.find(path[:len(path)-1]); parent != nil {
			known := map[string]bool{}
			for sch := range parent.steps {
				for p := range sch.Properties {
					known[p] = true
				}
			}
			if near := suggest.Closest(name, slices.Sorted(maps.Keys(known))); near != "" {
				message += fmt.Sprintf(", did you mean %q?", near)
			} else if len(known) > 0 && len(known) <= 20 {
				message += "; known are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
			}
		}
	}
	return Violation{Path: slices.Clone(path), Rule: rule, Message: message}
}

// names is about a property whose name breaks propertyNames. The library does
// not tell reliably where it is, so it is looked for.
func (r reader) names(e *jsonschema.ValidationError, name string) []Violation {
	var why []string
	for _, c := range e.Causes {
		for _, v := range r.leaves(c) {
			why = append(why, v.Message)
		}
	}
	v := violation(e, "propertyNames", "the name of property %q is not possible: it %s", name, strings.Join(why, "; "))
	if r.walk == nil {
		return []Violation{v}
	}
	var out []Violation
	r.walk.root.each(func(p *place) bool {
		object, _ := p.value.(map[string]any)
		if _, there := object[name]; !there {
			return true
		}
		for sch := range p.steps {
			if sch.PropertyNames != nil && sch.PropertyNames.Location == e.SchemaURL {
				out = append(out, Violation{Path: append(slices.Clone(p.path), name), Rule: v.Rule, Message: v.Message})
			}
		}
		return true
	})
	if len(out) == 0 {
		return []Violation{v}
	}
	return out
}

// alternatives is about a value that matches none of several schemas. When
// all but one were not meant, only what is wrong with that one is told: one was
// not meant when the value is of another kind, or when it asks for another
// constant, as alternatives that are told apart by a "type" property do.
func (r reader) alternatives(e *jsonschema.ValidationError, rule string) []Violation {
	here := len(e.InstanceLocation)
	var types []string
	var branches, meant [][]Violation
	for _, c := range e.Causes {
		found := r.leaves(c)
		branches = append(branches, found)
		if k, ok := onlyType(c, here); ok {
			types = append(types, k.Want...)
			continue
		}
		other := slices.ContainsFunc(found, func(v Violation) bool {
			return len(v.Path) == here+1 && (v.Rule == "const" || v.Rule == "enum")
		})
		if !other {
			meant = append(meant, found)
		}
	}
	switch {
	case len(meant) == 1:
		return meant[0]
	case len(e.Causes) > 0 && len(types) >= len(e.Causes):
		if k, ok := onlyType(e.Causes[0], here); ok {
			return []Violation{violation(e, "type", "must be %s, not %s", either(types), article(k.Got))}
		}
	}
	var said []string
	for _, found := range branches {
		var parts []string
		for _, v := range found {
			text := v.Message
			if len(v.Path) > here {
				text = strings.Join(v.Path[here:], ".") + " " + text
			}
			parts = append(parts, text)
		}
		slices.Sort(parts)
		said = append(said, strings.Join(slices.Compact(parts), " and "))
	}
	return []Violation{violation(e, rule, "matches none of %d alternatives (%s)", len(e.Causes), cut(strings.Join(said, "; or "), 500))}
}

// onlyType tells whether a failure is about the type of the value at a depth.
func onlyType(e *jsonschema.ValidationError, depth int) (*kind.Type, bool) {
	for {
		if k, ok := e.ErrorKind.(*kind.Type); ok {
			return k, len(e.InstanceLocation) == depth
		}
		if _, ok := e.ErrorKind.(*kind.Reference); !ok || len(e.Causes) != 1 {
			return nil, false
		}
		e = e.Causes[0]
	}
}

func describe(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		if k.Got == "number" && slices.Equal(k.Want, []string{"integer"}) {
			return "must be an integer, not a fraction"
		}
		return fmt.Sprintf("must be %s, not %s", either(k.Want), article(k.Got))
	case *kind.Enum:
		return "must be " + oneOf(k.Want)
	case *kind.Const:
		return "must be " + literal(k.Want)
	case *kind.Pattern:
		return fmt.Sprintf("must match the pattern %q", k.Want)
	case *kind.Format:
		return fmt.Sprintf("must be a valid %s", k.Want)
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *kind.MinLength:
		if k.Want == 1 {
			return "must not be empty"
		}
		return fmt.Sprintf("must have at least %s", phrase.Count(k.Want, "character"))
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %s", phrase.Count(k.Want, "character"))
	case *kind.MinItems:
		if k.Want == 1 {
			return "must not be empty"
		}
		return fmt.Sprintf("must have at least %s, not %d", phrase.Count(k.Want, "item"), k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %s, not %d", phrase.Count(k.Want, "item"), k.Got)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %s too many", phrase.Count(k.Count, "item"))
	case *kind.MinProperties:
		if k.Want == 1 {
			return "must not be empty"
		}
		return fmt.Sprintf("must have at least %s, not %d", phrase.Count(k.Want, "property"), k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %s, not %d", phrase.Count(k.Want, "property"), k.Got)
	case *kind.UniqueItems:
		return fmt.Sprintf("must not have an item twice (items %d and %d are equal)", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "has no item of the kind that must be there"
	case *kind.MinContains:
		return fmt.Sprintf("must have at least %d items of a certain kind, not %d", k.Want, len(k.Got))
	case *kind.MaxContains:
		return fmt.Sprintf("must have at most %d items of a certain kind, not %d", k.Want, len(k.Got))
	case *kind.DependentRequired:
		return fmt.Sprintf("missing property %s, which %q asks for", quoted(k.Missing), k.Prop)
	case *kind.Dependency:
		return fmt.Sprintf("missing property %s, which %q asks for", quoted(k.Missing), k.Prop)
	case *kind.OneOf:
		return fmt.Sprintf("matches more than one of the alternatives (%v), of which it must match one", k.Subschemas)
	case *kind.Not:
		return "must not be as it is: the schema excludes this form"
	case *kind.RefCycle:
		return "can not be checked: a $ref of the schema leads back to itself"
	default:
		return k.LocalizedString(message.NewPrinter(language.English))
	}
}

var kinds = map[string]string{
	"object": "a mapping", "array": "a list", "string": "a string", "number": "a number",
	"integer": "an integer", "boolean": "true or false", "null": "null",
}

func article(jsonType string) string {
	if jsonType == "boolean" {
		return "a boolean"
	}
	if k, ok := kinds[jsonType]; ok {
		return k
	}
	return jsonType
}

func either(types []string) string {
	var words []string
	for _, t := range types {
		word := kinds[t]
		if len(types) > 1 && t == "boolean" {
			word = "a boolean"
		}
		if word != "" && t != "null" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	if slices.Contains(types, "null") {
		words = append(words, kinds["null"])
	}
	return list(words, "or")
}

func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return list(out, "and")
}

func oneOf(values []any) string {
	const shown = 20
	if len(values) == 1 {
		return literal(values[0])
	}
	var words []string
	for _, v := range values[:min(shown, len(values))] {
		words = append(words, literal(v))
	}
	text := "one of " + strings.Join(words, ", ")
	if len(values) > shown {
		text += fmt.Sprintf(" and %d more", len(values)-shown)
	}
	return text
}

func literal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return cut(string(text), 100)
}

func cut(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n]) + "…"
	}
	return text
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return fmt.Sprint(f)
}
