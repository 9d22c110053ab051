package shipped

import (
	"maps"
	"path/filepath"
	"slices"
)

// key is equal for two resources of a type that manage one thing: of that name, in that
// place. It is "" where the name is not known.
func (c Check) key(t Type, name string, config map[string]any) string {
	if name == "" {
		return ""
	}
	key := t.Name
	path, isPath := config[t.Path].(string)
	isPath = isPath && t.Path != ""
	for _, plug := range slices.Sorted(maps.Keys(t.Plugs)) {
		p := c.Manifest.Plug(plug)
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

// real is a path without links, so far as it exists and this machine can tell.
func (c Check) real(path string) string {
	path = filepath.Clean(path)
	if !c.Here {
		return path
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(c.real(parent), filepath.Base(path))
}
