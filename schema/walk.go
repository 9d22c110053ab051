package schema

import (
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The bounds of checking one value: the steps of all parts of the schema that
// meet a part of the value, counting each pair once, and counting every path
// that leads to it. A schema of a few lines can make the second one astronomic.
const (
	maxPairs = 2_000_000 * stepsOfVisit
	maxSteps = 1_000_000 * stepsOfVisit
)

// What takes about as long as a regular expression's step on one character.
const (
	stepsOfVisit   = 300
	stepsOfCompare = 10
)

// place is a part of a value and the schemas that may have a say about it.
type place struct {
	path     []string
	value    any
	children map[string]*place
	names    map[string]*place          // those of properties, which are values to propertyNames
	steps    map[*jsonschema.Schema]int // each schema's, all that follows from it included; 0 while being counted
	secret   bool
}

func (p *place) child(key string, value any) *place {
	c := p.children[key]
	if c == nil {
		if p.children == nil {
			p.children = map[string]*place{}
		}
		c = &place{path: append(slices.Clip(p.path), key), value: value, steps: map[*jsonschema.Schema]int{}}
		p.children[key] = c
	}
	return c
}

// name is the name of a property as a value.
func (p *place) name(key string) *place {
	n := p.names[key]
	if n == nil {
		if p.names == nil {
			p.names = map[string]*place{}
		}
		n = &place{value: key, steps: map[*jsonschema.Schema]int{}}
		p.names[key] = n
	}
	return n
}

// walk follows a schema through a value into every branch there is, whether
// the value matches it or not.
type walk struct {
	schema *Schema
	root   *place
	steps  int // counting every path
	pairs  int // steps, counting each pair once

	givenUp *Violation // a regular expression that could not be matched
}

func (s *Schema) walk(v any) *walk {
	w := &walk{schema: s, root: &place{value: v, steps: map[*jsonschema.Schema]int{}}}
	w.steps = w.visit(s.root, w.root)
	return w
}

func (w *walk) exhausted() bool { return w.pairs > maxPairs || w.givenUp != nil }

// visit returns how many steps it takes to check a place against a schema.
func (w *walk) visit(sch *jsonschema.Schema, at *place) int {
	if n, ok := at.steps[sch]; ok {
		return n
	}
	if w.exhausted() { // by a neighbour
		return maxSteps + 1
	}
	at.steps[sch] = 0
	n, err := cost(sch, at.value)
	if err != nil {
		w.givenUp = &Violation{Path: at.path, Rule: "pattern", Message: "cannot be checked: " + err.Error()}
	}
	if w.pairs += n; w.exhausted() {
		return maxSteps + 1
	}
	at.secret = at.secret || sch.WriteOnly || w.schema.secret[sch]
	add := func(more int) { n = min(n+more, maxSteps+1) }
	for _, next := range w.schema.sameValue(sch) {
		add(w.visit(next, at))
	}
	switch value := at.value.(type) {
	case map[string]any:
		for key, item := range value {
			for _, next := range forProperty(sch, key) {
				add(w.visit(next, at.child(key, item)))
			}
			if sch.PropertyNames != nil {
				add(w.visit(sch.PropertyNames, at.name(key)))
			}
		}
	case []any:
		for i, item := range value {
			for _, next := range forItem(sch, i) {
				add(w.visit(next, at.child(strconv.Itoa(i), item)))
			}
		}
	}
	at.steps[sch] = n
	return n
}

// cost is about how many steps it takes to check a value against what a schema
// itself says about it, without the schemas that it is made of.
func cost(sch *jsonschema.Schema, value any) (int, error) {
	n := stepsOfVisit
	if sch.Enum != nil {
		n += stepsOfCompare * len(sch.Enum.Values)
	}
	var err error
	switch value := value.(type) {
	case string:
		if sch.Pattern != nil {
			n, err = match(n, sch.Pattern, value)
		}
	case map[string]any:
		n += stepsOfCompare * (len(sch.Required) + len(sch.Dependencies) + len(sch.DependentRequired))
		for key := range value {
			for p := range sch.PatternProperties {
				if n, err = match(n, p, key); n > maxPairs || err != nil {
					return n, err
				}
			}
		}
	}
	return min(n, maxPairs+1), err
}

// match adds the steps that matching takes.
func match(n int, with jsonschema.Regexp, text string) (int, error) {
	p, ok := with.(*pattern)
	if !ok {
		return n, nil
	}
	steps, err := p.measure(text)
	return n + min(maxPairs, steps), err
}

// applies reports whether the schema of a pattern is about a property: also when
// that cannot be found out, so that what it makes secret stays one.
func applies(with jsonschema.Regexp, key string) bool {
	if p, ok := with.(*pattern); ok {
		matches, err := p.match(key)
		return matches || err != nil
	}
	return with.MatchString(key)
}

// find returns the place at a path, nil when no schema has a say about it.
func (w *walk) find(path []string) *place {
	p := w.root
	for _, key := range path {
		if p = p.children[key]; p == nil {
			return nil
		}
	}
	return p
}

// each calls f for all places until it returns false; then those within are
// left out.
func (p *place) each(f func(*place) bool) {
	if !f(p) {
		return
	}
	for _, c := range p.children {
		c.each(f)
	}
}

// sameValue are the schemas that sch applies to the value that it is itself
// applied to.
func (s *Schema) sameValue(sch *jsonschema.Schema) []*jsonschema.Schema {
	out := slices.Concat(sch.AllOf, sch.AnyOf, sch.OneOf)
	out = appendSome(out, sch.Ref, sch.Not, sch.If, sch.Then, sch.Else)
	for _, d := range sch.DependentSchemas {
		out = append(out, d)
	}
	for _, d := range sch.Dependencies {
		if d, ok := d.(*jsonschema.Schema); ok {
			out = append(out, d)
		}
	}
	if d := sch.DynamicRef; d != nil {
		out = appendSome(out, d.Ref)
		out = append(out, s.anchored[d.Anchor]...)
	}
	if sch.RecursiveRef != nil {
		out = append(out, sch.RecursiveRef)
		out = append(out, s.anchored[""]...)
	}
	return out
}

func forProperty(sch *jsonschema.Schema, key string) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	if p, ok := sch.Properties[key]; ok {
		out = append(out, p)
	}
	for pattern, p := range sch.PatternProperties {
		if applies(pattern, key) {
			out = append(out, p)
		}
	}
	if additional, ok := sch.AdditionalProperties.(*jsonschema.Schema); ok && len(out) == 0 {
		out = append(out, additional)
	}
	return appendSome(out, sch.UnevaluatedProperties)
}

func forItem(sch *jsonschema.Schema, i int) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	switch items := sch.Items.(type) {
	case *jsonschema.Schema:
		out = append(out, items)
	case []*jsonschema.Schema:
		if i < len(items) {
			out = append(out, items[i])
		} else if additional, ok := sch.AdditionalItems.(*jsonschema.Schema); ok {
			out = append(out, additional)
		}
	}
	if i < len(sch.PrefixItems) {
		out = append(out, sch.PrefixItems[i])
	} else {
		out = appendSome(out, sch.Items2020)
	}
	return appendSome(out, sch.Contains, sch.UnevaluatedItems)
}

// parts are all schemas that sch is made of or refers to.
func parts(sch *jsonschema.Schema) []*jsonschema.Schema {
	s := Schema{}
	out := append(s.sameValue(sch), sch.PrefixItems...)
	out = appendSome(out, sch.PropertyNames, sch.UnevaluatedProperties, sch.Items2020, sch.Contains, sch.UnevaluatedItems, sch.ContentSchema)
	for _, p := range sch.Properties {
		out = append(out, p)
	}
	for _, p := range sch.PatternProperties {
		out = append(out, p)
	}
	for _, one := range []any{sch.AdditionalProperties, sch.AdditionalItems, sch.Items} {
		switch one := one.(type) {
		case *jsonschema.Schema:
			out = append(out, one)
		case []*jsonschema.Schema:
			out = append(out, one...)
		}
	}
	return out
}

func appendSome(to []*jsonschema.Schema, some ...*jsonschema.Schema) []*jsonschema.Schema {
	for _, s := range some {
		if s != nil {
			to = append(to, s)
		}
	}
	return to
}
