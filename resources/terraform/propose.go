package terraform

import (
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/deployster-go/deployster/resources/internal/tfplugin"
)

// proposed is what a provider is asked to plan: the configuration, with what was there
// before where the provider says what a value is and none is given. prior and config are
// values of the block; prior may be null.
func proposed(b tfplugin.Block, prior, config cty.Value) cty.Value {
	if config.IsNull() || !config.IsKnown() {
		return config
	}
	values := proposedAttributes(b.Attributes, prior, config)
	for _, n := range b.Blocks {
		values[n.Name] = proposedNested(n.Nesting, n.Block.Type(), member(prior, n.Name, n.Type()), config.GetAttr(n.Name),
			func(prior, config cty.Value) cty.Value { return proposed(n.Block, prior, config) },
			func(prior, config cty.Value) bool { return mayBecome(n.Block, prior, config) })
	}
	return cty.ObjectVal(values)
}

func proposedAttributes(attributes []tfplugin.Attribute, prior, config cty.Value) map[string]cty.Value {
	values := make(map[string]cty.Value, len(attributes))
	for _, a := range attributes {
		was, given := member(prior, a.Name, a.ValueType()), config.GetAttr(a.Name)
		switch {
		case a.WriteOnly:
			values[a.Name] = cty.NullVal(a.ValueType())
		case given.IsNull() && a.Computed && !wasGiven(a, was):
			values[a.Name] = was
		case given.IsNull() || a.Nested == nil:
			values[a.Name] = given
		default:
			values[a.Name] = proposedNested(a.Nested.Nesting, a.Nested.Element(), was, given,
				func(prior, config cty.Value) cty.Value { return proposedObject(*a.Nested, prior, config) },
				func(prior, config cty.Value) bool { return attributesMayBecome(a.Nested.Attributes, prior, config) })
		}
	}
	return values
}

func proposedObject(o tfplugin.Object, prior, config cty.Value) cty.Value {
	if config.IsNull() || !config.IsKnown() {
		return config
	}
	return cty.ObjectVal(proposedAttributes(o.Attributes, prior, config))
}

// wasGiven reports whether what there is must have been given once: it has parts that the
// provider does not decide on. When it is given no longer it is to go.
func wasGiven(a tfplugin.Attribute, was cty.Value) bool {
	if a.Nested == nil || !a.Optional || was.IsNull() || !was.IsKnown() {
		return false
	}
	objects := []cty.Value{was}
	if a.Nested.Nesting != tfplugin.Single {
		objects = elements(was)
	}
	return slices.ContainsFunc(objects, func(o cty.Value) bool {
		if o.IsNull() || !o.IsKnown() {
			return false
		}
		return slices.ContainsFunc(a.Nested.Attributes, func(part tfplugin.Attribute) bool {
			return !part.Computed && !o.GetAttr(part.Name).IsNull()
		})
	})
}

// proposedNested proposes each of what there may be several of, next to the one that was
// there: of the same place in a list, the same key in a map, and in a set the one that it
// may have become.
func proposedNested(n tfplugin.Nesting, element cty.Type, prior, config cty.Value, one func(prior, config cty.Value) cty.Value, same func(prior, config cty.Value) bool) cty.Value {
	if config.IsNull() || !config.IsKnown() {
		return config
	}
	none := cty.NullVal(element)
	switch n {
	case tfplugin.Single, tfplugin.Group:
		return one(prior, config)
	case tfplugin.Map:
		was := map[string]cty.Value{}
		if !prior.IsNull() && prior.IsKnown() {
			was = prior.AsValueMap()
		}
		values := map[string]cty.Value{}
		for key, given := range config.AsValueMap() {
			old, there := was[key]
			if !there {
				old = none
			}
			values[key] = one(old, given)
		}
		return mapOf(element, values)
	case tfplugin.Set:
		left := elements(prior)
		var values []cty.Value
		for _, given := range elements(config) {
			old := none
			if i := slices.IndexFunc(left, func(was cty.Value) bool { return same(was, given) }); i >= 0 {
				old = left[i]
				left = slices.Delete(left, i, i+1)
			}
			values = append(values, one(old, given))
		}
		return collection(n, element, values)
	default:
		was := elements(prior)
		var values []cty.Value
		for i, given := range elements(config) {
			old := none
			if i < len(was) {
				old = was[i]
			}
			values = append(values, one(old, given))
		}
		return collection(n, element, values)
	}
}

// mayBecome reports whether a block may be what there was: all that is given is equal, and
// what is not given the provider may have decided on.
func mayBecome(b tfplugin.Block, prior, config cty.Value) bool {
	if prior.IsNull() || !prior.IsKnown() || config.IsNull() || !config.IsKnown() {
		return false
	}
	if !attributesMayBecome(b.Attributes, prior, config) {
		return false
	}
	for _, n := range b.Blocks {
		was, given := elementsOf(n.Nesting, prior.GetAttr(n.Name)), elementsOf(n.Nesting, config.GetAttr(n.Name))
		if len(was) != len(given) {
			return false
		}
		for _, g := range given {
			i := slices.IndexFunc(was, func(w cty.Value) bool { return mayBecome(n.Block, w, g) })
			if i < 0 {
				return false
			}
			was = slices.Delete(was, i, i+1)
		}
	}
	return true
}

func attributesMayBecome(attributes []tfplugin.Attribute, prior, config cty.Value) bool {
	if prior.IsNull() || !prior.IsKnown() || config.IsNull() || !config.IsKnown() {
		return false
	}
	for _, a := range attributes {
		was, given := prior.GetAttr(a.Name), config.GetAttr(a.Name)
		if a.WriteOnly || given.IsNull() && a.Computed {
			continue
		}
		if a.Nested != nil && !given.IsNull() && given.IsKnown() {
			old, now := elementsOf(a.Nested.Nesting, was), elementsOf(a.Nested.Nesting, given)
			if len(old) != len(now) {
				return false
			}
			for _, g := range now {
				i := slices.IndexFunc(old, func(w cty.Value) bool { return attributesMayBecome(a.Nested.Attributes, w, g) })
				if i < 0 {
					return false
				}
				old = slices.Delete(old, i, i+1)
			}
			continue
		}
		if !was.RawEquals(given) {
			return false
		}
	}
	return true
}

// member is an attribute of an object, null if there is no object.
func member(v cty.Value, name string, t cty.Type) cty.Value {
	switch {
	case v.IsNull():
		return cty.NullVal(t)
	case !v.IsKnown():
		return cty.UnknownVal(t)
	default:
		return v.GetAttr(name)
	}
}

// elements are those of a list, a set or a tuple; none if it is null or not known.
func elements(v cty.Value) []cty.Value {
	if v.IsNull() || !v.IsKnown() {
		return nil
	}
	return v.AsValueSlice()
}

// elementsOf are the objects of what is nested so.
func elementsOf(n tfplugin.Nesting, v cty.Value) []cty.Value {
	switch {
	case v.IsNull() || !v.IsKnown():
		return nil
	case n == tfplugin.Single || n == tfplugin.Group:
		return []cty.Value{v}
	case n == tfplugin.Map:
		var all []cty.Value
		for _, item := range v.AsValueMap() {
			all = append(all, item)
		}
		return all
	default:
		return v.AsValueSlice()
	}
}
