package entrypoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// newInput makes the file, in memory and without a name, that a program is to
// have as its stdin. fillInput may be called later than the program's process
// begins.
func newInput() (*os.File, error) {
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file for the input: %w", err)
	}
	return os.NewFile(uintptr(fd), "stdin"), nil
}

// fillInput puts a framed input into the file, and fails if the input was cut
// short. The file is still read from its beginning.
func fillInput(input *os.File, framed io.Reader) error {
	if err := unframe(io.NewOffsetWriter(input, 0), framed); err != nil {
		return fmt.Errorf("read the input: %w", err)
	}
	return nil
}

// awaitWhole reads the framed input from a descriptor, and puts a file with all
// of it in its place. It gives up when nothing comes for as long as idle, if that
// is not 0: an engine may lose the end of an input when its sender dies.
func awaitWhole(stdin int, idle time.Duration) error {
	input, err := newInput()
	if err != nil {
		return err
	}
	defer func() { _ = input.Close() }()
	if err := fillInput(input, descriptor{stdin, idle}); err != nil {
		return err
	}
	if err := unix.Dup3(int(input.Fd()), stdin, 0); err != nil {
		return fmt.Errorf("leave the input to the program: %w", err)
	}
	return nil
}

// descriptor reads from a file descriptor, which stays open.
type descriptor struct {
	fd   int
	idle time.Duration // the longest time between two reads; 0 is unbounded
}

func (d descriptor) Read(into []byte) (int, error) {
	for {
		if err := d.await(); err != nil {
			return 0, err
		}
		n, err := unix.Read(d.fd, into)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n == 0 && len(into) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// await returns once there is something to read, or the end of input.
func (d descriptor) await() error {
	if d.idle == 0 {
		return nil
	}
	until := time.Now().Add(d.idle)
	for {
		waiting := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(waiting, int(max(0, time.Until(until).Milliseconds())))
		switch {
		case errors.Is(err, unix.EINTR): // a signal is no sign of the sender
		case err != nil:
			return err
		case n == 0:
			return silence(d.idle)
		default:
			return nil
		}
	}
}

// silence is the error of an input of which nothing came for so long.
type silence time.Duration

// Error implements error.
func (s silence) Error() string { return fmt.Sprintf("no input for %s", time.Duration(s)) }
