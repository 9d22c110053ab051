package engine

import (
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// mounts are those that this process sees. On a machine with many containers there are
// many, so they are read again only when the kernel says that there are others.
type mounts struct {
	mu   sync.Mutex
	file *os.File // of which the kernel says so
	text string
}

// info is the file /proc/self/mountinfo, empty where it cannot be read.
func (m *mounts) info() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file != nil && !m.changed() {
		return m.text
	}
	if m.file == nil {
		fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return ""
		}
		m.file = os.NewFile(uintptr(fd), "/proc/self/mountinfo")
	}
	text, err := io.ReadAll(io.NewSectionReader(m.file, 0, 1<<62))
	if err != nil { // the next look begins anew
		_ = m.file.Close()
		m.file = nil
		return ""
	}
	m.text = string(text)
	return m.text
}

// changed reports whether there may be other mounts than at the last call, or at the
// beginning.
func (m *mounts) changed() bool {
	asked := []unix.PollFd{{Fd: int32(m.file.Fd()), Events: unix.POLLPRI}}
	n, err := unix.Poll(asked, 0)
	return n != 0 || err != nil
}

func (m *mounts) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file != nil {
		_ = m.file.Close()
		m.file = nil
	}
}
