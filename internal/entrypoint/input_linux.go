package entrypoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Input makes the file, in memory and of no name, that a program is to have as
// its stdin. Fill may come later than the program's process.
func Input() (*os.File, error) {
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file for the input: %w", err)
	}
	return os.NewFile(uintptr(fd), "stdin"), nil
}

// Fill puts what was framed into the file, and fails if it is cut short. Whoever
// has the file begins to read at its beginning.
func Fill(input *os.File, framed io.Reader) error {
	if err := unframe(io.NewOffsetWriter(input, 0), framed); err != nil {
		return fmt.Errorf("read the input: %w", err)
	}
	return nil
}

// Whole reads the framed input from a descriptor, and puts a file with all of it
// in its place. It gives up when nothing comes for as long as silence, if that is
// not 0: an engine may lose the end of an input when it loses who sends it.
func Whole(stdin int, silence time.Duration) error {
	input, err := Input()
	if err != nil {
		return err
	}
	defer func() { _ = input.Close() }()
	if err := Fill(input, descriptor{stdin, silence}); err != nil {
		return err
	}
	if err := unix.Dup3(int(input.Fd()), stdin, 0); err != nil {
		return fmt.Errorf("leave the input to the program: %w", err)
	}
	return nil
}

// descriptor reads from a file descriptor, which stays open.
type descriptor struct {
	fd      int
	silence time.Duration // that ends it; 0 is none
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

// await returns once there is something to read, or the end.
func (d descriptor) await() error {
	if d.silence == 0 {
		return nil
	}
	until := time.Now().Add(d.silence)
	for {
		waiting := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(waiting, int(max(0, time.Until(until).Milliseconds())))
		switch {
		case errors.Is(err, unix.EINTR): // by a signal, which says nothing of the input
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("nothing came for %s", d.silence)
		default:
			return nil
		}
	}
}
