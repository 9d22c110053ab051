package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// syncData makes what was written into a file durable, without its times.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
