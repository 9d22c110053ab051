package expression

import (
	"maps"
	"math"
	"strconv"
	"strings"
)

// filter is what stands after "|".
type filter func(s *state, in any, a *args) any

func builtinFilters() map[string]filter {
	filters := map[string]filter{}
	for _, group := range []map[string]filter{valueFilters(), textFilters(), listFilters(), selectFilters()} {
		maps.Copy(filters, group)
	}
	for alias, name := range map[string]string{"d": "default", "e": "escape", "count": "length"} {
		filters[alias] = filters[name]
	}
	return filters
}

// valueFilters take and give single values.
func valueFilters() map[string]filter {
	return map[string]filter{
		"default": func(s *state, in any, a *args) any {
			v := a.bind("default_value?", "boolean?")
			_, missing := in.(*undefined)
			if missing || (a.flag(v[1], false) && !s.truth(in)) {
				return or(v[0], "")
			}
			return in
		},
		"attr": func(s *state, in any, a *args) any {
			name := a.string(a.bind("name")[0], "")
			if _, ok := lookup(defined(in), name); ok {
				// Python's attr() sees attributes only, never keys.
				return s.missing(describe(in), name, "")
			}
			return s.attribute(in, name, "")
		},
		"length": func(s *state, in any, a *args) any {
			a.bind()
			n, ok := length(defined(in))
			if !ok {
				s.fail("%s has no length", describe(in))
			}
			return int64(n)
		},
		"string": func(s *state, in any, a *args) any { a.bind(); return s.text(in) },
		"int":    intFilter,
		"float": func(s *state, in any, a *args) any {
			standard := or(a.bind("default?")[0], 0.0)
			switch v := defined(in).(type) {
			case string:
				if f, ok := parseFloat(v); ok {
					return f
				}
			default:
				if f, ok := float(v); ok {
					return f
				}
			}
			return standard
		},
		"abs": func(s *state, in any, a *args) any {
			a.bind()
			f, ok := float(defined(in))
			if !ok {
				s.fail("%s is not a number", describe(in))
			}
			if f < 0 {
				return s.sign("-", in)
			}
			return s.sign("+", in)
		},
		"round": roundFilter,
		"tojson": func(s *state, in any, a *args) any {
			v := a.bind("indent?")[0]
			p := printer{s: s}
			indent := ""
			switch n := or(v, nil).(type) {
			case nil:
			case string:
				indent = n
			default:
				width := a.count(n, 0)
				if width > 16 {
					s.fail("tojson indents by at most 16")
				}
				indent = strings.Repeat(" ", int(max(width, 0)))
			}
			if len(indent) > 16 {
				s.fail("tojson indents by at most 16")
			}
			p.json(in, indent, 0)
			return p.String()
		},
		"safe": func(s *state, in any, a *args) any { a.bind(); return s.text(in) },
		"items": func(s *state, in any, a *args) any {
			a.bind()
			if _, missing := in.(*undefined); missing {
				return []any{}
			}
			return itemList(s, in)
		},
	}
}

func itemList(s *state, in any) any {
	keys, values, ok := s.pairs(defined(in))
	if !ok {
		s.fail("%s is not a mapping", describe(in))
	}
	s.memory(48 * len(keys))
	list := make([]any, len(keys))
	for i, key := range keys {
		list[i] = tuple{key, values[i]}
	}
	return list
}

func intFilter(s *state, in any, a *args) any {
	v := a.bind("default?", "base?")
	standard, base := or(v[0], int64(0)), a.count(v[1], 10)
	switch v := defined(in).(type) {
	case string:
		text := strings.ReplaceAll(strings.TrimSpace(v), "_", "")
		lower := strings.ToLower(text)
		for prefix, of := range map[string]int64{"0x": 16, "0o": 8, "0b": 2} {
			if of == base && strings.HasPrefix(lower, prefix) {
				text = text[2:]
			}
		}
		if base < 2 || base > 36 {
			return standard
		}
		if i, err := strconv.ParseInt(text, int(base), 64); err == nil {
			return i
		}
		if f, ok := parseFloat(v); ok {
			return s.truncate(f, standard)
		}
	case float64:
		return s.truncate(v, standard)
	default:
		if i, ok := integer(v); ok {
			return i
		}
	}
	return standard
}

// truncate makes a float whole.
func (s *state) truncate(f float64, standard any) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return standard
	}
	if math.Abs(f) >= math.MaxInt64 {
		s.fail("%s is too large for a whole number", floatText(f))
	}
	return int64(f)
}

// parseFloat reads what Python's float() does, but for inf and nan.
func parseFloat(text string) (float64, bool) {
	text = strings.TrimSpace(text)
	if text == "" || strings.ContainsAny(text, "xXpPiInN") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	return f, err == nil
}

func roundFilter(s *state, in any, a *args) any {
	v := a.bind("precision?", "method?")
	precision, method := a.count(v[0], 0), a.string(v[1], "common")
	if precision > 300 || precision < -300 {
		s.fail("round takes a precision from -300 to 300")
	}
	f, ok := float(defined(in))
	if !ok {
		s.fail("%s is not a number", describe(in))
	}
	scale := math.Pow(10, float64(precision))
	switch method {
	case "common":
		if i, ok := integer(in); ok {
			if precision >= 0 {
				return i
			}
			return int64(math.RoundToEven(f*scale) / scale)
		}
		if precision >= 0 {
			// The decimal expansion decides, as in Python.
			rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(precision), 64), 64)
			return rounded
		}
		return math.RoundToEven(f*scale) / scale
	case "ceil":
		f = math.Ceil(f * scale)
	case "floor":
		f = math.Floor(f * scale)
	default:
		s.fail("round takes the method common, ceil or floor")
	}
	if _, whole := integer(in); whole && precision >= 0 {
		return s.truncate(f/scale, nil)
	}
	return f / scale
}
