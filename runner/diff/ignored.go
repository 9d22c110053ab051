package diff

import (
	"maps"
	"slices"
	"strings"
)

// Ignored reports whether a change is at one of some paths, or below it.
func (c Change) Ignored(paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return below(c.Path, path) })
}

// Unmatched are those of some paths that begin with a key of neither of two values, of which the second
// is what there is. Where nothing is, nothing can be said of them.
func Unmatched(paths []string, config, there map[string]any) (unmatched []string) {
	if there == nil {
		return nil
	}
	keys := slices.Concat(slices.Sorted(maps.Keys(config)), slices.Sorted(maps.Keys(there)))
	for _, path := range paths {
		if !slices.ContainsFunc(keys, func(key string) bool { return below(path, key) }) {
			unmatched = append(unmatched, path)
		}
	}
	return unmatched
}

// below reports whether a path, as PathText writes it, is another or a part of it.
func below(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
