// Package plugs decides which directories and sockets of the machine a type is given: those that
// its init asks for, as far as the manifest has them and allows them to its resource.
package plugs

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

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
		case kept != "" && leadsInto(kept, plug.Path):
			refuse("the path of the plug at %s is within %s, which no type may see: give it another", plug.Position, kept)
		case want.Writable && plug.ReadOnly:
			refuse("it wants to write, and the plug at %s is read_only", plug.Position)
		default:
			mounts = append(mounts, engine.Mount{Source: plug.Path, Target: filepath.Clean(want.ContainerPath), ReadOnly: !want.Writable})
		}
	}
	return mounts, without, problems
}

// leadsInto reports whether a path is within a directory. What cannot be looked at
// cannot be mounted either, and is reported then.
func leadsInto(dir, name string) bool {
	within, err := engine.Within(dir, name)
	return err == nil && within
}
