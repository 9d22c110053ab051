package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ValidatePartly is Validate of a value of which some parts are not known yet:
// those at the given paths, whatever stands there. It returns what is wrong
// whatever they will be. That is found out by trying: each round puts other
// values into those places (of every kind, and those that the schema itself
// names as constants), and what is wrong in every round, and elsewhere, counts.
func (s *Schema) ValidatePartly(v any, unknown [][]string) []Violation {
	if len(unknown) == 0 {
		return s.Validate(v)
	}
	places := map[string]int{}
	for i, path := range unknown {
		places[key(path)] = i
	}
	tried := append([]any{nil, true, false, 1, 2.5, []any{}, map[string]any{}}, s.constants...)
	var certain []Violation
	for round := range len(tried) + 1 {
		filled := fill(v, nil, func(path []string) (any, bool) {
			i, ok := places[key(path)]
			if round == len(tried) { // all are text, and none is like another
				return fmt.Sprintf("not known yet, %d", i), ok
			}
			return tried[(round+i)%len(tried)], ok
		})
		found := slices.DeleteFunc(s.Validate(filled), func(v Violation) bool {
			return slices.ContainsFunc(unknown, func(path []string) bool { return startsWith(v.Path, path) })
		})
		if round > 0 {
			found = slices.DeleteFunc(found, func(v Violation) bool {
				return !slices.ContainsFunc(certain, func(c Violation) bool {
					return c.Rule == v.Rule && c.Message == v.Message && slices.Equal(c.Path, v.Path)
				})
			})
		}
		if certain = found; len(certain) == 0 {
			return nil
		}
	}
	return certain
}

func key(path []string) string { return strings.Join(path, "\x00") }

func startsWith(path, with []string) bool {
	return len(path) >= len(with) && slices.Equal(path[:len(with)], with)
}

// fill copies v with other values at some places.
func fill(v any, path []string, at func([]string) (any, bool)) any {
	if other, ok := at(path); ok {
		return other
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = fill(item, append(path[:len(path):len(path)], name), at)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = fill(item, append(path[:len(path):len(path)], strconv.Itoa(i)), at)
		}
		return out
	default:
		return v
	}
}
