package prompt

import (
	"os"

	"golang.org/x/sys/unix"
)

// forget drops what was typed at a terminal and not yet read.
func forget(terminal *os.File) {
	_ = unix.IoctlSetInt(int(terminal.Fd()), unix.TCFLSH, unix.TCIFLUSH) // not a terminal: nothing to drop
}
