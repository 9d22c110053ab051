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
// may not lead into the directory kept, which is Deployster's own; "" is none.
func Mount(m *manifest.Manifest, res *manifest.Resource, requests map[string]protocol.PlugRequest, kept string) (mounts []engine.Mount, without []string, problems []manifest.Problem) {
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
			if why := stray(m, plug, kept); why != "" {
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
func stray(m *manifest.Manifest, plug *manifest.Plug, kept string) string {
	if kept == "" {
		return ""
	}
	_, err := engine.Finder{Hidden: kept, Written: Written(m)}.Find(plug.Path)
	var link *engine.LinkError
	switch {
	case errors.Is(err, engine.ErrHidden):
		return fmt.Sprintf("the path of the plug at %s is within %s, which no type may see: give it another", plug.Position, kept)
	case errors.As(err, &link):
		return fmt.Sprintf("the path of the plug at %s leads through %s, a link that a type may have made in %s: give it the path without the link, or set read_only: true where the plug is %[3]s", plug.Position, link.Link, link.Within)
	}
	return ""
}

// Written returns the paths of the plugs to which types may write.
func Written(m *manifest.Manifest) []string {
	var all []string
	for _, p := range m.Plugs {
		if !p.ReadOnly {
			all = append(all, p.Path)
		}
	}
	return all
}

// Given is what a resource is given.
type Given struct {
	Resource *manifest.Resource
	Mounts   []engine.Mount
}

// Nested returns a problem for each resource that is given a path below one that another type
// may write to. That type could put something else in its place while an engine that does not
// Pin mounts it. Types that may write to / may do anything anyway.
func Nested(all []Given) []manifest.Problem {
	type writer struct{ typ, path string }
	var writers []writer
	for _, g := range all {
		for _, m := range g.Mounts {
			if w := (writer{g.Resource.Type, filepath.Clean(m.Source)}); !m.ReadOnly && w.path != "/" && !slices.Contains(writers, w) {
				writers = append(writers, w)
			}
		}
	}
	var problems []manifest.Problem
	for _, g := range all {
		for _, m := range g.Mounts {
			at := slices.IndexFunc(writers, func(w writer) bool {
				return w.typ != g.Resource.Type && strings.HasPrefix(filepath.Clean(m.Source), w.path+"/")
			})
			if at < 0 {
				continue
			}
			problems = append(problems, manifest.Problem{
				Position: g.Resource.Position, Path: "resources." + g.Resource.Name,
				Message: fmt.Sprintf("%s is given the plug %s, which %s could replace by something else: it may write to %s; give one of them a path elsewhere, or use --engine oci", g.Resource.Type, m.Source, writers[at].typ, writers[at].path),
			})
		}
	}
	return problems
}
