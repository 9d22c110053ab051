package managedfields

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Difference is a field that is otherwise in two forms of an object.
type Difference struct {
	Live, Wanted    any
	IsThere, WillBe bool // whether the live object has it, and the wanted one
	steps           []step
}

// Path names the field for people, such as spec.containers[name="web"].image.
func (d Difference) Path() string {
	var b strings.Builder
	for _, s := range d.steps {
		b.WriteString(s.String())
	}
	return strings.TrimPrefix(b.String(), ".")
}

// Differences are the fields of a set in which two forms of an object differ, in the order of
// their names.
func Differences(live, wanted map[string]any, fields Set) []Difference {
	var found []Difference
	if len(fields) > 0 { // else nothing is managed, rather than all
		compare(Difference{Live: live, Wanted: wanted, IsThere: true, WillBe: true}, fields, &found)
	}
	return found
}

func compare(at Difference, fields Set, found *[]Difference) {
	whole := len(fields) == 0 || !at.IsThere || !at.WillBe || !sameForm(at.Live, at.Wanted)
	if whole {
		if at.IsThere != at.WillBe || !equal(at.Live, at.Wanted) {
			*found = append(*found, at)
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key == "." {
			continue
		}
		next := Difference{steps: append(slices.Clip(at.steps), step(key))}
		next.Live, next.IsThere = step(key).in(at.Live)
		next.Wanted, next.WillBe = step(key).in(at.Wanted)
		compare(next, sub(fields[key]), found)
	}
}

// sameForm reports whether both can have something below them.
func sameForm(a, b any) bool {
	switch a.(type) {
	case map[string]any:
		_, ok := b.(map[string]any)
		return ok
	case []any:
		_, ok := b.([]any)
		return ok
	}
	return false
}

// in is what a step leads to within a value.
func (s step) in(value any) (found any, ok bool) {
	switch value := value.(type) {
	case map[string]any:
		name, isMember := strings.CutPrefix(string(s), "f:")
		if !isMember {
			return nil, false
		}
		found, ok = value[name]
		return found, ok
	case []any:
		if i := s.find(value); i >= 0 {
			return value[i], true
		}
	}
	return nil, false
}

// Declared are the fields in which a live object does not have what is declared. It is for where
// nobody can say what an apply would make of it, so forms that mean the same differ, too.
func Declared(live, declared map[string]any) []Difference {
	return Differences(live, declared, setOf(declared))
}

// setOf are all members of an object; lists are fields as a whole.
func setOf(object map[string]any) Set {
	all := Set{}
	for name, value := range object {
		below := Set{}
		if members, ok := value.(map[string]any); ok {
			below = setOf(members)
			below["."] = map[string]any{} // of an empty mapping nothing is declared but that it is one
		}
		all["f:"+name] = map[string]any(below)
	}
	return all
}

// Undo is a copy of what is declared in which the fields that differ are as they are live. So
// what differs from the declaration is what the differences name, and nothing else.
func Undo(declared map[string]any, differences []Difference) map[string]any {
	undone := any(clone(declared))
	for _, d := range differences {
		undone = put(undone, d.steps, d)
	}
	object, _ := undone.(map[string]any)
	return object
}

// put gives a field within a value the content that it has live.
func put(at any, steps []step, d Difference) any {
	if len(steps) == 0 {
		return clone(d.Live)
	}
	s, last := steps[0], len(steps) == 1
	if name, isMember := strings.CutPrefix(string(s), "f:"); isMember {
		members, ok := at.(map[string]any)
		if !ok {
			members = map[string]any{}
		}
		if last && !d.IsThere {
			delete(members, name)
			return members
		}
		members[name] = put(members[name], steps[1:], d)
		return members
	}
	list, _ := at.([]any)
	i := s.find(list)
	switch {
	case last && !d.IsThere && i >= 0:
		return slices.Delete(list, i, i+1)
	case last && !d.IsThere:
		return list
	case i < 0:
		return append(list, put(nil, steps[1:], d))
	}
	list[i] = put(list[i], steps[1:], d)
	return list
}

func clone(value any) any {
	switch value := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(value))
		for name, v := range value {
			copied[name] = clone(v)
		}
		return copied
	case []any:
		copied := make([]any, len(value))
		for i, v := range value {
			copied[i] = clone(v)
		}
		return copied
	}
	return value
}

// equal compares values of JSON.
func equal(a, b any) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && string(x) == string(y)
}
