package python

import "math"

// Native turns the result of an expression into plain values.
func (s *State) Native(v any, deep int) any {
	s.Work(1)
	s.deep(deep)
	switch v := Norm(v).(type) {
	case nil, bool, int64, string:
		return v
	case Markup:
		return string(v)
	case *Series:
		return s.Native(s.take(v), deep)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			s.Fail("the result is not a finite number")
		}
		return v
	case *Undefined:
		v.Use()
		return ""
	case *Function:
		s.Fail("the result is the function %s; to call it, write %s(), and for a key of that name ['%s']", v.Name, v.Name, v.Name)
		return nil
	default:
		if list, ok := Items(v); ok {
			s.Memory(16 * len(list))
			out := make([]any, len(list))
			for i, item := range list {
				out[i] = s.Native(item, deep+1)
			}
			return out
		}
		keys, values, ok := s.Pairs(v)
		if !ok {
			s.Fail("the result is %s, which is not a value", Describe(v))
		}
		s.Memory(64 * len(keys))
		out := make(map[string]any, len(keys))
		for i, key := range keys {
			name, ok := TextOf(key)
			if !ok {
				s.Fail("the result has the key %s, which is not text", ShortRepr(key))
			}
			out[name] = s.Native(values[i], deep+1)
		}
		return out
	}
}
