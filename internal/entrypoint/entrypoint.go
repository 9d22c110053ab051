// Package entrypoint is what this program is when a container has it executed
// again: in a role before or inside the container, instead of as the tool.
//
// There are four roles. The launcher (Launch) runs on the machine, in namespaces of
// its own, prepares a container and becomes the OCI runtime that runs it. The
// shim (Await, AwaitWhole) runs inside a container, as its first process, and
// becomes the container's program once there is input for it. Another (Prepare) brings the shim, and
// files, into a Pod. The last one (Empty) removes what is in a directory that is mounted, which may
// be another user's than the tool's.
//
// The first two have to be this binary. The launcher works between the creation of
// namespaces and the execution of a runtime, where Go can run no code except in a
// new program. The shim has to run in containers of any image, and this static
// binary is the one that is always there.
//
// A role is asked for by arguments alone (see Word), never by the environment,
// which programs hand down without knowing. Dispatch looks at them and has to be
// called before anything else is done: everything before it is paid at every start of
// a container. That includes the initialization of packages, which for all of the
// program would take longer than the role itself; so it calls Dispatch before most of
// them are (see internal/early).
//
// No role gives anybody a right. The launcher acts only as the first process
// of a process namespace, so it cannot change the mounts of a machine that it was
// started on by hand, and the shim executes what its caller could execute.
//
// # The launcher
//
// The tool starts a launcher in a process namespace and a mount namespace of its
// own. As the first process of that namespace it takes everything in it along
// when it dies, and the kernel kills it when the tool dies. All that it mounts
// lives in its mount namespace: nothing of it outlives the container, however
// the tool ends.
//
// A launcher puts an overlay above the image's layers and has an OCI runtime run a
// container there, whose end it reports. It talks with the tool over a socket, its file
// descriptor Control, in JSON: the tool sends a Request, and the launcher a Report. Its
// standard streams are the container's: the runtime hands them on and ends, so that what
// goes through them wakes nobody between. Before it has its request it is nothing but a
// process that ends with the tool, so one can be started ahead of its container.
//
// For a container that is held, and for a runtime that would remove what has to
// be inspected after the container has ended, it takes two steps: it has the runtime
// create the container, reports that, and waits for a Start.
//
// # The shim
//
// The shim holds a container's program back until there is input for it.
//
// Starting a container costs far more than starting a process in it. A container
// that starts with the shim in place of its program pays the greater part before
// its input is known: the shim waits, as process 1, and then becomes the program
// by exec.
//
// It waits in one of two ways. Await waits for the first byte on stdin and reads
// nothing: what is sent to the program may go on for as long as it runs.
// AwaitWhole reads all of the input, framed so that it knows when it has all, and
// leaves it to the program as a file. Where stdin ends before that, as it does
// when its writer dies, the program never runs.
//
// In a Pod of Kubernetes a container is heard only by who is attached to it, and nobody can
// know when that is; what it writes last may be lost when it ends. There the shim (Pod) waits
// for its caller first, has the program as its child, and ends when its caller has read how
// that ended. What goes between the two are messages: those of the shim have numbers, so that a caller
// whose connection broke reads on in the log of the container.
package entrypoint

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// Word is the first argument of a process that is to take a role. The role
// follows, and then what it needs to know. No command of the tool has this name.
const Word = "__entrypoint"

// The roles.
const (
	roleLaunch     = "launch"
	roleNow        = "now"         // a mark, what is Expected, the program and its arguments follow
	roleAwait      = "await"       // the same
	roleAwaitWhole = "await-whole" // the idle timeout, and then the same
	roleEmpty      = "empty"
	rolePod        = "pod"     // a Pod, the program and its arguments follow
	rolePrepare    = "prepare" // a Prepare follows
)

// LauncherName is the zeroth argument of a launcher, by which others find it.
const LauncherName = "deployster-container"

// dispatches holds whether this program calls Dispatch.
var dispatches atomic.Bool

// Dispatch takes the role that this process was started for and ends the process
// with it. It returns in a process that was started for none.
func Dispatch() {
	dispatches.Store(true)
	if len(os.Args) > 1 && os.Args[1] == Word {
		// Nothing is left to do at its end. os.Exit would have the race detector of tests
		// wait for a second there, in each launcher.
		syscall.Exit(take(os.Args[2:]))
	}
}

// ErrNotDispatched is returned in a program whose main does not call Dispatch.
// Such a program, executed again, would do its own work again instead of the role's.
var ErrNotDispatched = errors.New("this program cannot be executed again for a container: its main does not begin with entrypoint.Dispatch")

// Executable returns the path of this program's file, for use as a shim.
func Executable() (string, error) {
	if !dispatches.Load() {
		return "", ErrNotDispatched
	}
	return os.Executable()
}

// Launch returns the file and the arguments of a launcher. The directory is
// Request.Dir of the container that it will launch; it is an argument so that a
// list of processes shows it.
func Launch(dir string) (file string, argv []string, err error) {
	if !dispatches.Load() {
		return "", nil, ErrNotDispatched
	}
	// This link leads to the program even if its file was replaced.
	return "/proc/self/exe", []string{LauncherName, Word, roleLaunch, dir}, nil
}

// Now returns the arguments of a shim that becomes its program at once, if the container sees
// what is expected. The program and its arguments are to follow.
func Now(mark string, e Expected) []string { return []string{Word, roleNow, mark, e.text()} }

// Await returns the arguments of a shim that becomes its program when the first
// byte can be read from stdin. The program and its arguments are to follow.
func Await(mark string, e Expected) []string { return []string{Word, roleAwait, mark, e.text()} }

// AwaitWhole returns the arguments of a shim that becomes its program when all of
// a framed input (see Send) has been read from stdin. It gives up when nothing
// comes for as long as idle, if that is not 0. The program and its arguments are
// to follow.
func AwaitWhole(mark string, idle time.Duration, e Expected) []string {
	return []string{Word, roleAwaitWhole, idle.String(), mark, e.text()}
}

// Failed is the exit code of a role that could not be taken, and of a shim that
// did not become its program. The program may end with it, too; the mark that a
// shim writes tells the two apart.
const Failed = 125

// refuse reports why a role is not taken to whoever asked for it by hand.
func refuse(why string) int {
	_, _ = fmt.Fprintf(os.Stderr, "%s: %s\n", Word, why)
	return Failed
}
