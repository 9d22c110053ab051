package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Violation is one way in which a value breaks a schema.
type Violation struct {
	Path    []string // keys and, as decimal numbers, indexes; for an unknown property that property
	Rule    string   // the keyword that is broken, such as "type"
	Message string   // without the path; it never shows the value itself
}

// Validate returns all ways in which v breaks the schema, sorted by path; none
// when it keeps it. v is made of maps, slices, text, numbers, booleans and nil.
func (s *Schema) Validate(v any) (found []Violation) {
	v, odd := normal(v, nil)
	if odd != nil {
		return []Violation{*odd}
	}
	w := s.walk(v)
	if w.givenUp != nil {
		return []Violation{*w.givenUp}
	}
	if w.exhausted() || w.steps > maxSteps {
		return []Violation{{Rule: "$ref", Message: "cannot be checked: the schema is too complicated for it"}}
	}
	defer func() {
		if r := recover(); r != nil {
			found = []Violation{{Rule: "$schema", Message: fmt.Sprintf("cannot be checked against the schema: %v", r)}}
		}
	}()
	var detail *jsonschema.ValidationError
	if err := s.root.Validate(v); errors.As(err, &detail) {
		return violations(detail, w)
	}
	return nil
}

// Secrets returns the paths of the parts of v that the schema marks writeOnly,
// sorted; of a secret within a secret only the outer. A part is secret as soon
// as any branch of the schema says so, even one that does not match: what may
// be a secret is treated as one.
func (s *Schema) Secrets(v any) [][]string {
	return s.secrets(v, func(string) bool { return false })
}

// PossibleSecrets is Secrets of a value that is not known wholly: a text that is open
// stands for any value, and is a secret where that may be or hold one.
func (s *Schema) PossibleSecrets(v any, open func(text string) bool) [][]string {
	return s.secrets(v, open)
}

func (s *Schema) secrets(v any, open func(text string) bool) [][]string {
	v, odd := normal(v, nil)
	if odd != nil {
		return [][]string{{}}
	}
	w := s.walk(v)
	if w.exhausted() {
		return [][]string{{}} // everything: better hidden than shown
	}
	var paths [][]string
	w.root.each(func(p *place) bool {
		text, isText := p.value.(string)
		secret := p.secret || isText && open(text) && s.leadsToSecrets(maps.Keys(p.steps))
		if secret {
			paths = append(paths, slices.Concat([]string{}, p.path))
		}
		return !secret
	})
	slices.SortFunc(paths, comparePaths)
	return paths
}

// MarksSecrets reports whether anything may be secret.
func (s *Schema) MarksSecrets() bool {
	return s.leadsToSecrets(slices.Values([]*jsonschema.Schema{s.root}))
}

// leadsToSecrets reports whether anything that some of its schemas are made of is secret.
func (s *Schema) leadsToSecrets(some iter.Seq[*jsonschema.Schema]) bool {
	seen := map[*jsonschema.Schema]bool{}
	for open := slices.Collect(some); len(open) > 0; {
		sch := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[sch] {
			continue
		}
		seen[sch] = true
		if sch.WriteOnly || s.secret[sch] {
			return true
		}
		open = append(open, parts(sch)...)
		if sch.DynamicRef != nil || sch.RecursiveRef != nil {
			for _, anchored := range s.anchored {
				open = append(open, anchored...)
			}
		}
	}
	return false
}

// comparePaths sorts items of lists by number.
func comparePaths(a, b []string) int {
	return slices.CompareFunc(a, b, func(x, y string) int {
		if isIndex(x) && isIndex(y) {
			return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
		}
		return cmp.Compare(x, y)
	})
}

func isIndex(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// normal returns v as the library wants it: maps of text, []any and scalars.
func normal(v any, path []string) (any, *Violation) {
	switch t := v.(type) {
	case map[string]any:
		if len(path) > 1000 {
			return nil, &Violation{Rule: "$schema", Message: "is nested too deeply"}
		}
		out := make(map[string]any, len(t))
		for key, item := range t {
			n, odd := normal(item, append(path, key))
			if odd != nil {
				return nil, odd
			}
			out[key] = n
		}
		return out, nil
	case []any:
		if len(path) > 1000 {
			return nil, &Violation{Rule: "$schema", Message: "is nested too deeply"}
		}
		out := make([]any, len(t))
		for i, item := range t {
			n, odd := normal(item, append(path, fmt.Sprint(i)))
			if odd != nil {
				return nil, odd
			}
			out[i] = n
		}
		return out, nil
	case float64:
		if math.IsNaN(t) || math.IsInf(t, 0) {
			return nil, &Violation{Path: slices.Clone(path), Rule: "type", Message: "must be a finite number"}
		}
		return t, nil
	case json.Number:
		if odd := oddNumber(t); odd != "" {
			return nil, &Violation{Path: slices.Clone(path), Rule: "type", Message: odd}
		}
		return t, nil
	case nil, bool, string, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return v, nil
	default:
		text, err := json.Marshal(v)
		var out any
		if err == nil {
			err = json.Unmarshal(text, &out)
		}
		if err != nil {
			return nil, &Violation{Path: slices.Clone(path), Rule: "type", Message: "must be something that JSON can express: " + err.Error()}
		}
		return out, nil
	}
}
