package identity

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peerOf is the user who has connected.
func peerOf(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("finding out who has connected: %w", err)
	}
	var of *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { of, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, fmt.Errorf("finding out who has connected: %w", err)
	}
	return int(of.Uid), nil
}
