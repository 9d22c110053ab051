// Package hidden finds where a value has something that is not to be seen.
package hidden

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/invoke"
)

// Mask returns a value with what is known to be secret hidden.
type Mask func(any) any

// Places are those in a value that hold secrets. Of a list it is the list. whole are the places
// of values that are nothing but a secret.
func Places(value any, mask Mask) (places, whole [][]string) { return within(value, nil, mask) }

func within(part any, path []string, mask Mask) (places, whole [][]string) {
	at := func(item any, key string) {
		some, secret := within(item, append(path[:len(path):len(path)], key), mask)
		places, whole = append(places, some...), append(whole, secret...)
	}
	switch part := part.(type) {
	case map[string]any:
		for key, item := range part {
			at(item, key)
		}
	case []any:
		for i, item := range part {
			at(item, strconv.Itoa(i))
		}
		if len(places) > 0 {
			places = [][]string{path}
		}
	default:
		hidden := mask(part)
		if diff.Same(hidden, part) {
			return nil, nil
		}
		places = [][]string{path}
		if hidden == invoke.Masked {
			whole = places
		}
	}
	return places, whole
}

// Values are the paths of the values below mappings that are not to be seen: those that are
// marked, and those that hold secrets.
func Values(v any, path []string, marked func([]string) bool, mask Mask) (found [][]string) {
	switch v := v.(type) {
	case map[string]any:
		if marked(path) {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			found = append(found, Values(v[key], append(slices.Clone(path), key), marked, mask)...)
		}
		return found
	case nil, bool:
		if !marked(path) {
			return nil
		}
	default:
		if !marked(path) && diff.Same(mask(v), v) {
			return nil
		}
	}
	return [][]string{path}
}

// Former is what of a value is not wanted any more: of a text its lines, of a list its items, of a
// mapping its members, also where it is an item that is wanted otherwise at the same place.
func Former(was, wanted any) any {
	switch is := wanted.(type) {
	case string:
		if text, ok := was.(string); ok {
			lines := strings.Split(is, "\n")
			return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return slices.Contains(lines, line) }), "\n")
		}
	case []any:
		if list, ok := was.([]any); ok {
			return formerItems(list, is)
		}
	case map[string]any:
		if members, ok := was.(map[string]any); ok {
			return formerMembers(members, is)
		}
	}
	if diff.Same(was, wanted) {
		return nil
	}
	return was
}

func formerItems(list, wanted []any) (former []any) {
	for i, item := range list {
		if slices.ContainsFunc(wanted, func(other any) bool { return diff.Same(item, other) }) {
			continue
		}
		members, isMapping := item.(map[string]any)
		if i < len(wanted) && isMapping {
			if other, ok := wanted[i].(map[string]any); ok {
				former = append(former, formerMembers(members, other))
				continue
			}
		}
		former = append(former, item)
	}
	return former
}

func formerMembers(members, wanted map[string]any) map[string]any {
	former := map[string]any{}
	for key, item := range members {
		if !diff.Same(item, wanted[key]) {
			former[key] = Former(item, wanted[key])
		}
	}
	return former
}
