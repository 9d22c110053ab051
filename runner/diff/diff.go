// Package diff compares JSON-like values: what there is with what is configured, and what was
// with what is. The values that are secret are hidden in what it finds.
package diff

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/runner/invoke"
)

// Change is one difference between what is and what is configured.
type Change struct {
	Path string // "ports[0].host", "" for the whole configuration
	Op   Op
	Old  any // nil when Op is Add
	New  any // nil when Op is Remove
}

// Op says how a value differs.
type Op string

// The operations of a diff.
const (
	Add    Op = "+"
	Modify Op = "~"
	Remove Op = "-"
)

// Of lists where a stale state and a configuration disagree, in the
// order of the configuration's keys. The protocol gives configuration and
// state no common form, but types tend to use the same names in both; what
// only the state has is the type's own business and is not listed.
func Of(stale, config map[string]any, secret invoke.Paths) []Change {
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
	if exists && Same(old, wanted) {
		return
	}
	if secret.Cover(path) {
		op := Add
		var was any
		if exists {
			op, was = Modify, invoke.Masked
		}
		*changes = append(*changes, Change{Path: PathText(path), Op: op, Old: was, New: invoke.Masked})
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
	*changes = append(*changes, Change{Path: PathText(path), Op: op, Old: secret.Blank(old, path...), New: secret.Blank(wanted, path...)})
}

// Same compares JSON-like values; 1 and 1.0 are one number.
func Same(a, b any) bool {
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
			if !ok || !Same(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Same)
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

// PathText writes a path as people do: ports[0].host.
func PathText(path []string) string {
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

// Text writes a diff for people, one line a change.
func Text(changes []Change) string {
	if len(changes) == 0 {
		return "  (what state answered and the configuration have no field in common that differs)"
	}
	var b strings.Builder
	for i, c := range changes {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("  " + c.text())
	}
	return b.String()
}

// mostLines are the changes that Lines writes.
const mostLines = 50

// Lines writes a diff for people, a line a change, of which there are at most mostLines, and
// one that counts the others.
func Lines(changes []Change) []string {
	lines := make([]string, 0, min(len(changes), mostLines+1))
	for i, c := range changes {
		if i == mostLines {
			return append(lines, fmt.Sprintf("… and %d more", len(changes)-i))
		}
		lines = append(lines, c.text())
	}
	return lines
}

// text writes a change on one line.
func (c Change) text() string {
	what := fmt.Sprintf("%s %s: ", c.Op, c.Path)
	switch c.Op {
	case Modify:
		return what + valueText(c.Old) + " → " + valueText(c.New)
	case Remove:
		return what + valueText(c.Old)
	default:
		return what + valueText(c.New)
	}
}

// unknown is how JSON has a value that is not known yet.
const unknown = `{"$unknown":true}`

// valueText writes a value on one line, for people: < and > are what they are.
func valueText(v any) string {
	const most = 200
	var encoded strings.Builder
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	text := []rune(strings.ReplaceAll(strings.TrimSuffix(encoded.String(), "\n"), unknown, "(known after apply)"))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// Inverse turns a diff from what is to what is configured around.
func Inverse(diff []Change) []Change {
	turned := make([]Change, len(diff))
	for i, c := range diff {
		turned[i] = Change{Path: c.Path, Op: Modify, Old: c.New, New: c.Old}
		if c.Op == Add {
			turned[i] = Change{Path: c.Path, Op: Remove, Old: c.New}
		}
	}
	return turned
}

// Between lists how two masked values differ. Unlike Of it looks both
// ways: what is gone is listed, too.
func Between(old, now map[string]any) []Change {
	var changes []Change
	betweenMaps(old, now, nil, &changes)
	return changes
}

func betweenMaps(old, now map[string]any, path []string, changes *[]Change) {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(old)), maps.Keys(now))
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		below := append(slices.Clone(path), k)
		was, before := old[k]
		is, after := now[k]
		switch {
		case !after:
			*changes = append(*changes, Change{Path: PathText(below), Op: Remove, Old: was})
		case !before:
			*changes = append(*changes, Change{Path: PathText(below), Op: Add, New: is})
		default:
			betweenValues(was, is, below, changes)
		}
	}
}

func betweenValues(old, now any, path []string, changes *[]Change) {
	switch o := old.(type) {
	case map[string]any:
		if n, ok := now.(map[string]any); ok {
			betweenMaps(o, n, path, changes)
			return
		}
	case []any:
		if n, ok := now.([]any); ok && len(o) == len(n) {
			for i := range o {
				betweenValues(o[i], n[i], append(slices.Clone(path), fmt.Sprint(i)), changes)
			}
			return
		}
	case string:
		// What was masked in the plan stays so, though nothing may have shown
		// by now that it is a secret.
		if strings.Contains(o, invoke.Masked) && o != now {
			now = invoke.Masked
		}
	}
	if !Identical(old, now) {
		*changes = append(*changes, Change{Path: PathText(path), Op: Modify, Old: old, New: now})
	}
}

// Identical compares as hashes do: by the JSON of the values.
func Identical(a, b any) bool {
	x, err := json.Marshal(a)
	y, broken := json.Marshal(b)
	return err == nil && broken == nil && string(x) == string(y)
}
