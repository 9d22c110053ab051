package shipped

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/deployster-go/deployster/manifest"
)

// Key identifies what a resource manages whose configuration is known: equal for two that manage one
// thing. It is "" where its type does not ship, or does not say.
func (c Check) Key(r *manifest.Resource, config map[string]any) string {
	t, ships := typeOf(r.Type)
	if !ships || t.identify == nil {
		return ""
	}
	_, name := t.Identify(r.Name, config)
	return c.key(t, r, name, config)
}

// Thing is what Key identifies, with what of the configuration says so: the property and its value.
func (c Check) Thing(r *manifest.Resource, config map[string]any) (key, property, value string) {
	key = c.Key(r, config)
	if key == "" {
		return "", "", ""
	}
	t, _ := typeOf(r.Type)
	property, value = t.Identify(r.Name, config)
	if text, ok := config[property].(string); ok {
		value = text
	}
	return key, cmp.Or(property, "name"), value
}

// key is equal for two resources of a type that manage one thing: of that name, in that
// place. It is "" where the name is not known.
func (c Check) key(t Type, r *manifest.Resource, name string, config map[string]any) string {
	if name == "" {
		return ""
	}
	key := t.Name
	path, isPath := config[t.Path].(string)
	isPath = isPath && t.Path != ""
	for _, plug := range slices.Sorted(maps.Keys(t.Plugs)) {
		p := r.Plug(c.Manifest, plug)
		switch {
		case p == nil:
		case isPath:
			// Cleaned below the plug first: what is written there may not lead out of it.
			whole := filepath.Join(p.Path, filepath.Join("/", path))
			// A link at its end is what the resource manages.
			return key + "\x00" + filepath.Join(c.real(filepath.Dir(whole)), filepath.Base(whole))
		default:
			key += "\x00" + plug + "=" + c.real(p.Path)
		}
	}
	return key + "\x00" + name
}

// mostLinks is how many links that lead to nothing yet are followed.
const mostLinks = 40

// real is a path without links, so far as this machine can tell. What is not there yet may be
// below a link, or be where a link leads: it is made there.
func (c Check) real(path string) string {
	if !c.Here {
		return filepath.Clean(path)
	}
	left := mostLinks
	return followed(filepath.Clean(path), &left)
}

func followed(path string, left *int) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	parent = followed(parent, left)
	path = filepath.Join(parent, filepath.Base(path))
	to, err := os.Readlink(path)
	if *left--; err != nil || *left < 0 {
		return path
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(parent, to)
	}
	return followed(filepath.Clean(to), left)
}
