// Package managedfields reads which fields of an object a manager has applied, as servers of
// Kubernetes keep it in metadata.managedFields, and compares two forms of an object in these
// fields alone.
//
// What is set by default, by a controller or by another manager is none of them: it is no
// difference.
package managedfields

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Set is a tree of fields: "f:NAME" is a member, "k:{…}" the item of a list with these keys,
// "v:VALUE" the item of a list that is a set, "i:N" the item at an index, and "." the field
// itself. What has nothing below it is a field as a whole.
type Set map[string]any

// entry is one of metadata.managedFields.
type entry struct {
	Manager     string `json:"manager"`
	Operation   string `json:"operation"`
	Subresource string `json:"subresource"`
	Fields      Set    `json:"fieldsV1"`
}

const apply = "Apply"

func entries(object map[string]any) []entry {
	metadata, _ := object["metadata"].(map[string]any)
	text, err := json.Marshal(metadata["managedFields"])
	if err != nil {
		return nil
	}
	var all []entry
	if err := json.Unmarshal(text, &all); err != nil {
		return nil // a form of later servers: as if nobody had applied it
	}
	return all
}

// Applied are the fields of an object that a manager has applied. ok is false where it has applied none.
func Applied(object map[string]any, manager string) (fields Set, ok bool) {
	for _, e := range entries(object) {
		if e.Manager == manager && e.Operation == apply && e.Subresource == "" {
			fields, ok = Union(fields, e.Fields), true
		}
	}
	return fields, ok
}

// Managers are those that have applied or changed an object, sorted.
func Managers(object map[string]any) []string {
	known := map[string]bool{}
	for _, e := range entries(object) {
		if e.Subresource != "status" {
			known[e.Manager] = true
		}
	}
	return slices.Sorted(maps.Keys(known))
}

// Appliers are the managers that have applied an object, sorted.
func Appliers(object map[string]any) []string {
	known := map[string]bool{}
	for _, e := range entries(object) {
		if e.Operation == apply && e.Subresource == "" {
			known[e.Manager] = true
		}
	}
	return slices.Sorted(maps.Keys(known))
}

// Without is metadata.managedFields of an object without what a manager has applied; ok is false
// where it has applied nothing.
func Without(object map[string]any, manager string) (left []any, ok bool) {
	metadata, _ := object["metadata"].(map[string]any)
	all, _ := metadata["managedFields"].([]any)
	for _, one := range all {
		if e, is := one.(map[string]any); is && e["manager"] == manager && e["operation"] == apply {
			ok = true
			continue
		}
		left = append(left, one)
	}
	return left, ok
}

// Union is what is in either of two sets.
func Union(a, b Set) Set {
	all := Set{}
	maps.Copy(all, a)
	for key, below := range b {
		all[key] = map[string]any(Union(sub(all[key]), sub(below)))
	}
	return all
}

func sub(v any) Set {
	switch v := v.(type) {
	case map[string]any:
		return v
	case Set:
		return v
	}
	return nil
}

// Paths are the fields in the form in which servers name them in conflicts, such as
// .spec.template.spec.containers[name="web"].image, sorted.
func (s Set) Paths() []string {
	var all []string
	s.paths("", &all)
	slices.Sort(all)
	return all
}

func (s Set) paths(at string, all *[]string) {
	if at != "" && (len(s) == 0 || s["."] != nil) {
		*all = append(*all, at)
	}
	for key, below := range s {
		if key != "." {
			sub(below).paths(at+step(key).String(), all)
		}
	}
}

// step is a key of a Set, as a part of a path.
type step string

// String is the form in which servers name it.
func (s step) String() string {
	kind, rest, _ := strings.Cut(string(s), ":")
	switch kind {
	case "f":
		return "." + rest
	case "v":
		return "[=" + rest + "]"
	case "k":
		keys := s.keys()
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(keys)) {
			value, _ := json.Marshal(keys[name])
			parts = append(parts, name+"="+string(value))
		}
		return "[" + strings.Join(parts, ",") + "]"
	default:
		return "[" + rest + "]"
	}
}

// keys are the members by which the item of a list is known.
func (s step) keys() map[string]any {
	return decode[map[string]any](strings.TrimPrefix(string(s), "k:"))
}

func decode[T any](text string) (value T) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		var none T
		return none
	}
	return value
}

// find is where in a list the item is; -1 is nowhere. Keys that the item does not have are taken
// for defaults that it will have.
func (s step) find(list []any) int {
	kind, rest, _ := strings.Cut(string(s), ":")
	switch kind {
	case "k":
		keys := s.keys()
		return slices.IndexFunc(list, func(item any) bool {
			members, ok := item.(map[string]any)
			some := false
			for name, value := range keys {
				has, there := members[name]
				some = some || there
				ok = ok && (!there || equal(has, value))
			}
			return ok && some
		})
	case "v":
		value := decode[any](rest)
		return slices.IndexFunc(list, func(item any) bool { return equal(item, value) })
	case "i":
		var i int
		if n, err := fmt.Sscan(rest, &i); n == 1 && err == nil && i >= 0 && i < len(list) {
			return i
		}
	}
	return -1
}
