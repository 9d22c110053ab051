// Package definition is what a build group is made from, as people write it: a graph of
// packages (packages.yaml) with what each needs to be built and to run, the artifact of it
// that is released, and what its build runs; or a list of jobs (jobs.yaml), each with the
// jobs that it needs (seed "Implementation of build manifest based builds"). Parse tells
// which of the two a file is.
//
// Values that may hold expressions are returned as they are written, with their places:
// they are evaluated when a group is submitted.
package definition

import (
	"time"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Definition is a graph of packages. Their dependencies may form cycles: gcc builds make,
// and make builds gcc. A list of jobs is one, too, without cycles: each of its packages is
// a job, and Build are the jobs that it needs.
type Definition struct {
	Group     string
	Converge  int       // how often packages that need each other are built
	List      bool      // it is a list of jobs
	Artifacts string    // repository of a registry that what is built is pushed to; "" is none
	Packages  []Package // in the order of the file
}

// DefaultConverge builds what is in a cycle with what was released, and once more with
// what that made.
const DefaultConverge = 2

// Package is one package, or a job of a list.
type Package struct {
	Name        string
	At          yamlfile.Position // of the name
	Version     string            // "" is none
	Released    string            // its artifact that exists already; "" is none
	Have        *Released         // where that is; nil: it needs not be known
	Build       []string          // packages that its build needs
	Run         []string          // packages that it needs whenever it is used
	Unbuildable string            // why it cannot be built; "" is that it can
	Job         *Job              // with the defaults of the file; packages that have nothing of their own share it
}

// Released is where a released artifact is. One of both is set.
type Released struct {
	Path     Value  // of a directory of the workspace
	Artifact string // its digest
}

// Value is a text as it is written, which may have expressions.
type Value struct {
	Text string
	At   yamlfile.Position
}

// Job is what the build of a package runs, and where.
type Job struct {
	Image      Value // its text is "" where there is none
	Entrypoint Value
	Args       []Value // nil are those of the image
	Env        map[string]Value
	Secrets    map[string]Value // variables of the environment that are shown nowhere
	Sources    []Value          // files and directories of the workspace
	Plugs      []Plug
	Memory     int64         // bytes; 0 is the engine's default
	Pids       int64         // 0 is the engine's default
	Network    string        // "" is the engine's default
	Timeout    time.Duration // 0 is none
	Reuse      *bool         // whether it uses what other groups have built of the same; nil is unless a plug has no content
	Target     Value         // platform, such as linux/amd64; its text is "" where it is that of the workers
	Workers    Value         // a query over the inventory; its text is "" where all hosts are workers
}

// Plug is a file or directory of the worker that a job sees.
type Plug struct {
	Path          string // absolute
	ContainerPath string // absolute
	ReadOnly      bool
}
