// Package launch is the process between the tool and a container: this very
// program, executed again under another name.
//
// The tool starts a launcher in a process namespace and a mount namespace of its
// own. As the first process of that namespace it takes everything in it along
// when it dies, and the kernel kills it when the tool dies. All that it mounts
// lives in its mount namespace: nothing of it outlives the container, however
// the tool ends.
//
// A launcher puts an overlay above the image's layers and becomes an OCI runtime
// that runs a container there: its end is the container's. It talks with the tool
// over a socket, its file descriptor 3, in JSON: the tool sends a Request, and
// the launcher a Report if something fails. Its standard streams are the
// container's. Before it has its request it is nothing but a process that ends
// with the tool, so one can be started ahead of its container.
//
// For a container that is held, and for a runtime that would remove what is to
// be looked at when the container has ended, it stays, has the runtime create
// the container, reports that, waits for a Start, and reports the end.
//
// Whoever imports this package is a launcher when it is called by the name Name.
// That is decided in an init function; package internal/entrypoint has this module's
// only other one. Packages are
// initialized in the order of their import paths, so the launcher is at work
// before the tool's other packages have prepared what it does not need, which
// takes them longer than all that it does. And nobody can forget to ask: a
// program that did not ask would start itself again, and again.
package entrypoint

import (
	"encoding/json"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Name is what a launcher is called by, as the zeroth argument. The first one is
// Request.Dir.
const Name = "deployster-container"

// Control is the file descriptor of the socket.
const Control = 3

// Request says which container to create.
type Request struct {
	ID       string
	Dir      string // an empty directory, below which the launcher mounts what it needs
	Rootless bool
	Layers   []string          // directories of the image, the topmost first
	Hide     []string          // directories of the machine in whose place the runtime sees empty ones
	Unified  bool              // the runtime sees one hierarchy of control groups, which it can not change
	Files    map[string]string // put above the image: path to content
	User     string            // USER[:GROUP] as in an image's configuration; names are the image's
	Runtime  string            // absolute path of the runtime; "" only tries what a launcher needs
	Options  []string          // of the runtime, before its command
	Log      string            // file for what the runtime has to say
	Whole    bool              // start the program when the input on stdin, which is framed (package internal/entrypoint), has all come
	Steps    bool              // stay, create the container, report that, and start it when told
	Config   Config
}

// Config is an OCI runtime's config.json. User, home directory and the
// capabilities of somebody who is not root are completed by the launcher, which
// sees the image's files. What it need not look into passes through it as it is:
// to decode that would take it as long as all that it mounts.
type Config struct {
	Version  string          `json:"ociVersion"`
	Process  *specs.Process  `json:"process"`
	Root     *specs.Root     `json:"root"`
	Hostname string          `json:"hostname"`
	Mounts   json.RawMessage `json:"mounts"`
	Linux    json.RawMessage `json:"linux"`
}

// Start tells the launcher of a created container to start its program.
type Start struct{}

// Report is a message of the launcher. Exactly one field is set. A launcher that
// ends without one has done nothing.
type Report struct {
	Becomes bool     `json:",omitempty"` // the launcher becomes the runtime, and ends as the container does; only if not Request.Steps
	Created bool     `json:",omitempty"` // the container waits for Start; only if Request.Steps
	Ended   *int     `json:",omitempty"` // exit code of its program, 128+n for a death by signal n; only if Request.Steps
	Failed  *Failure `json:",omitempty"` // the container could not be created or started
}

// Failure is why there is no container.
type Failure struct {
	Doing   string // what was attempted
	Text    string // how it failed
	Linux   string `json:",omitempty"` // the first version that can do it, if this kernel can not
	Runtime bool   // the runtime said so
}
