package protocol

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Unknown stands in a planned state, and in the configuration of a resource that is being
// planned, where a value is not known before something was applied.
type Unknown struct{}

// unknownKey is the only member of the object that stands for a value that is not known.
const unknownKey = "$unknown"

// MarshalJSON writes the object that stands for a value that is not known.
func (Unknown) MarshalJSON() ([]byte, error) { return []byte(`{"` + unknownKey + `":true}`), nil }

// IsUnknown reports whether a value of JSON is one that is not known: Unknown, or the
// object {"$unknown": true}.
func IsUnknown(v any) bool {
	if _, ok := v.(Unknown); ok {
		return true
	}
	object, ok := v.(map[string]any)
	return ok && len(object) == 1 && object[unknownKey] == true
}

// UnknownPaths lists where within a value something is not known, in the order of keys.
func UnknownPaths(v any) [][]string {
	var paths [][]string
	walkUnknown(v, nil, func(path []string) { paths = append(paths, slices.Clone(path)) })
	return paths
}

func walkUnknown(v any, path []string, found func([]string)) {
	if IsUnknown(v) {
		found(path)
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			walkUnknown(v[key], append(path, key), found)
		}
	case []any:
		for i, e := range v {
			walkUnknown(e, append(path, fmt.Sprint(i)), found)
		}
	}
}

// ReplaceUnknown returns a value with another in the place of each part that is not known.
// What is given is left alone.
func ReplaceUnknown(v, by any) any {
	if IsUnknown(v) {
		return by
	}
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return v
		}
		c := make(map[string]any, len(v))
		for key, e := range v {
			c[key] = ReplaceUnknown(e, by)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = ReplaceUnknown(e, by)
		}
		return c
	default:
		return v
	}
}

// known refuses a member in which something is not known.
func (f *fields) known(key string) {
	unknown := UnknownPaths(f.object[key])
	if len(unknown) == 0 {
		return
	}
	at := key
	for _, part := range unknown[0] {
		at = join(at, part)
	}
	f.failBare(&AnswerError{Path: at, Message: `must be known: only a planned_state may hold {"$unknown": true}`})
}

// planned reads what a resource will be once its actions are done; nil where that is not
// said.
func (f *fields) planned() map[string]any {
	child, ok := f.child("planned_state")
	if !ok {
		return nil
	}
	if IsUnknown(child.object) {
		f.fail("planned_state", `must be an object whose members may be unknown; leave it out where nothing is known`)
		return nil
	}
	object, _ := ReplaceUnknown(child.object, Unknown{}).(map[string]any)
	return object
}

// Unknowns are the parts of a configuration that are not known yet, as paths such as
// "networks.0.name".
type Unknowns []string

// Has reports whether a part of the configuration is not known, or something within it, or
// what it is within.
func (u Unknowns) Has(path string) bool {
	return slices.ContainsFunc(u, func(unknown string) bool {
		return unknown == path || strings.HasPrefix(unknown, path+".") || strings.HasPrefix(path, unknown+".")
	})
}

// withoutUnknown puts null in the place of what is not known in a configuration, so that it
// decodes to zero, and says what that is.
func withoutUnknown(config json.RawMessage) (json.RawMessage, Unknowns, error) {
	if len(config) == 0 {
		return config, nil, nil
	}
	object, err := parseObject(config)
	if err != nil {
		return nil, nil, err
	}
	var unknown Unknowns
	for _, path := range UnknownPaths(object) {
		unknown = append(unknown, strings.Join(path, "."))
	}
	if unknown == nil {
		return config, nil, nil
	}
	text, err := json.Marshal(ReplaceUnknown(object, nil))
	return text, unknown, err
}
