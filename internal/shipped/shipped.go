// Package shipped is the resource types that come inside the Deployster binary:
// which there are, what is wrong with a manifest that uses them, and how an engine
// gets images of them without a registry and without a build.
//
// A manifest names them deployster/NAME, without a tag. Their images have one
// layer with one file, a static Linux binary of this very program, and run it as
// "deployster type run NAME". Types that are given the same are one image, with a tag
// for each, so that one process can serve all of them (protocol.Several). An image is
// tagged with the hash of what is in it: what an engine holds under that tag need not be
// loaded again, and another build never runs under an old tag.
package shipped

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/command"
	"github.com/deployster-go/deployster/resources/container"
	"github.com/deployster-go/deployster/resources/file"
	"github.com/deployster-go/deployster/resources/http"
	"github.com/deployster-go/deployster/resources/kubernetes"
	"github.com/deployster-go/deployster/resources/network"
	"github.com/deployster-go/deployster/resources/volume"
)

// Type is a resource type that ships with the binary.
type Type struct {
	Name    string // as in deployster/NAME
	Summary string // one line that says what it is for
	Schema  json.RawMessage
	Plugs   map[string]protocol.PlugRequest

	// Image is the property of its configuration that names an image which the engine
	// behind its plug "docker" runs; "" is none.
	Image string

	// Path is the property of its configuration that names what it manages as a path below
	// its only plug; "" is none.
	Path string

	identify func(resource string, config map[string]any) (property, thing string) // nil: its resources manage no thing of their own

	Run Run // what its container does, whatever it is called

	program string // what its image runs: its name, or that of a program of several types
}

// Run is what a container does: see protocol.Type.Run.
type Run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int

// Identify says which thing a resource of the type manages, and the property of
// its configuration that says so. Two resources that manage one thing undo each
// other's work. thing is "" where there is none, or it is not known.
func (t Type) Identify(resource string, config map[string]any) (property, thing string) {
	if t.identify == nil {
		return "", ""
	}
	return t.identify(resource, config)
}

// types lists what ships. Adding a type is adding a line here. Nobody changes it.
// types lists what ships. Adding a type is adding a line here.
var types = sync.OnceValue(func() map[string]Type {
	fileType, containerType, networkType := file.Type(), container.Type(), network.Type()
	volumeType, commandType, httpType, kubernetesType := volume.Type(), command.Type(), http.Type(), kubernetes.Type()
	all := map[string]Type{
		"command":    {Summary: command.Summary, Image: "image", Schema: commandType.ConfigSchema, Plugs: commandType.Plugs, Run: commandType.Run},
		"container":  {Summary: container.Summary, Image: "image", Schema: containerType.ConfigSchema, Plugs: containerType.Plugs, identify: container.Identity, Run: containerType.Run},
		"file":       {Summary: file.Summary, Path: "path", Schema: fileType.ConfigSchema, Plugs: fileType.Plugs, identify: file.Identity, Run: fileType.Run},
		"http":       {Summary: http.Summary, Schema: httpType.ConfigSchema, Plugs: httpType.Plugs, Run: httpType.Run},
		"kubernetes": {Summary: kubernetes.Summary, Schema: kubernetesType.ConfigSchema, Plugs: kubernetesType.Plugs, Run: kubernetesType.Run},
		"network":    {Summary: network.Summary, Schema: networkType.ConfigSchema, Plugs: networkType.Plugs, identify: network.Identity, Run: networkType.Run},
		"volume":     {Summary: volume.Summary, Schema: volumeType.ConfigSchema, Plugs: volumeType.Plugs, identify: volume.Identity, Run: volumeType.Run},
	}
	together := managers()
	for name, t := range all {
		t.program = name
		if _, one := together[name]; one {
			t.program = managing
		}
		all[name] = t
	}
	return all
})

// managing is the program of the types that manage things of the Docker Engine behind a plug.
// They see the same of the world, and one may do what another can. The type command has a program of
// its own, though it sees no more: it runs what users wrote, for as long as they like, and a
// timeout of one resource ends the process, with all that it is doing for others.
const managing = "docker"

func managers() protocol.Several {
	return protocol.Several{"container": container.Type(), "network": network.Type(), "volume": volume.Type()}
}

// Names lists the types, sorted.
func Names() []string { return slices.Sorted(maps.Keys(types())) }

// Lookup finds a type by its name.
func Lookup(name string) (Type, bool) {
	t, ok := types()[name]
	t.Name = name
	return t, ok
}

// RunOf is what images of types run, by its name: that of a type, or of the program of several,
// which is told with each request which of them is meant.
func RunOf(name string) (Run, bool) {
	if name == managing {
		return managers().Run, true
	}
	t, ok := Lookup(name)
	return t.Run, ok
}
