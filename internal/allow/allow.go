// Package allow is what a pipeline or an environment lets the revisions of others bring: types, plugs, images, hosts
// and files beyond those that its own definition names.
//
// Who may define it writes the rules. They bound identities whose role is for some pipelines and environments alone.
// Everything is compared as it takes effect: paths after they are cleaned, images by their normalized reference.
package allow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Rules are what revisions may bring. A nil *Rules allows nothing.
type Rules struct {
	Files  []string        `json:"files,omitempty"`  // patterns of paths below the workspace that a revision brings itself
	Types  []string        `json:"types,omitempty"`  // patterns of images of resource types
	Plugs  map[string]Plug `json:"plugs,omitempty"`  // by name
	Images []string        `json:"images,omitempty"` // patterns of images that configurations name
	Hosts  string          `json:"hosts,omitempty"`  // query over the inventory; "" is none
}

// String returns the rules as JSON. Files are last: a long list of them may be cut.
func (r *Rules) String() string {
	if r == nil {
		return "null"
	}
	text, err := json.Marshal(struct {
		Plugs  map[string]Plug `json:"plugs,omitempty"`
		Types  []string        `json:"types,omitempty"`
		Images []string        `json:"images,omitempty"`
		Hosts  string          `json:"hosts,omitempty"`
		Files  []string        `json:"files,omitempty"`
	}{r.Plugs, r.Types, r.Images, r.Hosts, r.Files})
	if err != nil {
		return "" // no field of them can fail
	}
	return string(text)
}

// Plug is where a plug may lead.
type Plug struct {
	Path     string `json:"path"` // or any path below it; relative to the workspace unless it is absolute
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Excess is one thing that a revision asks for and may not bring.
type Excess struct {
	What    string `json:"what"`    // such as plug root
	Asked   string `json:"asked"`   // such as path /
	Allowed string `json:"allowed"` // such as path /srv/gateway; "" is nothing
}

// String says it in one line.
func (e Excess) String() string {
	return fmt.Sprintf("%s: asks for %s; allowed: %s", e.What, e.Asked, cmp.Or(e.Allowed, "nothing"))
}

// Text says each in one line, with an indent.
func Text(all []Excess) string {
	lines := make([]string, len(all))
	for i, e := range all {
		lines[i] = "  " + e.String()
	}
	return strings.Join(lines, "\n")
}

// File reports whether a revision may bring a file itself.
func (r *Rules) File(name string) bool {
	return r != nil && slices.ContainsFunc(r.Files, func(p string) bool { return glob(p, name) })
}

// PlugPath is where a plug may lead at most.
func (r *Rules) PlugPath(name string) (p Plug, known bool) {
	if r == nil {
		return p, false
	}
	p, known = r.Plugs[name]
	return p, known
}

// Mount reports whether a container may see a path of its host: it is at or below that of a plug, and written to only
// if the plug may be.
func (r *Rules) Mount(workspace, asked string, readOnly bool) bool {
	return r != nil && slices.ContainsFunc(slices.Collect(maps.Values(r.Plugs)), func(p Plug) bool {
		return (readOnly || !p.ReadOnly) && Within(workspace, p.Path, asked)
	})
}

// Within reports whether a path is another one, or below it, after both are cleaned. Relative paths are below the
// workspace. What is no path, such as persistentvolumeclaim:NAME, has to be the same text.
func Within(workspace, parent, asked string) bool {
	if isClaim(parent) || isClaim(asked) {
		return parent == asked
	}
	parent, asked = absolute(workspace, parent), absolute(workspace, asked)
	below, err := filepath.Rel(parent, asked)
	return err == nil && filepath.IsLocal(below)
}

func isClaim(path string) bool { return strings.HasPrefix(path, "persistentvolumeclaim:") }

func absolute(workspace, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(workspace, path)
	}
	return filepath.Clean(path)
}

// glob reports whether a name matches a pattern in which * stands for what is in one part of it, and /** at its end
// for everything below.
func glob(pattern, name string) bool {
	if pattern == "**" {
		return true
	}
	if above, all := strings.CutSuffix(pattern, "/**"); all {
		for at := name; ; {
			up := path.Dir(at)
			if up == at || up == "." {
				return false
			}
			if at = up; glob(above, at) {
				return true
			}
		}
	}
	matched, err := path.Match(pattern, name)
	return err == nil && matched
}
