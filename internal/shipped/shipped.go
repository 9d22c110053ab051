// Package shipped is the resource types that come inside the Deployster binary:
// which there are, and how an engine gets images of them without a registry and
// without a build.
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

	run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

// Run is what the type's container does: see protocol.Type.Run.
func (t Type) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return t.run(ctx, args, stdin, stdout, stderr)
}

// types lists what ships. Adding a type is adding a line here.
func types() map[string]Type {
	fileType, containerType, networkType := file.Type(), container.Type(), network.Type()
	volumeType, commandType, httpType := volume.Type(), command.Type(), http.Type()
	return map[string]Type{
		"command":   {Summary: command.Summary, Schema: commandType.ConfigSchema, run: commandType.Run},
		"container": {Summary: container.Summary, Schema: containerType.ConfigSchema, run: containerType.Run},
		"file":      {Summary: file.Summary, Schema: fileType.ConfigSchema, run: fileType.Run},
		"http":      {Summary: http.Summary, Schema: httpType.ConfigSchema, run: httpType.Run},
		"network":   {Summary: network.Summary, Schema: networkType.ConfigSchema, run: networkType.Run},
		"volume":    {Summary: volume.Summary, Schema: volumeType.ConfigSchema, run: volumeType.Run},
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
