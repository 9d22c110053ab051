// Package shipped is the resource types that come inside the Deployster binary:
// which there are, what is wrong with a manifest that uses them, and how an engine
// gets images of them without a registry and without a build.
//
// A manifest names them deployster/NAME, without a tag. Their images have one
// layer with one file, a static Linux binary of this very program, and run it as
// "deployster type run NAME". An image is tagged with the hash of what is in it:
// what an engine holds under that tag need not be loaded again, and another
// build never runs under an old tag.
package shipped

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/command"
	"github.com/deployster-go/deployster/resources/container"
	"github.com/deployster-go/deployster/resources/file"
	"github.com/deployster-go/deployster/resources/http"
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

	run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

// Run is what the type's container does: see protocol.Type.Run.
func (t Type) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return t.run(ctx, args, stdin, stdout, stderr)
}

// Identify says which thing a resource of the type manages, and the property of
// its configuration that says so. Two resources that manage one thing undo each
// other's work. thing is "" where there is none, or it is not known.
func (t Type) Identify(resource string, config map[string]any) (property, thing string) {
	if t.identify == nil {
		return "", ""
	}
	return t.identify(resource, config)
}

// types lists what ships. Adding a type is adding a line here.
func types() map[string]Type {
	fileType, containerType, networkType := file.Type(), container.Type(), network.Type()
	volumeType, commandType, httpType := volume.Type(), command.Type(), http.Type()
	return map[string]Type{
		"command":   {Summary: command.Summary, Image: "image", Schema: commandType.ConfigSchema, Plugs: commandType.Plugs, run: commandType.Run},
		"container": {Summary: container.Summary, Image: "image", Schema: containerType.ConfigSchema, Plugs: containerType.Plugs, identify: container.Identity, run: containerType.Run},
		"file":      {Summary: file.Summary, Path: "path", Schema: fileType.ConfigSchema, Plugs: fileType.Plugs, identify: file.Identity, run: fileType.Run},
		"http":      {Summary: http.Summary, Schema: httpType.ConfigSchema, Plugs: httpType.Plugs, run: httpType.Run},
		"network":   {Summary: network.Summary, Schema: networkType.ConfigSchema, Plugs: networkType.Plugs, identify: network.Identity, run: networkType.Run},
		"volume":    {Summary: volume.Summary, Schema: volumeType.ConfigSchema, Plugs: volumeType.Plugs, identify: volume.Identity, run: volumeType.Run},
	}
}

// Names lists the types, sorted.
func Names() []string { return slices.Sorted(maps.Keys(types())) }

// Lookup finds a type by its name.
func Lookup(name string) (Type, bool) {
	t, ok := types()[name]
	t.Name = name
	return t, ok
}
