package expression

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// A value is one of: nil, bool, int64, float64, string, markup, []any, tuple,
// *series, *dict, map[string]any, *group, *namespace, *function, *loop,
// *templateBlocks or *undefined. Those a
// caller passes in become one of these when they are first looked at; see
// norm. Lists and mappings are never changed once made, so they are shared
// freely.

type (
	// tuple is a list that prints with parentheses.
	tuple []any

	// group is what groupby makes: a tuple with named parts.
	group struct {
		grouper any
		list    []any
	}

	// dict is a mapping made in a template; it keeps the order of its keys.
	dict struct {
		keys  []any       // as they are written
		items map[any]any // by what hashed makes of their keys
	}

	// namespace is the one value that can be changed, by {% set ns.x = … %}.
	namespace struct {
		vars     map[string]any
		isModule bool // of an imported file: it can not be changed
	}

	// function is anything that can be called.
	function struct {
		name string
		call func(s *state, a *args) any
	}

	// undefined is what a missing name, key or index evaluates to. Looking at
	// it throws its error, unless it is lenient: the value of an inline if
	// without an else.
	undefined struct {
		err     func() *UndefinedError
		lenient bool
	}
)

func newDict() *dict { return &dict{items: map[any]any{}} }

func (d *dict) set(key, value any) {
	h := hashed(key)
	if _, ok := d.items[h]; !ok {
		d.keys = append(d.keys, key)
	}
	d.items[h] = value
}

// hashed makes keys that are equal in Python equal in Go.
func hashed(key any) any {
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
	case markup:
		return string(k)
	}
	return key
}

// norm turns what a caller passed into one of the values above.
func norm(v any) any {
	switch v := v.(type) {
	case nil, bool, int64, float64, string, markup, []any, map[string]any, tuple, *series, *dict, *group, *namespace, *function, *loop, *templateBlocks, *undefined:
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
			list[i] = norm(r.Index(i).Interface())
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

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// pairs returns the keys and values of a mapping: in the order they were
// written, or sorted where the caller's map has no order.
func (s *state) pairs(v any) (keys, values []any, ok bool) {
	switch v := v.(type) {
	case *dict:
		s.work(len(v.keys))
		for _, key := range v.keys {
			values = append(values, norm(v.items[hashed(key)]))
		}
		return v.keys, values, true
	case map[string]any:
		s.work(4 * len(v))
		for _, key := range sortedKeys(v) {
			keys = append(keys, key)
			values = append(values, norm(v[key]))
		}
		return keys, values, true
	}
	return nil, nil, false
}

// lookup finds a key of a mapping.
func lookup(v, key any) (any, bool) {
	switch v := v.(type) {
	case *dict:
		if !hashable(key) {
			return nil, false
		}
		value, ok := v.items[hashed(key)]
		return norm(value), ok
	case map[string]any:
		name, ok := textOf(key)
		if !ok {
			return nil, false
		}
		value, ok := v[name]
		return norm(value), ok
	}
	return nil, false
}

func hashable(key any) bool {
	switch key.(type) {
	case nil, bool, int64, float64, string, markup:
		return true
	}
	return false
}

// items returns the elements of a list; ok is false for anything else.
func items(v any) (list []any, ok bool) {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			switch item.(type) {
			case nil, bool, int64, float64, string, markup, []any, map[string]any, tuple, *series, *dict, *undefined:
				continue
			}
			fixed := slices.Clone(v)
			for j := i; j < len(fixed); j++ {
				fixed[j] = norm(fixed[j])
			}
			return fixed, true
		}
		return v, true
	case tuple:
		return v, true
	case *group:
		return []any{v.grouper, v.list}, true
	}
	return nil, false
}

// iterate returns what a loop over v goes through, and fails if it can not be
// looped over.
func (s *state) iterate(v any) []any {
	if list, ok := items(v); ok {
		s.work(len(list))
		return list
	}
	if text, ok := textOf(v); ok {
		s.memory(16 * len(text))
		list := make([]any, 0, len(text))
		for _, r := range text {
			list = append(list, string(r))
		}
		return list
	}
	switch v := v.(type) {
	case *series:
		return s.take(v)
	case *undefined:
		v.use()
		return nil
	}
	if keys, _, ok := s.pairs(v); ok {
		return keys
	}
	s.fail("%s is not a list", describe(v))
	return nil
}

// use throws the error of something undefined that is about to be looked at.
func (u *undefined) use() {
	if !u.lenient {
		throw(u.err())
	}
}

// defined returns v unless it is undefined, which it throws.
func defined(v any) any {
	if u, ok := v.(*undefined); ok {
		u.use()
	}
	return v
}

// given is defined for operations that put up with no undefined value, not
// even with that of an inline if without an else.
func (s *state) given(v any) any {
	if _, ok := defined(v).(*undefined); ok {
		throw(&UndefinedError{
			Name: "else", Of: "the inline if", Missing: "else", Kind: "false", File: s.file, Line: s.at.line, Column: s.at.column,
		})
	}
	return v
}

// truth is Python's idea of what counts as true.
func (s *state) truth(v any) bool {
	switch v := defined(v).(type) {
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
	case markup:
		return v != ""
	case *series:
		return s.seriesTruth(v)
	case []any:
		return len(v) > 0
	case tuple:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	case *dict:
		return len(v.keys) > 0
	case *undefined:
		return false
	default:
		return true
	}
}

// length counts what len() does.
func length(v any) (int, bool) {
	if text, ok := textOf(v); ok {
		return utf8.RuneCountInString(text), true
	}
	if list, ok := items(v); ok {
		return len(list), true
	}
	switch v := v.(type) {
	case map[string]any:
		return len(v), true
	case *dict:
		return len(v.keys), true
	case *series:
		return len(v.list), v.kind != generator
	}
	return 0, false
}

// describe names a value's type, for messages.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing (none)"
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	case string, markup:
		return "text"
	case *series:
		return v.what + " (not a list yet: the filter list makes one)"
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case tuple:
		return fmt.Sprintf("a list of %d", len(v))
	case *group:
		return "a group"
	case map[string]any, *dict:
		return "a mapping"
	case *function:
		return "the function " + v.name
	case *namespace:
		return "a namespace"
	case *undefined:
		return "undefined"
	case *loop:
		return "a loop"
	default:
		return "the template"
	}
}

// native turns the result of an expression into plain values.
func (s *state) native(v any, deep int) any {
	s.work(1)
	s.deep(deep)
	switch v := norm(v).(type) {
	case nil, bool, int64, string:
		return v
	case markup:
		return string(v)
	case *series:
		return s.native(s.take(v), deep)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			s.fail("the result is not a finite number")
		}
		return v
	case *undefined:
		v.use()
		return ""
	case *function:
		s.fail("the result is the function %s; to call it, write %s(), and for a key of that name ['%s']", v.name, v.name, v.name)
		return nil
	default:
		if list, ok := items(v); ok {
			s.memory(16 * len(list))
			out := make([]any, len(list))
			for i, item := range list {
				out[i] = s.native(item, deep+1)
			}
			return out
		}
		keys, values, ok := s.pairs(v)
		if !ok {
			s.fail("the result is %s, which is not a value", describe(v))
		}
		s.memory(64 * len(keys))
		out := make(map[string]any, len(keys))
		for i, key := range keys {
			name, ok := textOf(key)
			if !ok {
				s.fail("the result has the key %s, which is not text", shortRepr(key))
			}
			out[name] = s.native(values[i], deep+1)
		}
		return out
	}
}
