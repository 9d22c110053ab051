package allow

import (
	"maps"
	"slices"
	"strings"
)

// ExcessFiles is what of the files that a revision carries it may not bring: those that are others than the definition's
// own, unless the rules let it bring them. All are SHA-256 by path. Names that begin with a slash are no files.
func (r *Rules) ExcessFiles(own, carries map[string]string) (found []Excess) {
	isFile := func(name string) bool { return !strings.HasPrefix(name, "/") && !r.File(name) }
	for _, name := range slices.Sorted(maps.Keys(carries)) {
		if !isFile(name) || own[name] == carries[name] {
			continue
		}
		e := Excess{What: "file " + name, Asked: "content " + short(carries[name])}
		if own[name] != "" {
			e.Allowed = "content " + short(own[name]) + " of the definition"
		}
		found = append(found, e)
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if _, has := carries[name]; !has && isFile(name) {
			found = append(found, Excess{What: "file " + name, Asked: "no such file", Allowed: "content " + short(own[name]) + " of the definition"})
		}
	}
	return found
}

// short is the beginning of a digest.
func short(digest string) string {
	const shown = 12
	return digest[:min(shown, len(digest))]
}
