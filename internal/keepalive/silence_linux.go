package keepalive

import (
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// notSilent has a connection end when what was sent is not acknowledged for long. A kernel that cannot
// do that makes connections all the same.
func notSilent(silence time.Duration) func(network, address string, socket syscall.RawConn) error {
	return func(network, _ string, socket syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		return socket.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
		})
	}
}
