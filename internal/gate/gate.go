// Package gate holds a container's program back until there is input for it.
//
// Starting a container costs far more than starting a process in it. A
// container that starts with the gate in place of its program pays the greater
// part before its input is known: the gate waits, as process 1, for the first
// byte on stdin, and then becomes the program by exec, without having read
// anything. Where stdin ends first, as it does when whoever held it dies, the
// program never runs.
//
// The gate is a word of the tool's own command line (see Word), because the
// tool's static binary is what can be mounted into any container.
package gate

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Word as the first argument of the tool means that the rest is for Main.
const Word = "__gate"

// Failed is the exit code of a gate that did not become the program. The
// program may end with it, too: what tells them apart is the mark.
const Failed = 125

// Main waits until stdin can be read and becomes the program. args are a mark,
// the program and the program's arguments. The program is looked for in PATH,
// at once. Main returns only when the program is not to run: it has then
// written to stderr the mark, which the program never learns, and the reason.
func Main(args []string) int {
	mark, reason := "", errors.New("gate: wants a mark and a program")
	if len(args) >= 2 {
		mark, reason = args[0], pass(args[1:])
	}
	// One write, so that whoever looks for the mark finds it whole.
	_, _ = os.Stderr.WriteString(mark + reason.Error())
	return Failed
}

func pass(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	if err := await(int(os.Stdin.Fd())); err != nil {
		return err
	}
	return fmt.Errorf("exec: %q: %w", argv[0], syscall.Exec(path, argv, os.Environ()))
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
