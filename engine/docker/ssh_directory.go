package docker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/internal/filelock"
)

// socketDirectory holds the sockets of one process, which alone may enter it. Its lock is held
// as long as the process lives: a directory whose lock is free is left over.
type socketDirectory struct {
	path string
	lock *os.File
	made atomic.Int64 // sockets so far
}

const (
	socketPrefix  = "deployster-ssh-"
	socketLock    = "lock"
	longestSocket = 80 // bytes of a path; ssh appends 17, and the system takes 107 (elsewhere 103)
)

// newSocketDirectory makes the directory of this process, below XDG_RUNTIME_DIR or a directory
// for temporary files, and removes those of dead processes.
func newSocketDirectory(env func(string) string) (*socketDirectory, error) {
	var failed error
	for _, parent := range []string{env("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if parent == "" || len(parent)+len(socketPrefix)+len("/1234567890/s1234") > longestSocket {
			continue
		}
		sweepSockets(parent)
		made, err := makeSocketDirectory(parent)
		if err == nil {
			return made, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, fmt.Errorf("make a directory for the sockets of ssh: %w; set XDG_RUNTIME_DIR to a writable directory with a short path", failed)
}

func makeSocketDirectory(parent string) (*socketDirectory, error) {
	for {
		path, err := os.MkdirTemp(parent, socketPrefix) // with mode 0700
		if err != nil {
			return nil, err
		}
		lock, err := os.OpenFile(filepath.Join(path, socketLock), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
		held, err := filelock.Hold(lock)
		if err == nil && held {
			return &socketDirectory{path: path, lock: lock}, nil
		}
		_ = lock.Close()
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
		// Another process took it for left over: it removes it.
	}
}

// sweepSockets removes directories of dead processes of this user. What cannot be removed
// is in nobody's way.
func sweepSockets(parent string) {
	found, _ := filepath.Glob(filepath.Join(parent, socketPrefix+"*"))
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() {
			continue
		}
		if owner, is := info.Sys().(*syscall.Stat_t); !is || int(owner.Uid) != os.Geteuid() {
			continue
		}
		lock, err := filelock.Try(filepath.Join(path, socketLock), filelock.Exclusive)
		switch {
		case err == nil && lock != nil:
			_ = os.RemoveAll(path)
			lock.Release()
		case errors.Is(err, os.ErrNotExist) && time.Since(info.ModTime()) > time.Minute:
			_ = os.Remove(path) // its process died before it made a lock
		}
	}
}

// next returns the paths of two sockets that do not exist yet.
func (d *socketDirectory) next() (control, socket string) {
	n := strconv.FormatInt(d.made.Add(1), 10)
	return filepath.Join(d.path, "c"+n), filepath.Join(d.path, "s"+n)
}

func (d *socketDirectory) remove() error {
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}
