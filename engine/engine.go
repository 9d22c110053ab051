// Package engine is the contract between Deployster and whatever runs containers.
//
// Everything that does work in Deployster is one container run: it gets bytes
// on stdin, gives bytes on stdout and stderr, and ends with an exit code. An
// Engine is anything that can do that. A non-zero exit code is data and
// travels in Exit; an error means that the container could not be run at all
// (no daemon, no image, no permission) and says what to do about it.
//
// Adapters live below this directory; engine/enginetest holds the suite that
// every adapter passes and an in-memory fake.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/internal/unwatched"
)

// Engine runs containers. All methods are safe for concurrent use. A cancelled
// context kills the container being run and removes it before Run returns.
type Engine interface {
	// Info asks the engine who it is. It fails with ErrUnavailable when the
	// engine does not answer.
	Info(ctx context.Context) (Info, error)

	// Image makes the image behind ref available according to policy and
	// returns what it resolved to. ref is NAME[:TAG], NAME@DIGEST or an image
	// id. progress, which may be nil, is called from one goroutine at a time.
	// It fails with ErrNoImage when the image is not there and may or cannot
	// be pulled.
	Image(ctx context.Context, ref string, policy PullPolicy, progress func(Progress)) (Image, error)

	// Load puts the images of a docker-save tar into the engine.
	Load(ctx context.Context, tar io.Reader) error

	// Run runs one container to its end and removes it. The removal of one that
	// has ended may go on in the background, behind the back of Containers and
	// until Close at the latest (but see Spec.Passing). Stdin is read until
	// EOF or until the container ends, whichever is first; reading may block
	// for as long as the caller likes, so a container can be started before
	// its input is known. Stdout and stderr are written from one goroutine.
	// An error returned by io.Stdout.Write or io.Stderr.Write kills the
	// container and is returned, wrapped.
	Run(ctx context.Context, spec Spec, io IO) (Exit, error)

	// Containers lists the containers, running or not, that carry all the
	// given labels (an empty value matches any value of that label).
	Containers(ctx context.Context, labels map[string]string) ([]Container, error)

	// Wait blocks until the container with the given id has ended. It fails
	// with ErrNoContainer when there is no such container.
	Wait(ctx context.Context, id string) (Exit, error)

	// Remove kills the container if it runs, and removes it. Removing a
	// container that does not exist is not an error.
	Remove(ctx context.Context, id string) error

	// Close finishes what goes on in the background, for as long as is
	// reasonable, and releases the connection. Other containers are left alone.
	Close() error
}

// Keeper is an engine that keeps the output of containers whose Spec.Kept says so, for as
// long as they are there. Those that are Tied need none: nothing of theirs outlives a process.
type Keeper interface {
	// Logs writes what a container has written until now, as far as that is kept. The lines of a
	// stream are in order, those of the two among each other nearly so, and the last of each may
	// get the end that it lacks. Logs fails with ErrNoContainer when there is no such container.
	Logs(ctx context.Context, id string, streams IO) error
}

// Measurer is an engine whose containers can write to the disk of this machine beside their mounts,
// without a bound.
type Measurer interface {
	// Written returns how many bytes the containers that carry all the given labels have written so,
	// and a directory of the disk that has them.
	Written(ctx context.Context, labels map[string]string) (bytes int64, dir string, err error)
}

// KeptLine is for how many bytes a line counts at least where an engine keeps output: engines
// keep more of it than its text.
const KeptLine = 32

// Info says which engine answers.
type Info struct {
	Name    string // "docker", "oci"
	Version string // as the engine reports it, such as "20.10.24"
	OS      string // "linux"
	Arch    string // GOARCH of the containers it runs, such as "amd64"
	Address string // where it was reached, for people
	Remote  bool   // its file system is not this machine's
	Copies  bool   // it is Remote, and is to give each container a copy of the workspace, where that is mounted read-only
	Works   bool   // it is Remote, and gives a container the directory of Spec.Work
	Pins    bool   // it mounts what Mount.Found says, however its path changes meanwhile; others look whether it was that
	Tied    bool   // a container ends with the process that runs it; Containers lists none that has lost it
}

// Identity tells an engine from others, so that what a run left in it can be looked
// for there later.
type Identity struct {
	ID      string // the same as long as it is the same engine, wherever it is reached; "" if that is not known
	Context string // name of the configuration that led to its address, if it has one
	Local   bool   // its containers are processes of this machine: none runs on when that is started anew
}

// PullPolicy says when an image is fetched from its registry.
type PullPolicy string

// The pull policies; the zero value is not valid.
const (
	PullMissing PullPolicy = "missing"
	PullAlways  PullPolicy = "always"
	PullNever   PullPolicy = "never"
)

// Progress is one report about an image being fetched. Total is 0 while it is
// not known; both count bytes over all layers.
type Progress struct {
	Image   string
	Current int64
	Total   int64
	Sent    bool // it goes from this machine to the engine
}

// Image is an image that the engine holds.
type Image struct {
	Ref    string // as it was asked for
	ID     string // "sha256:…" of the image's configuration: what Run is given to be sure of the content
	Digest string // "sha256:…" of its manifest in a registry, or "" if it never was in one
	OS     string
	Arch   string // GOARCH
}

// Spec says which container to run.
type Spec struct {
	Image      string   // reference or id; must be present in the engine
	Entrypoint string   // replaces the image's entrypoint and drops its command; "" keeps both
	Args       []string // replaces the image's command; nil keeps it
	Env        []string // KEY=VALUE, added to the image's
	WorkDir    string   // "" keeps the image's
	User       string   // "" keeps the image's
	Mounts     []Mount
	Hide       []string // directories of the container, each of which must be there, in its image or a mount: it sees empty ones that nobody can write to in their place
	Work       string   // where it has an empty directory to write to, whoever it runs as, that goes with it; "" is none. Only of an engine whose Info says that it Works
	Labels     map[string]string
	Network    string        // engine's own network name, "none" or "host"; "" is the engine's default
	Timeout    time.Duration // 0 is none; when over, the container is killed and Run fails with ErrTimeout
	Memory     int64         // bytes that all its processes may use, swap included; 0 is the engine's default
	Pids       int64         // how many processes and threads it may have; 0 is the engine's default

	// Offline says that the program needs no network, nor a name, not even localhost.
	// Where Network is "" it gets none, which an engine may have sooner than the
	// network "none".
	Offline bool

	// Passing says that nobody asks how the container ended but who runs it: an engine
	// whose containers outlive that process may remove it by itself once it has ended,
	// and be about to after Close.
	Passing bool

	// Kept, if set, has an engine whose containers outlive the process that runs them keep
	// their output meanwhile (see Keeper): so many bytes of its end at least, where each line
	// counts for KeptLine bytes or more. Else nothing is kept.
	Kept int64

	// Whole says that the program may rely on its input: it starts only when all
	// of stdin, to its EOF, is there for it to read, and never where that cannot
	// be, also if the caller dies. It finds the input in a file. An engine that is
	// elsewhere, or a container that may use little, may have to leave this to the
	// caller's luck for an input of more than 32 KiB.
	Whole bool

	// Hold, if set, lets Run prepare the container at once and start its
	// program only when Hold is closed: what starting costs is paid before the
	// input is known. Timeout counts from then on. The program of a container
	// whose Run was cancelled, or whose caller died, before that never runs. A
	// held container must be given at least one byte of stdin, unless it is Whole.
	Hold <-chan struct{}
}

// Limit makes a run fail when its Timeout, which begins to count, is over. Time in which this process
// was stopped does not count. A ctx that is done ends that.
func (s Spec) Limit(ctx context.Context, fail context.CancelCauseFunc) {
	if s.Timeout <= 0 {
		return
	}
	context.AfterFunc(ctx, unwatched.AfterFunc(s.Timeout, func() { fail(fmt.Errorf("%w after %s", ErrTimeout, s.Timeout)) }))
}

// Mount makes a path of the engine's host visible in the container. Source
// must exist.
type Mount struct {
	Source   string
	Target   string
	ReadOnly bool

	// Found, unless it is zero, is what Source led to when it was checked. An engine on
	// this machine mounts that, or Run fails with ErrReplaced before the program starts.
	Found Found
}

// IO is what a container reads and writes. A nil Stdin is empty; nil writers
// discard.
type IO struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Exit is how a container ended. A container that died by signal n has code
// 128+n.
type Exit struct {
	Code      int
	OOMKilled bool // the kernel killed something in it for lack of memory, whatever the code

	// Ended is when it ended, as the engine noted it, which only Wait tells; zero where that is
	// not known. Who Runs a container has seen it.
	Ended time.Time `json:"ended,omitzero"`
}

// String says how the container ended, in words that follow its name.
func (e Exit) String() string {
	text := fmt.Sprintf("exited with %d", e.Code)
	if e.Code > 128 && e.Code < 128+65 {
		text += fmt.Sprintf(" (%s)", syscall.Signal(e.Code-128))
	}
	if e.OOMKilled {
		text += ", out of memory"
	}
	return text
}

// Container is a container that exists in the engine.
type Container struct {
	ID      string
	Labels  map[string]string
	Started bool // it runs or has run; false for one that was made and never started
	Running bool
	Created time.Time
}

// The errors on which callers branch. Adapters wrap them with what was
// attempted and with advice.
var (
	ErrUnavailable = errors.New("engine is not available")
	ErrNoImage     = errors.New("no such image")
	ErrNoContainer = errors.New("no such container")
	ErrTimeout     = errors.New("timed out")

	// ErrLost is of a container that was at work when its engine was heard of last. It may run
	// on, or be gone; it is not removed, so Containers lists it as long as the engine has it.
	ErrLost = errors.New("how the container ended is not known")
)

// SpecError is that no container can be made of a Spec, or of its image, on whichever machine it is
// tried: what is to be executed is not there, a source of a mount is missing, a bound is none.
// Another error may be trouble of the engine, and be gone the next time.
type SpecError struct{ Cause error }

// Error implements error.
func (e *SpecError) Error() string { return e.Cause.Error() }

// Unwrap implements errors.Is and errors.As.
func (e *SpecError) Unwrap() error { return e.Cause }

// UnreachableError is the error of a pull from a registry that cannot be
// reached. It is ErrNoImage, too, for the image is not to be had; but it does not
// say so, as the registry may well have it.
type UnreachableError struct {
	Registry string
	Cause    error
}

// Error implements error.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("registry %s cannot be reached: %v", e.Registry, e.Cause)
}

// Unwrap implements errors.Is and errors.As.
func (e *UnreachableError) Unwrap() []error { return []error{ErrNoImage, e.Cause} }
