package entrypoint

import (
	"encoding/json"
	"path"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Control is the file descriptor of the launcher's socket.
const Control = 3

// Request says which container to create.
type Request struct {
	ID       string
	Dir      string // an empty directory, below which the launcher mounts what it needs
	Rootless bool
	Layers   []string          // directories of the image, the topmost first
	Hide     []string          // directories of the machine in whose place the runtime sees empty ones
	Unified  bool              // the runtime sees one hierarchy of control groups, which it cannot change
	Sources  []Source          // of mounts: the runtime finds each below SourceAt
	Files    map[string]string // put above the image: path to content
	User     string            // USER[:GROUP] as in an image's configuration; names are the image's
	Runtime  string            // absolute path of the runtime; "" only tries what a launcher needs
	Options  []string          // of the runtime, before its command
	Log      string            // file for the messages of the runtime
	Whole    bool              // start the program when all of the input on stdin, which is framed (see Send), has been read
	Steps    bool              // create the container, report that, and start it on a Start
	Config   Config
}

// Source is a file or directory of the machine that was checked.
type Source struct {
	Path   string // without links
	Device uint64
	Inode  uint64
	Dir    bool
}

// SourceAt returns where a launcher shows the source of that number, and nothing else, to the
// runtime. The directory is Request.Dir.
func SourceAt(dir string, number int) string { return path.Join(dir, sourcesDir, strconv.Itoa(number)) }

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

// sourcesDir is what has the sources of mounts, below Request.Dir.
const sourcesDir = "sources"

// Start orders the launcher of a created container to start its program.
type Start struct{}

// Report is a message of the launcher. Exactly one field is set. A launcher that
// ends without one has done nothing.
type Report struct {
	Created bool     `json:",omitempty"` // the container waits for a Start; only if Request.Steps
	Ended   *int     `json:",omitempty"` // exit code of its program, 128+n for a death by signal n
	Failed  *Failure `json:",omitempty"` // the container could not be created or started
}

// Failure is why there is no container.
type Failure struct {
	Doing   string // what was attempted
	Text    string // how it failed
	Linux   string `json:",omitempty"` // the first version that can do it, if this kernel cannot
	Runtime bool   // the runtime reported it

	Replaced bool `json:",omitempty"` // a Source is not what it was
}
