package python

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// A value is one of: nil, bool, int64, float64, string, Markup, []any, Tuple,
// *Series, *Dict, map[string]any, *Group, *Namespace, *Function, object or
// *Undefined. Those that a caller passes in become one of these when they are
// first used; see Norm. Lists and mappings are never changed once made, so they
// are shared freely.

type (
	// Tuple is a list that prints with parentheses.
	Tuple []any

	// Group is what groupby makes: a tuple with named parts.
	Group struct {
		Grouper any
		List    []any
	}

	// Dict is a mapping made in a template; it keeps the order of its keys.
	Dict struct {
		Keys  []any       // as they are written
		Items map[any]any // by what Hashed makes of their keys
	}

	// Namespace is the one value that can be changed, by {% set ns.x = … %}.
	Namespace struct {
		Vars     map[string]any
		IsModule bool // of an imported file: it cannot be changed
	}

	// Function is anything that can be called.
	Function struct {
		Name string
		Call func(s *State, a *Args) any
	}

	// object has attributes and is no value: a loop, the blocks of a template.
	object interface {
		// Attribute is nil where there is none.
		Attribute(s *State, name string) any
		Describe() string
	}

	// Callable is an object that can be called.
	Callable interface {
		Call(s *State, a *Args) any
	}

	// Undefined is what a missing name, key or index evaluates to. Using
	// it throws its error, unless it is lenient: the value of an inline if
	// without an else.
	Undefined struct {
		err     func() *UndefinedError
		Lenient bool
	}
)

// NewDict makes an empty mapping.
func NewDict() *Dict { return &Dict{Items: map[any]any{}} }

// Set sets a key, which keeps its place if it is there.
func (d *Dict) Set(key, value any) {
	h := Hashed(key)
	if _, ok := d.Items[h]; !ok {
		d.Keys = append(d.Keys, key)
	}
	d.Items[h] = value
}

// Hashed makes keys that are equal in Python equal in Go.
func Hashed(key any) any {
	switch k := key.(type) {
	case bool:
		if k {
			return int64(1)
		}
		return int64(0)
	case float64:
		if i := int64(k); math.Abs(k) < 1<<63 && float64(i) == k {
			return i
		}
	case Markup:
		return string(k)
	}
	return key
}

// Norm turns what a caller passed into one of the values above.
func Norm(v any) any {
	switch v := v.(type) {
	case nil, bool, int64, float64, string, Markup, []any, map[string]any, Tuple, *Series, *Dict, *Group, *Namespace, *Function, object, *Undefined:
		return v
	case int:
		return int64(v)
	case json.Number:
		if i, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.String:
		return r.String()
	case reflect.Bool:
		return r.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if u := r.Uint(); u <= math.MaxInt64 {
			return int64(u)
		}
		return float64(r.Uint())
	case reflect.Float32, reflect.Float64:
		return r.Float()
	case reflect.Slice, reflect.Array:
		list := make([]any, r.Len())
		for i := range list {
			list[i] = Norm(r.Index(i).Interface())
		}
		return list
	case reflect.Map:
		m := make(map[string]any, r.Len())
		for it := r.MapRange(); it.Next(); {
			m[fmt.Sprint(it.Key().Interface())] = it.Value().Interface()
		}
		return m
	default:
		return fmt.Sprint(v)
	}
}

// SortedKeys are the keys of a mapping in their order.
func SortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Pairs returns the keys and values of a mapping: in the order they were
// written, or sorted where the caller's map has no order.
func (s *State) Pairs(v any) (keys, values []any, ok bool) {
	switch v := v.(type) {
	case *Dict:
		s.Work(len(v.Keys))
		for _, key := range v.Keys {
			values = append(values, Norm(v.Items[Hashed(key)]))
		}
		return v.Keys, values, true
	case map[string]any:
		s.Work(4 * len(v))
		for _, key := range SortedKeys(v) {
			keys = append(keys, key)
			values = append(values, Norm(v[key]))
		}
		return keys, values, true
	}
	return nil, nil, false
}

// Lookup finds a key of a mapping.
func Lookup(v, key any) (any, bool) {
	switch v := v.(type) {
	case *Dict:
		if !Hashable(key) {
			return nil, false
		}
		value, ok := v.Items[Hashed(key)]
		return Norm(value), ok
	case map[string]any:
		name, ok := TextOf(key)
		if !ok {
			return nil, false
		}
		value, ok := v[name]
		return Norm(value), ok
	}
	return nil, false
}

// Hashable reports whether a value can be a key.
func Hashable(key any) bool {
	switch key.(type) {
	case nil, bool, int64, float64, string, Markup:
		return true
	}
	return false
}

// Items returns the elements of a list; ok is false for anything else.
func Items(v any) (list []any, ok bool) {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			switch item.(type) {
			case nil, bool, int64, float64, string, Markup, []any, map[string]any, Tuple, *Series, *Dict, *Undefined:
				continue
			}
			fixed := slices.Clone(v)
			for j := i; j < len(fixed); j++ {
				fixed[j] = Norm(fixed[j])
			}
			return fixed, true
		}
		return v, true
	case Tuple:
		return v, true
	case *Group:
		return []any{v.Grouper, v.List}, true
	}
	return nil, false
}

// Iterate returns what a loop over v goes through, and fails if it cannot be
// looped over.
func (s *State) Iterate(v any) []any {
	if list, ok := Items(v); ok {
		s.Work(len(list))
		return list
	}
	if text, ok := TextOf(v); ok {
		s.Memory(16 * len(text))
		list := make([]any, 0, len(text))
		for _, r := range text {
			list = append(list, string(r))
		}
		return list
	}
	switch v := v.(type) {
	case *Series:
		return s.take(v)
	case *Undefined:
		v.Use()
		return nil
	}
	if keys, _, ok := s.Pairs(v); ok {
		return keys
	}
	s.Fail("%s is not a list", Describe(v))
	return nil
}

// Use throws the error of something undefined that is about to be used.
func (u *Undefined) Use() {
	if !u.Lenient {
		Throw(u.err())
	}
}

// Defined returns v unless it is undefined, which it throws.
func Defined(v any) any {
	if u, ok := v.(*Undefined); ok {
		u.Use()
	}
	return v
}

// Given is defined for operations that put up with no undefined value, not
// even with that of an inline if without an else.
func (s *State) Given(v any) any {
	if _, ok := Defined(v).(*Undefined); ok {
		Throw(&UndefinedError{
			Name: "else", Of: "the inline if", Missing: "else", Kind: "false", File: s.File, Line: s.At.Line, Column: s.At.Column,
		})
	}
	return v
}

// Truth is Python's idea of what counts as true.
func (s *State) Truth(v any) bool {
	switch v := Defined(v).(type) {
	case nil:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case Markup:
		return v != ""
	case *Series:
		return s.seriesTruth(v)
	case []any:
		return len(v) > 0
	case Tuple:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	case *Dict:
		return len(v.Keys) > 0
	case *Undefined:
		return false
	default:
		return true
	}
}

// Length counts what len() does.
func Length(v any) (int, bool) {
	if text, ok := TextOf(v); ok {
		return utf8.RuneCountInString(text), true
	}
	if list, ok := Items(v); ok {
		return len(list), true
	}
	switch v := v.(type) {
	case map[string]any:
		return len(v), true
	case *Dict:
		return len(v.Keys), true
	case *Series:
		return len(v.List), v.Kind != Generator
	}
	return 0, false
}

// Describe names a value's type, for messages.
func Describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing (none)"
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	case string, Markup:
		return "text"
	case *Series:
		return v.What + " (not a list yet: the filter list makes one)"
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case Tuple:
		return fmt.Sprintf("a list of %d", len(v))
	case *Group:
		return "a group"
	case map[string]any, *Dict:
		return "a mapping"
	case *Function:
		return "the function " + v.Name
	case *Namespace:
		return "a namespace"
	case *Undefined:
		return "undefined"
	case object:
		return v.Describe()
	default:
		return "a value"
	}
}
