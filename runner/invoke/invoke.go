// Package invoke calls the programs of resource types.
//
// A call is one question to a type, or one of its actions: a program is given a
// JSON document on its stdin, and what it prints is collected. It gets a container
// of its own, or it is one line to a process that serves the calls of many
// resources; the caller sees no difference. While an action runs, the container of
// the call that will follow is created, so that its program only has to start.
//
// What a call is given and what it printed is kept in files, as a transcript for
// people. Whatever leaves this package, to a file, an observer or an error, has its
// secrets masked: Secrets learns them from configurations and from answers.
//
// The package knows how a type is called. What is called when, and what an answer
// means, is the runner's.
package invoke

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/protocol"
)

// DefaultTimeout bounds one call for a resource that sets no timeout, so that an
// image that hangs ends a run rather than a night.
const DefaultTimeout = 30 * time.Minute

// Engine is what calls need of a container engine.
type Engine interface {
	Run(ctx context.Context, spec engine.Spec, io engine.IO) (engine.Exit, error)
}

// Images makes the image behind a reference available in the engine.
type Images interface {
	Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error)
}

// Observer is notified of what happens while calls are made, with secrets masked.
// Its methods are called concurrently and must return quickly.
type Observer interface {
	Pulling(resource, image string, p engine.Progress)
	Calling(resource, action string)
	Output(line Line)
	Warn(resource, action, text string)
}

// Line is one line that a call printed.
type Line struct {
	Resource string
	Action   string
	Attempt  int
	Stream   string // "stdout" or "stderr"
	Text     string
	File     string // the transcript that keeps it; below the workspace, a path from there
}

// Containers is how a run runs its containers. Fields are required unless they say
// otherwise.
type Containers struct {
	Engine Engine
	Images Images
	Traced Engine // Engine, where somebody follows what it runs; may be nil

	Parallelism int               // how many resources are worked on at once, at least 1; so many containers may also be prepared
	Pull        engine.PullPolicy // when an image is fetched
	Network     string            // of every container; "" is the engine's default
	Memory      int64             // bytes of every container; 0 is the engine's default
	Pids        int64             // processes and threads of every container; 0 is the engine's default
	MaxWork     int64             // bytes of the disk that all calls may have left when MayBegin is asked; 0 is DefaultMaxWork
	Remote      bool              // the engine does not see this machine's files: no workspace, and no work directory of this machine
	Copies      bool              // it is Remote, and has a copy of the workspace in each container
	Works       bool              // it is Remote, and has a work directory in each container, which goes with that
	Pins        bool              // the engine mounts what was checked, whatever is in its place by then
	Written     []string          // paths to which types of other runs may have written: no link in them is followed
	Stop        Stop              // may be nil; closed: start nothing new, let running actions finish
	Now         func() time.Time  // the clock
	Reserve     *Reserve          // may be nil: processes that serve end with the run

	Run       string // ULID of this run
	Log       string // id of the deployment log, put on every container
	Place     string // where the resources are, of a manifest that is applied in several places; "" is none
	Workspace string // absolute; mounted read-only into every container
	Work      string // absolute; below it each call has its files
	Forget    bool   // no transcripts are kept, as of a look that nobody reads about
}

// StateDir is what Deployster keeps below the workspace.
func (c *Containers) StateDir() string { return filepath.Join(c.Workspace, engine.StateDir) }

// Target is a resource as the program of its type is called for it. It is used by
// one goroutine at a time.
type Target struct {
	Name    string         // of the resource
	Apart   string         // where the files of its calls are, apart from those of something else of its name; "" is nothing else
	Type    string         // its image, as in the manifest
	Timeout time.Duration  // of each call; 0 is DefaultTimeout
	Image   engine.Image   // of the type
	Mounts  []engine.Mount // its plugs
	Former  bool           // it was made by an earlier run, and is asked or removed: only links in Containers.Written are refused
	Secret  Paths          // which parts of its configuration and state are secret
	Next    *Call          // expected after the next call: its container is created while that one runs

	offline  bool          // what runs the type's own image needs no network, as init answered
	server   *server       // nil when each call takes a container
	calls    int           // so far; numbers their files
	prepared *preparedCall // its container waits to start
}

// runsOwnImage reports whether an invocation runs the image of the type.
func (t *Target) runsOwnImage(i protocol.Invocation) bool {
	return i.Image == "" || i.Image == t.Type
}

// Invoker makes the calls of one run.
type Invoker struct {
	containers Containers
	secrets    *Secrets
	panics     *Panics
	observer   Observer
	images     imageCache
	servers    servers
	left       leftBytes

	written atomic.Pointer[[]string] // see Writes

	slots      chan struct{}  // taken by containers that wait to start
	background sync.WaitGroup // of them
}

// New returns an invoker; nothing is started yet.
func New(c Containers, secrets *Secrets, panics *Panics, observer Observer) *Invoker {
	return &Invoker{containers: c, secrets: secrets, panics: panics, observer: observer, slots: make(chan struct{}, max(1, c.Parallelism))}
}

// Writes says to which paths types of this run may write. No link in them is followed from now on, but for what is
// Target.Former.
func (v *Invoker) Writes(paths []string) { v.written.Store(&paths) }

// unfollowed are the paths in which no link is followed.
func (v *Invoker) unfollowed(former bool) []string {
	if own := v.written.Load(); own != nil && !former {
		return slices.Concat(v.containers.Written, *own)
	}
	return v.containers.Written
}

// Drain ends what runs besides the calls: processes that serve, and containers that
// were created and are not needed. It returns when they have ended, or were given to
// the Reserve. Calls may be made again afterwards.
func (v *Invoker) Drain(ctx context.Context) {
	for _, p := range v.servers.closeAll(v.keeps(ctx)) {
		p.wait(ctx)
	}
	v.background.Wait()
}

// keeps returns what gives a process to the Reserve, or reports that it cannot be. What
// has seen secrets is not kept: it might print them in a run that does not know them.
func (v *Invoker) keeps(ctx context.Context) func(*process) bool {
	if v.containers.Reserve == nil || ctx.Err() != nil || v.containers.Stop.Requested() || !v.secrets.none() {
		return func(*process) bool { return false }
	}
	return func(p *process) bool { return v.containers.Reserve.put(p, v.containers.Now()) }
}
