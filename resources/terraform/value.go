package terraform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/tfplugin"
)

// decodeJSON reads a document without changing its numbers.
func decodeJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

func isUnknown(v any) bool { return protocol.IsUnknown(v) }

// withUnknown puts Unknown in the place of what is null at a path. The names in a path are
// separated by dots, which they may have themselves, so the longest name that there is
// counts.
func withUnknown(v any, path []string) any {
	if len(path) == 0 {
		return protocol.Unknown{}
	}
	switch v := v.(type) {
	case object:
		for n := len(path); n > 0; n-- {
			name := strings.Join(path[:n], ".")
			if item, there := v[name]; there {
				v[name] = withUnknown(item, path[n:])
				return v
			}
		}
	case []any:
		if i, err := strconv.Atoi(path[0]); err == nil && 0 <= i && i < len(v) {
			v[i] = withUnknown(v[i], path[1:])
		}
	}
	return v
}

// blockValue is a configuration as a value of a block.
func blockValue(b tfplugin.Block, v any, path cty.Path) (cty.Value, error) {
	if isUnknown(v) {
		return cty.UnknownVal(b.Type()), nil
	}
	given, ok := v.(object)
	if !ok && v != nil {
		return cty.NilVal, path.NewErrorf("an object is needed")
	}
	values, err := attributeValues(b.Attributes, given, path)
	if err != nil {
		return cty.NilVal, err
	}
	known := make([]string, 0, len(values)+len(b.Blocks))
	for name := range values {
		known = append(known, name)
	}
	for _, n := range b.Blocks {
		known = append(known, n.Name)
		at := path.Copy().GetAttr(n.Name)
		if values[n.Name], err = nestedValue(n.Nesting, n.Block.Type(), given[n.Name], true, at, func(v any, at cty.Path) (cty.Value, error) {
			return blockValue(n.Block, v, at)
		}); err != nil {
			return cty.NilVal, err
		}
	}
	if err := onlyKnown(given, known, path); err != nil {
		return cty.NilVal, err
	}
	return cty.ObjectVal(values), nil
}

func onlyKnown(given object, known []string, path cty.Path) error {
	for name := range given {
		if !slices.Contains(known, name) {
			return path.Copy().GetAttr(name).NewErrorf("there is no attribute or block of this name")
		}
	}
	return nil
}

func attributeValues(attributes []tfplugin.Attribute, given object, path cty.Path) (map[string]cty.Value, error) {
	values := make(map[string]cty.Value, len(attributes))
	for _, a := range attributes {
		at := path.Copy().GetAttr(a.Name)
		v, err := attributeValue(a, given[a.Name], at)
		if err != nil {
			return nil, err
		}
		if !v.IsNull() && !a.Required && !a.Optional {
			return nil, at.NewErrorf("the provider says what it is; it cannot be given")
		}
		values[a.Name] = v
	}
	return values, nil
}

func attributeValue(a tfplugin.Attribute, v any, path cty.Path) (cty.Value, error) {
	switch {
	case isUnknown(v):
		return cty.UnknownVal(a.ValueType()), nil
	case v == nil:
		return cty.NullVal(a.ValueType()), nil
	case a.Nested == nil:
		return typedValue(a.Type, v, path)
	}
	return nestedValue(a.Nested.Nesting, a.Nested.Element(), v, false, path, func(v any, at cty.Path) (cty.Value, error) {
		given, ok := v.(object)
		if !ok {
			return cty.NilVal, at.NewErrorf("an object is needed")
		}
		values, err := attributeValues(a.Nested.Attributes, given, at)
		if err != nil {
			return cty.NilVal, err
		}
		known := make([]string, 0, len(values))
		for name := range values {
			known = append(known, name)
		}
		return cty.ObjectVal(values), onlyKnown(given, known, at)
	})
}

// nestedValue is what there may be several of. Of blocks there are none where nothing is
// given, while an attribute is then null.
func nestedValue(n tfplugin.Nesting, element cty.Type, v any, block bool, path cty.Path, one func(any, cty.Path) (cty.Value, error)) (cty.Value, error) {
	if isUnknown(v) {
		return cty.UnknownVal(n.Of(element)), nil
	}
	switch {
	case n == tfplugin.Group || n == tfplugin.Single && v != nil:
		return one(v, path)
	case n == tfplugin.Single:
		return cty.NullVal(element), nil
	case n == tfplugin.Map:
		values, err := eachMember(v, path, one)
		if err != nil {
			return cty.NilVal, err
		}
		return mapOf(element, values), nil
	}
	if given, ok := v.(object); ok {
		v = []any{given} // one stands for the list of it
	}
	values, err := eachElement(v, path, func(_ int, item any, at cty.Path) (cty.Value, error) { return one(item, at) })
	if err != nil {
		return cty.NilVal, err
	}
	return collection(n, element, values), nil
}

// eachMember makes a value of each member of an object, which may be null.
func eachMember(v any, path cty.Path, one func(any, cty.Path) (cty.Value, error)) (map[string]cty.Value, error) {
	given, ok := v.(object)
	if !ok && v != nil {
		return nil, path.NewErrorf("an object is needed")
	}
	values := make(map[string]cty.Value, len(given))
	for key, item := range given {
		value, err := one(item, path.Copy().IndexString(key))
		if err != nil {
			return nil, err
		}
		values[key] = value
	}
	return values, nil
}

// eachElement makes a value of each element of a list, which may be null.
func eachElement(v any, path cty.Path, one func(int, any, cty.Path) (cty.Value, error)) ([]cty.Value, error) {
	given, ok := v.([]any)
	if !ok && v != nil {
		return nil, path.NewErrorf("a list is needed")
	}
	values := make([]cty.Value, 0, len(given))
	for i, item := range given {
		value, err := one(i, item, path.Copy().IndexInt(i))
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

// collection is a list or a set of elements. Where types are not fixed it is a tuple.
func collection(n tfplugin.Nesting, element cty.Type, values []cty.Value) cty.Value {
	switch {
	case n == tfplugin.Set && len(values) == 0:
		return cty.SetValEmpty(element)
	case n == tfplugin.Set:
		return cty.SetVal(values)
	case element.HasDynamicTypes():
		return cty.TupleVal(values)
	case len(values) == 0:
		return cty.ListValEmpty(element)
	default:
		return cty.ListVal(values)
	}
}

func mapOf(element cty.Type, values map[string]cty.Value) cty.Value {
	switch {
	case element.HasDynamicTypes():
		return cty.ObjectVal(values)
	case len(values) == 0:
		return cty.MapValEmpty(element)
	default:
		return cty.MapVal(values)
	}
}

// typedValue is a value of a type.
func typedValue(t cty.Type, v any, path cty.Path) (cty.Value, error) {
	switch {
	case isUnknown(v):
		return cty.UnknownVal(t), nil
	case v == nil:
		return cty.NullVal(t), nil
	case t == cty.DynamicPseudoType:
		return anyValue(v, path)
	case t.IsPrimitiveType():
		return primitiveValue(t, v, path)
	case t.IsObjectType():
		return objectValue(t, v, path)
	case t.IsMapType():
		values, err := eachMember(v, path, func(item any, at cty.Path) (cty.Value, error) { return typedValue(t.ElementType(), item, at) })
		if err != nil {
			return cty.NilVal, err
		}
		return unified(path, func() cty.Value { return mapOf(t.ElementType(), values) })
	}
	if given, ok := v.([]any); ok && t.IsTupleType() && len(given) != t.Length() {
		return cty.NilVal, path.NewErrorf("a list of %d is needed", t.Length())
	}
	values, err := eachElement(v, path, func(i int, item any, at cty.Path) (cty.Value, error) {
		if t.IsTupleType() {
			return typedValue(t.TupleElementType(i), item, at)
		}
		return typedValue(t.ElementType(), item, at)
	})
	switch {
	case err != nil:
		return cty.NilVal, err
	case t.IsTupleType():
		return cty.TupleVal(values), nil
	case t.IsSetType():
		return unified(path, func() cty.Value { return collection(tfplugin.Set, t.ElementType(), values) })
	default:
		return unified(path, func() cty.Value { return collection(tfplugin.List, t.ElementType(), values) })
	}
}

// unified is a collection whose elements must be of one type, which cty takes for
// granted.
func unified(path cty.Path, make func() cty.Value) (v cty.Value, err error) {
	defer func() {
		if recover() != nil {
			err = path.NewErrorf("its elements are of different types")
		}
	}()
	return make(), nil
}

func objectValue(t cty.Type, v any, path cty.Path) (cty.Value, error) {
	given, ok := v.(object)
	if !ok {
		return cty.NilVal, path.NewErrorf("an object is needed")
	}
	values := map[string]cty.Value{}
	known := []string{}
	for name, of := range t.AttributeTypes() {
		known = append(known, name)
		item, there := given[name]
		if !there && !t.AttributeOptional(name) {
			return cty.NilVal, path.NewErrorf("%s is missing, which may be null", name)
		}
		value, err := typedValue(of, item, path.Copy().GetAttr(name))
		if err != nil {
			return cty.NilVal, err
		}
		values[name] = value
	}
	return cty.ObjectVal(values), onlyKnown(given, known, path)
}

func primitiveValue(t cty.Type, v any, path cty.Path) (cty.Value, error) {
	given, err := anyValue(v, path)
	if err != nil {
		return cty.NilVal, err
	}
	value, err := convert.Convert(given, t)
	if err != nil {
		return cty.NilVal, path.NewErrorf("%v", err)
	}
	return value, nil
}

// anyValue is a value of the type that it has.
func anyValue(v any, path cty.Path) (cty.Value, error) {
	if isUnknown(v) {
		return cty.DynamicVal, nil
	}
	switch v := v.(type) {
	case nil:
		return cty.NullVal(cty.DynamicPseudoType), nil
	case bool:
		return cty.BoolVal(v), nil
	case string:
		return cty.StringVal(v), nil
	case json.Number:
		n, err := cty.ParseNumberVal(v.String())
		if err != nil {
			return cty.NilVal, path.NewErrorf("%v", err)
		}
		return n, nil
	case []any:
		values, err := eachElement(v, path, func(_ int, item any, at cty.Path) (cty.Value, error) { return anyValue(item, at) })
		if err != nil {
			return cty.NilVal, err
		}
		return cty.TupleVal(values), nil
	case object:
		values, err := eachMember(v, path, anyValue)
		if err != nil {
			return cty.NilVal, err
		}
		return cty.ObjectVal(values), nil
	default:
		return cty.NilVal, path.NewError(fmt.Errorf("%T is not of JSON", v))
	}
}

// document is a value as JSON has it, in the words of the configuration.
func document(v cty.Value) any {
	t := v.Type()
	switch {
	case !v.IsKnown():
		return protocol.Unknown{}
	case v.IsNull():
		return nil
	case t == cty.String:
		return v.AsString()
	case t == cty.Bool:
		return v.True()
	case t == cty.Number:
		return number(v.AsBigFloat())
	case t.IsObjectType() || t.IsMapType():
		out := object{}
		for it := v.ElementIterator(); it.Next(); {
			key, item := it.Element()
			out[key.AsString()] = document(item)
		}
		return out
	case t.IsListType() || t.IsSetType() || t.IsTupleType():
		out := []any{}
		for it := v.ElementIterator(); it.Next(); {
			_, item := it.Element()
			out = append(out, document(item))
		}
		return out
	default:
		return nil // a capsule, which schemas cannot have
	}
}

// maxPlain is how large the exponent to 2 may be of a number that is written in full.
const maxPlain = 512

func number(f *big.Float) json.Number {
	if f.IsInt() && f.MantExp(nil) <= maxPlain {
		return json.Number(f.Text('f', 0))
	}
	return json.Number(f.Text('g', -1))
}
