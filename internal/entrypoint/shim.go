// Package gate holds a container's program back until there is input for it.
//
// Starting a container costs far more than starting a process in it. A
// container that starts with the gate in place of its program pays the greater
// part before its input is known: the gate waits, as process 1, and then becomes
// the program by exec.
//
// There are two. One waits for the first byte on stdin, and reads nothing: what
// is sent to the program may go on for as long as it runs. The other one reads
// all of the input, framed so that it knows when it has all (see Frame), and
// leaves it to the program as a file. Where stdin ends before that, as it does
// when whoever held it dies, the program never runs.
//
// The gate is a word of the tool's own command line (see Word), because the
// tool's static binary is what can be mounted into any container. The word is
// looked at in an init function, for the reason that package
// this one gives for its own: what the tool's other packages
// prepare takes longer than all that the gate does.
package entrypoint

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The words that, as the first argument of a program that imports this package,
// mean that the rest is for Main.
const (
	Word      = "__gate"       // until the first byte
	WholeWord = "__gate-whole" // until all is there; a duration follows, see Whole
)

// Failed is the exit code of a gate that did not become the program. The
// program may end with it, too: what tells them apart is the mark.
const Failed = 125

func init() {
	if len(os.Args) > 1 && (os.Args[1] == Word || os.Args[1] == WholeWord) {
		os.Exit(Main(os.Args[1], os.Args[2:]))
	}
}

// Main waits as the word says and becomes the program. args are a mark, the
// program and the program's arguments. The program is looked for in PATH, at
// once. Main returns only when the program is not to run: it has then written to
// stderr the mark, which the program never learns, and the reason.
func Main(word string, args []string) int {
	mark, reason, wait := "", errors.New("gate: wants a mark and a program"), await
	if word == WholeWord && len(args) > 0 {
		silence, err := time.ParseDuration(args[0])
		wait = func(stdin int) error { return errors.Join(err, Whole(stdin, silence)) }
		args = args[1:]
	}
	if len(args) >= 2 {
		mark, reason = args[0], pass(wait, args[1:])
	}
	// One write, so that whoever looks for the mark finds it whole.
	_, _ = os.Stderr.WriteString(mark + reason.Error())
	return Failed
}

func pass(wait func(stdin int) error, argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	if err := wait(int(os.Stdin.Fd())); err != nil {
		return err
	}
	return fmt.Errorf("exec: %q: %w", argv[0], syscall.Exec(path, argv, os.Environ())) //nolint:gosec // to become what it is told to is its purpose
}

// await returns once there is something to read, and fails at the end of it. A
// container's stdin is a pipe, which is readable only while bytes are in it.
func await(stdin int) error {
	for {
		waiting := []unix.PollFd{{Fd: int32(stdin), Events: unix.POLLIN}}
		_, err := unix.Poll(waiting, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for stdin: %w", err)
		case waiting[0].Revents&unix.POLLIN == 0:
			return errors.New("stdin ended before anything came")
		default:
			return nil
		}
	}
}
