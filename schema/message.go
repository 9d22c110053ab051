package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

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
// not say reliably where it is, so it is searched for.
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
// all but one were not meant, only what is wrong with that one is reported: one was
// not meant when the value is of another kind, or when it asks for another
// constant, as alternatives that are distinguished by a "type" property do.
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
	return []Violation{violation(e, rule, "matches none of %d alternatives (%s)", len(e.Causes), phrase.Cut(strings.Join(said, "; or "), 500))}
}

// onlyType reports whether a failure is about the type of the value at a depth.
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
