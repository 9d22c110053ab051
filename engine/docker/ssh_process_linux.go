package docker

import "syscall"

// ownSession has a process end when the thread ends that has started it.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
