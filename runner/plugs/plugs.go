// Package plugs decides which directories and sockets of the machine a type is given: those that
// its init asks for, as far as the manifest has them and allows them to its resource.
package plugs

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
)

// Mount turns the requests of a resource's type into mounts. without says which
// optional ones it goes without, and problems what it cannot go without. A plug
// may not lead into the directory kept, which is Deployster's own, nor through a link in what is written; kept is "" if
// plugs are no paths of this machine.
func Mount(m *manifest.Manifest, res *manifest.Resource, requests map[string]protocol.PlugRequest, kept string, written []string) (mounts []engine.Mount, without []string, problems []manifest.Problem) {
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		want := requests[name]
		refuse := func(format string, args ...any) {
			why := fmt.Sprintf(format, args...)
			if want.Optional {
				without = append(without, fmt.Sprintf("goes on without the optional plug %q: %s", name, why))
				return
			}
			problems = append(problems, manifest.Problem{
				Position: res.Position, Path: "resources." + res.Name,
				Message: fmt.Sprintf("%s needs the plug %q: %s", res.Type, name, why),
			})
		}
		plug := res.Plug(m, name)
		switch {
		case plug == nil:
			refuse("%s", res.Lacks(name))
		case !plug.Allows(res.Name, res.Type):
			refuse("the plug at %s does not allow this resource (see its resource_names and resource_types)", plug.Position)
		case want.Writable && plug.ReadOnly:
			refuse("it wants to write, and the plug at %s is read_only", plug.Position)
		default:
			if why := stray(plug, kept, written); why != "" {
				refuse("%s", why)
				continue
			}
			mounts = append(mounts, engine.Mount{Source: plug.Path, Target: filepath.Clean(want.ContainerPath), ReadOnly: !want.Writable})
		}
	}
	return mounts, without, problems
}

// stray returns why a plug may not be mounted for where its path leads, or "". A path that
// cannot be found cannot be mounted either, and is reported then.
func stray(plug *manifest.Plug, kept string, written []string) string {
	if kept == "" {
		return ""
	}
	_, err := engine.Finder{Hidden: kept, Written: written}.Find(plug.Path)
	var link *engine.LinkError
	switch {
	case errors.Is(err, engine.ErrHidden):
		return fmt.Sprintf("the path of the plug at %s is within %s, which no type may see: give it another", plug.Position, kept)
	case errors.As(err, &link):
		return fmt.Sprintf("the path of the plug at %s leads through %s, a link that a type may have made in %s: give it the path without the link, or set read_only: true where the plug is %[3]s", plug.Position, link.Link, link.Within)
	}
	return ""
}

// Given is what a resource is given.
type Given struct {
	Resource *manifest.Resource
	Mounts   []engine.Mount
}

// Writers are the types that may write to paths of this machine.
type Writers []writer

type writer struct{ typ, path string }

// WritersOf returns the types that may write to what they are given. Those that may write to / may do anything anyway.
func WritersOf(all []Given) (writers Writers) {
	known := map[writer]bool{}
	for _, g := range all {
		for _, m := range g.Mounts {
			if w := (writer{g.Resource.Type, filepath.Clean(m.Source)}); !m.ReadOnly && w.path != "/" && !known[w] {
				known[w] = true
				writers = append(writers, w)
			}
		}
	}
	return writers
}

// Paths are those to which they may write.
func (w Writers) Paths() (paths []string) {
	for _, one := range w {
		if !slices.Contains(paths, one.path) {
			paths = append(paths, one.path)
		}
	}
	return paths
}

// Nested returns a problem for each path that a resource is given below one that another type may write to. That type
// could put something else in its place while an engine that does not Pin mounts it.
func (w Writers) Nested(g Given) (problems []manifest.Problem) {
	for _, m := range g.Mounts {
		at := slices.IndexFunc(w, func(w writer) bool {
			return w.typ != g.Resource.Type && strings.HasPrefix(filepath.Clean(m.Source), w.path+"/")
		})
		if at < 0 {
			continue
		}
		problems = append(problems, manifest.Problem{
			Position: g.Resource.Position, Path: "resources." + g.Resource.Name,
			Message: fmt.Sprintf("%s is given the plug %s, which %s could replace by something else: it may write to %s; give one of them a path elsewhere, or use --engine oci", g.Resource.Type, m.Source, w[at].typ, w[at].path),
		})
	}
	return problems
}
