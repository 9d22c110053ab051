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

// shim waits as its role says and becomes its program. The program is looked for
// in PATH, at once. shim returns only when the program is not to run: it has
// then written to stderr the mark, which the program never learns, and the reason.
func shim(role string, args []string) int {
	mark, reason, wait := "", errors.New("the entrypoint shim needs a mark, what is expected and a program"), awaitFirst
	switch {
	case role == roleNow:
		wait = func(int) error { return nil }
	case role == roleAwaitWhole && len(args) > 0:
		idle, err := time.ParseDuration(args[0])
		wait = func(stdin int) error { return errors.Join(err, awaitWhole(stdin, idle)) }
		args = args[1:]
	}
	if len(args) >= 3 {
		if mark, reason = args[0], verify(args[1]); reason == nil {
			reason = become(wait, args[2:])
		}
	}
	// One write, so that a reader that looks for the mark finds it whole.
	_, _ = os.Stderr.WriteString(mark + reason.Error())
	return Failed
}

func become(wait func(stdin int) error, argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	if err := wait(int(os.Stdin.Fd())); err != nil {
		return err
	}
	return fmt.Errorf("exec: %q: %w", argv[0], syscall.Exec(path, argv, os.Environ())) //nolint:gosec // to become the program it is given is its purpose
}

// awaitFirst returns once there is something to read, and fails at the end of
// input. A container's stdin is a pipe, which is readable only while bytes are
// in it.
func awaitFirst(stdin int) error {
	for {
		waiting := []unix.PollFd{{Fd: int32(stdin), Events: unix.POLLIN}}
		_, err := unix.Poll(waiting, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for stdin: %w", err)
		case waiting[0].Revents&unix.POLLIN == 0:
			return errors.New("stdin ended before any input")
		default:
			return nil
		}
	}
}
