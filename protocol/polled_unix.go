//go:build unix

package protocol

import (
	"io"
	"io/fs"
	"os"
	"syscall"
)

// polled reads what stdin does. Where that is a pipe no thread waits in it: to wake one
// for each line, and another for what is asked there, costs more than most answers.
func polled(stdin io.Reader) io.ReadCloser {
	file, is := stdin.(*os.File)
	if !is {
		return io.NopCloser(stdin)
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&fs.ModeNamedPipe == 0 { // a terminal is also its shell's
		return io.NopCloser(stdin)
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return io.NopCloser(stdin)
	}
	own := -1
	err = conn.Control(func(fd uintptr) {
		if own, err = syscall.Dup(int(fd)); err == nil {
			syscall.CloseOnExec(own)
			err = syscall.SetNonblock(own, true)
		}
	})
	if err != nil || own < 0 {
		return io.NopCloser(stdin)
	}
	return os.NewFile(uintptr(own), file.Name()) // which looks whether it blocks
}
