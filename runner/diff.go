package runner

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/runner/invoke"
)

// difference lists where a stale state and a configuration disagree, in the
// order of the configuration's keys. The protocol gives configuration and
// state no common form, but types tend to use the same names in both; what
// only the state has is the type's own business and is not listed.
func difference(stale, config map[string]any, secret invoke.Paths) []Change {
	var changes []Change
	diffMap(stale, config, nil, secret, &changes)
	return changes
}

func diffMap(old, wanted map[string]any, path []string, secret invoke.Paths, changes *[]Change) {
	keys := make([]string, 0, len(wanted))
	for k := range wanted {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		was, exists := old[k]
		diffValue(was, exists, wanted[k], append(slices.Clone(path), k), secret, changes)
	}
}

func diffValue(old any, exists bool, wanted any, path []string, secret invoke.Paths, changes *[]Change) {
	if exists && same(old, wanted) {
		return
	}
	if secret.Cover(path) {
		op := Add
		var was any
		if exists {
			op, was = Modify, invoke.Masked
		}
		*changes = append(*changes, Change{Path: pathText(path), Op: op, Old: was, New: invoke.Masked})
		return
	}
	switch w := wanted.(type) {
	case map[string]any:
		if o, ok := old.(map[string]any); ok || (!exists && len(w) > 0) {
			diffMap(o, w, path, secret, changes)
			return
		}
	case []any:
		if o, ok := old.([]any); ok && len(o) == len(w) {
			for i := range w {
				diffValue(o[i], true, w[i], append(slices.Clone(path), fmt.Sprint(i)), secret, changes)
			}
			return
		}
	}
	op := Modify
	if !exists {
		op = Add
	}
	*changes = append(*changes, Change{Path: pathText(path), Op: op, Old: secret.Blank(old, path...), New: secret.Blank(wanted, path...)})
}

// same compares JSON-like values; 1 and 1.0 are one number.
func same(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !same(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	default:
		return reflect.DeepEqual(a, b)
	}
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	case float64:
		return n, true
	default:
		return 0, false
	}
}

// pathText writes a path as people do: ports[0].host.
func pathText(path []string) string {
	var b strings.Builder
	for i, p := range path {
		switch {
		case isIndex(p) && i > 0:
			b.WriteString("[" + p + "]")
		case i > 0:
			b.WriteString("." + p)
		default:
			b.WriteString(p)
		}
	}
	return b.String()
}

func isIndex(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// DiffText writes a diff for people, one line a change.
func DiffText(changes []Change) string {
	if len(changes) == 0 {
		return "  (what state answered and the configuration have no field in common that differs)"
	}
	var b strings.Builder
	for i, c := range changes {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "  %s %s: ", c.Op, c.Path)
		switch c.Op {
		case Modify:
			b.WriteString(valueText(c.Old) + " → " + valueText(c.New))
		case Remove:
			b.WriteString(valueText(c.Old))
		default:
			b.WriteString(valueText(c.New))
		}
	}
	return b.String()
}

// valueText writes a value on one line, for people: < and > are what they are.
func valueText(v any) string {
	const most = 200
	var encoded strings.Builder
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	text := []rune(strings.TrimSuffix(encoded.String(), "\n"))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}
