package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Reach says whether values that a schema accepts have something at a path.
type Reach int

// What a schema says of a path.
const (
	Open      Reach = iota // they may have, but the schema does not name it
	Named                  // the schema says what may stand there
	Forbidden              // none of them has
)

// Step is one way to read how a path begins, as PathOf writes it.
type Step struct {
	Key   string // of a mapping
	Index int    // of a list; -1 cannot be one
	Rest  string // of the path
}

// Steps returns every way to read how a path begins. A key may have dots of its own, and one
// that is a number is written as an index is.
func Steps(path string) (steps []Step) {
	if inner, ok := strings.CutPrefix(path, "["); ok {
		key, rest, _ := strings.Cut(inner, "]")
		step := Step{Key: key, Index: -1, Rest: strings.TrimPrefix(rest, ".")}
		if i, err := strconv.Atoi(key); err == nil && i >= 0 {
			step.Index = i
		}
		return []Step{step}
	}
	for i, c := range path {
		if i > 0 && (c == '.' || c == '[') {
			steps = append(steps, Step{Key: path[:i], Index: -1, Rest: strings.TrimPrefix(path[i:], ".")})
		}
	}
	if path != "" {
		steps = append(steps, Step{Key: path, Index: -1})
	}
	return steps
}

// Reach returns what the schema says of a path, as PathOf writes it: ports[0].host. It is
// Forbidden only if that is certain, but for keys with dots of their own beside one that the path also begins with.
func (s *Schema) Reach(path string) Reach {
	return (&reaching{s, map[question]Reach{}}).of(s.root, path)
}

// reaching answers each question once: schemas may refer to themselves.
type reaching struct {
	schema   *Schema
	answered map[question]Reach
}

type question struct {
	of   *jsonschema.Schema
	path string
}

func (r *reaching) of(sch *jsonschema.Schema, path string) Reach {
	q := question{sch, path}
	if known, ok := r.answered[q]; ok {
		return known
	}
	r.answered[q] = Open
	r.answered[q] = r.find(sch, path)
	return r.answered[q]
}

func (r *reaching) find(sch *jsonschema.Schema, path string) Reach {
	if sch.Bool != nil && !*sch.Bool {
		return Forbidden
	}
	found := Open
	for _, one := range appendSome(slices.Clone(sch.AllOf), sch.Ref) {
		found = max(found, r.of(one, path))
	}
	for _, some := range [][]*jsonschema.Schema{sch.AnyOf, sch.OneOf} {
		found = max(found, r.any(some, path))
	}
	for _, one := range r.schema.sameValue(sch) { // also what applies under a condition
		if r.of(one, path) == Named {
			found = max(found, Named)
		}
	}
	if path == "" {
		return max(found, Named)
	}
	return max(found, r.steps(sch, path))
}

// steps returns what a schema itself says of the ways to read a path. If it knows the key that one of them begins
// with, it is not asked for a key that is longer and that it does not know.
func (r *reaching) steps(sch *jsonschema.Schema, path string) Reach {
	if sch.Bool != nil {
		return Open
	}
	found := Open
	for _, step := range Steps(path) {
		if one := r.step(sch, step); one != Open {
			found = one
		}
		if found == Named {
			break
		}
	}
	return found
}

// any returns what alternatives say together; Open if there are none.
func (r *reaching) any(some []*jsonschema.Schema, path string) Reach {
	if len(some) == 0 {
		return Open
	}
	found := Forbidden
	for _, one := range some {
		found = eitherOf(found, r.of(one, path))
	}
	return found
}

// eitherOf returns what two alternatives say together.
func eitherOf(a, b Reach) Reach {
	switch {
	case a == Named || b == Named:
		return Named
	case a == Open || b == Open:
		return Open
	}
	return Forbidden
}

// step returns what a schema itself says of a step, without the schemas that it is made of.
func (r *reaching) step(sch *jsonschema.Schema, step Step) Reach {
	found := r.property(sch, step)
	if step.Index >= 0 {
		found = eitherOf(found, r.item(sch, step))
	}
	return found
}

func (r *reaching) property(sch *jsonschema.Schema, step Step) Reach {
	if !takes(sch, "object") {
		return Forbidden
	}
	next := forProperty(&jsonschema.Schema{Properties: sch.Properties, PatternProperties: sch.PatternProperties, AdditionalProperties: sch.AdditionalProperties}, step.Key)
	switch {
	case len(next) > 0:
		return r.all(next, step.Rest)
	case sch.AdditionalProperties == true:
		return Named
	case sch.AdditionalProperties == false:
		return Forbidden
	case sch.UnevaluatedProperties != nil && !slices.ContainsFunc(r.schema.sameValue(sch), func(one *jsonschema.Schema) bool {
		return r.of(one, step.Key) != Open
	}):
		return r.all([]*jsonschema.Schema{sch.UnevaluatedProperties}, step.Rest)
	}
	return Open
}

func (r *reaching) item(sch *jsonschema.Schema, step Step) Reach {
	if !takes(sch, "array") || sch.MaxItems != nil && step.Index >= *sch.MaxItems {
		return Forbidden
	}
	next := forItem(&jsonschema.Schema{Items: sch.Items, AdditionalItems: sch.AdditionalItems, PrefixItems: sch.PrefixItems, Items2020: sch.Items2020}, step.Index)
	if len(next) > 0 {
		return r.all(next, step.Rest)
	}
	if some, ok := sch.Items.([]*jsonschema.Schema); ok && step.Index >= len(some) && sch.AdditionalItems == false {
		return Forbidden
	}
	return Open
}

// all returns what schemas say of a part of a value that all of them are about.
func (r *reaching) all(some []*jsonschema.Schema, path string) Reach {
	for _, one := range some {
		if r.of(one, path) == Forbidden {
			return Forbidden
		}
	}
	return Named
}

// takes reports whether a schema itself accepts a kind of value.
func takes(sch *jsonschema.Schema, kind string) bool {
	return sch.Types == nil || sch.Types.IsEmpty() || slices.Contains(sch.Types.ToStrings(), kind)
}
