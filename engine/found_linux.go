package engine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// mostLinks is how many links the kernel follows on one way.
const mostLinks = 40

// way is how a path leads from the root to a file. Each step is opened from the one
// before: what is renamed meanwhile leads nowhere else.
type way struct {
	steps []step
	links int
}

// step is a file or directory that is open.
type step struct {
	path string // without links
	fd   int
	stat unix.Stat_t
}

func find(name string, hidden *bound, written []bound) (Found, error) {
	if !filepath.IsAbs(name) {
		return Found{}, fmt.Errorf("%q is not an absolute path", name)
	}
	w := &way{}
	defer w.close()
	if err := w.walk(name, written); err != nil {
		return Found{}, err
	}
	if hidden != nil && w.through(*hidden) {
		return Found{}, ErrHidden
	}
	at := w.at()
	return Found{Path: at.path, Device: at.stat.Dev, Inode: at.stat.Ino, Dir: at.stat.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

func (w *way) at() step { return w.steps[len(w.steps)-1] }

// walk goes on from where the way is by a path, or from the root.
func (w *way) walk(name string, written []bound) error {
	if filepath.IsAbs(name) {
		w.close()
		if err := w.enter(unix.AT_FDCWD, "/", "/"); err != nil {
			return err
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			w.back()
			continue
		}
		from := w.at()
		if err := w.enter(from.fd, part, filepath.Join(from.path, part)); err != nil {
			return err
		}
		if w.at().stat.Mode&unix.S_IFMT != unix.S_IFLNK {
			continue
		}
		if err := w.follow(written); err != nil {
			return err
		}
	}
	return nil
}

// enter opens what is in a directory. A directory that is to be mounted when somebody
// enters it is, as it is when a runtime mounts it once more.
func (w *way) enter(dir int, name, path string) error {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	s := step{path: path}
	err := retried(func() (err error) {
		if s.fd, err = unix.Openat(dir, name, flags|unix.O_DIRECTORY, 0); err == unix.ENOTDIR {
			s.fd, err = unix.Openat(dir, name, flags, 0)
		}
		return err
	})
	if err == nil {
		if err = unix.Fstat(s.fd, &s.stat); err != nil {
			_ = unix.Close(s.fd)
		}
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	w.steps = append(w.steps, s)
	return nil
}

// follow goes on to where the link leads at which the way is.
func (w *way) follow(written []bound) error {
	link := w.at()
	for _, b := range written {
		if w.through(b) {
			return &LinkError{Link: link.path, Within: b.path}
		}
	}
	if w.links++; w.links > mostLinks {
		return &os.PathError{Op: "open", Path: link.path, Err: unix.ELOOP}
	}
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(link.fd, "", buffer)
	if err != nil {
		return &os.PathError{Op: "readlink", Path: link.path, Err: err}
	}
	w.back()
	return w.walk(string(buffer[:n]), written)
}

// back leaves the last step. From the root it leads nowhere.
func (w *way) back() {
	if last := len(w.steps) - 1; last > 0 {
		_ = unix.Close(w.steps[last].fd)
		w.steps = w.steps[:last]
	}
}

// through reports whether the way leads through a directory.
func (w *way) through(b bound) bool {
	for _, s := range w.steps {
		if (Found{Device: s.stat.Dev, Inode: s.stat.Ino}).Is(b.info) {
			return true
		}
	}
	return false
}

func (w *way) close() {
	for _, s := range w.steps {
		_ = unix.Close(s.fd)
	}
	w.steps = nil
}

// retried does what a signal may interrupt.
func retried(do func() error) error {
	for {
		if err := do(); err != unix.EINTR { //nolint:errorlint // as the kernel returns it
			return err
		}
	}
}

// Is reports whether it is a file.
func (f Found) Is(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && f.Device == stat.Dev && f.Inode == stat.Ino
}
