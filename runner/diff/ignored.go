package diff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/manifest/address"
	"github.com/deployster-go/deployster/schema"
)

// Ignored reports whether a change is at one of some paths, or below it.
func (c Change) Ignored(paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return below(c.Path, path) })
}

// Ignoring is one resource that ignores paths, and what can say whether these lead anywhere.
type Ignoring struct {
	Resource string
	Setting  string // ignore_changes or ignore_drift
	Paths    []string
	Config   map[string]any
	There    map[string]any // its state; nil if there is none, or it is not known
	Accepts  *schema.Schema // of its type; nil if that accepts any configuration, or is not known
}

// Unmatched is a path to ignore that matches nothing: it may be mistyped.
type Unmatched struct {
	Resource  string `json:"resource"`
	Instances int    `json:"instances,omitempty"` // of the resource, which all ignore it; 0 if it stands for itself
	Setting   string `json:"setting"`
	Path      string `json:"path"`
}

// String returns a warning, without the name of the resource.
func (u Unmatched) String() string {
	of := ""
	if u.Instances > 0 {
		of = " (in " + phrase.Count(u.Instances, "instance") + ")"
	}
	return fmt.Sprintf("%s: neither its configuration nor its state has %s%s: correct the path, or remove it", u.Setting, u.Path, of)
}

// matching is what a resource says of a path.
type matching int

const (
	unsure matching = iota
	matches
	matchesNothing
)

// FindUnmatched returns the paths that match nothing, in the order of the resources. Instances of
// one resource count together: a path that matches in one of them is none of those.
func FindUnmatched(all []Ignoring) []Unmatched {
	var found []Unmatched
	matched := map[Unmatched]bool{}
	at := map[Unmatched]int{}
	for _, one := range all {
		of, _, instance := address.Split(one.Resource)
		for _, path := range one.Paths {
			key := Unmatched{Resource: of, Setting: one.Setting, Path: path}
			switch one.match(path) {
			case matches:
				matched[key] = true
			case matchesNothing:
				i, ok := at[key]
				if !ok {
					i = len(found)
					at[key], found = i, append(found, key)
				}
				if instance {
					found[i].Instances++
				}
			case unsure:
			}
		}
	}
	return slices.DeleteFunc(found, func(u Unmatched) bool {
		u.Instances = 0
		return matched[u]
	})
}

// PathsOf returns the paths that a setting of a resource, or of an instance, has in vain.
func PathsOf(all []Unmatched, setting, resource string) (paths []string) {
	for _, u := range all {
		if u.Setting == setting && u.Resource == address.Declared(resource) {
			paths = append(paths, u.Path)
		}
	}
	return paths
}

// match finds out whether a path matches anything. Where the schema does not name what the path begins with,
// one that begins with a key of the configuration or of the state may match later.
func (i Ignoring) match(path string) matching {
	if leads(i.Config, path) || leads(i.There, path) {
		return matches
	}
	if i.Accepts != nil {
		switch i.Accepts.Reach(path) {
		case schema.Named:
			return matches
		case schema.Forbidden:
			return matchesNothing
		case schema.Open:
		}
	}
	for _, step := range schema.Steps(path) {
		if has(i.Config, step.Key) || has(i.There, step.Key) {
			return matches
		}
	}
	if i.There == nil {
		return unsure
	}
	return matchesNothing
}

func has(m map[string]any, key string) bool {
	_, ok := m[key]
	return ok
}

// leads reports whether there is something at a path of a value.
func leads(v any, path string) bool {
	if path == "" {
		return true
	}
	return slices.ContainsFunc(schema.Steps(path), func(step schema.Step) bool {
		switch v := v.(type) {
		case map[string]any:
			return has(v, step.Key) && leads(v[step.Key], step.Rest)
		case []any:
			return step.Index >= 0 && step.Index < len(v) && leads(v[step.Index], step.Rest)
		}
		return false
	})
}

// below reports whether a path, as PathText writes it, is another or a part of it.
func below(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
