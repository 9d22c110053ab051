package invoke

import (
	"fmt"
	"slices"
)

// Paths are the places in a configuration, or in a state, that hold secrets.
type Paths [][]string

// Add adds places that are not among them.
func (p *Paths) Add(paths [][]string) {
	for _, path := range paths {
		if !slices.ContainsFunc(*p, func(known []string) bool { return slices.Equal(known, path) }) {
			*p = append(*p, path)
		}
	}
}

// Cover reports whether the value at path is, or is part of, a secret.
func (p Paths) Cover(path []string) bool {
	return slices.ContainsFunc(p, func(secret []string) bool {
		return len(secret) <= len(path) && slices.Equal(secret, path[:len(secret)])
	})
}

// Blank returns a copy of a configuration with the secrets replaced.
func (p Paths) Blank(v any, path ...string) any {
	if len(p) == 0 {
		return v
	}
	if p.Cover(path) {
		return Masked
	}
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, e := range v {
			c[k] = p.Blank(e, append(slices.Clone(path), k)...)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = p.Blank(e, append(slices.Clone(path), fmt.Sprint(i))...)
		}
		return c
	default:
		return v
	}
}
