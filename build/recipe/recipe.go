// Package recipe is what jobs run, in the form in which a build group carries it: it is
// collected once, when the group is submitted, and is what every attempt of a job does,
// whatever becomes of the files and the variables that it was made of.
//
// A group carries its recipes as documents of up to PerDocument recipes each, which it
// names as it names files (Name). Jobs that run the same share one recipe.
package recipe

import "time"

// Recipe is what a job runs.
type Recipe struct {
	Image      Image             `json:"image"`
	Entrypoint string            `json:"entrypoint,omitempty"` // in the place of the image's; "" is that
	Args       []string          `json:"args,omitzero"`        // in the place of the image's command; nil is that, unless there is an entrypoint
	Env        map[string]string `json:"env,omitempty"`
	Secrets    map[string]Secret `json:"secrets,omitempty"`  // variables of the environment, by name
	Sources    []Source          `json:"sources,omitempty"`  // sorted by path
	Artifact   string            `json:"artifact,omitempty"` // digest of that which holds the sources, each at its path; "" where there are none
	Plugs      []Plug            `json:"plugs,omitempty"`
	Memory     int64             `json:"memory,omitempty"`  // bytes; 0 is the engine's default
	Pids       int64             `json:"pids,omitempty"`    // processes and threads; 0 is the engine's default
	Network    string            `json:"network,omitempty"` // "" is the engine's default
	Timeout    time.Duration     `json:"timeout,omitempty"` // nanoseconds; 0 is none
	Reuse      Reuse             `json:"reuse,omitempty"`   // "" is unless a plug has no content
}

// Reuse says whether a job uses what jobs of other groups have built of the same inputs.
type Reuse string

// What a definition says of it.
const (
	ReuseAlways Reuse = "always" // whatever is known of its plugs
	ReuseNever  Reuse = "never"
)

// Image is an image as the definition names it, with its content.
type Image struct {
	Image    string `json:"image"`
	ID       string `json:"id,omitempty"`       // of its content in the engine that was asked
	Digest   string `json:"digest,omitempty"`   // of its content in a registry, if it was ever in one
	Unpinned string `json:"unpinned,omitempty"` // why its content is not known: it is what its name means on each worker
}

// Secret is a value that is not here: what an expression comes to over the variables that
// the group carries. Those of them that are secret are read from their files when the job
// is dispatched, and must be what they were.
type Secret struct {
	Value   string `json:"value"`             // as it is written, with its expressions
	Package string `json:"package,omitempty"` // where the expressions may read it: the name, as package.name
	Version string `json:"version,omitempty"` // and its version, as package.version
}

// Source is a file of the workspace, or a directory with all that is in it.
type Source struct {
	Path string `json:"path"` // below the workspace, with slashes
}

// Plug is a file or directory of the worker that a job sees.
type Plug struct {
	Path          string `json:"path"`           // absolute
	ContainerPath string `json:"container_path"` // absolute
	ReadOnly      bool   `json:"read_only,omitempty"`
	Content       string `json:"content,omitempty"` // hash of what it held when the group was submitted; "" is not known
}
