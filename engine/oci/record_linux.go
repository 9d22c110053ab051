package oci

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/engine"
)

// record is what is known of a container. Its file is a sequence of JSON
// objects of this type, each of which adds to those before; whoever reads one
// that is being written sees less, and nothing wrong.
type record struct {
	Created  time.Time         `json:",omitzero"`
	Labels   map[string]string `json:",omitempty"`
	Tool     *process          `json:",omitempty"` // that runs it
	Launcher *process          `json:",omitempty"`
	Started  bool              `json:",omitempty"`
	Exit     *engine.Exit      `json:",omitempty"`
}

// recordFile is the open file of a container's record.
//
// A lock on it is held by the tool that runs the container, and by one that
// removes what is left of it. Locks belong to the open file, so the kernel
// releases them when nobody has it open any more: the tool, and for a moment
// what that was just starting. Others ask for locks without taking them.
type recordFile struct{ *os.File }

// createRecord makes and locks the record of a new container, whose id it
// returns.
func (d runDir) createRecord(first record) (string, recordFile, error) {
	for {
		id := newID()
		opened, err := os.OpenFile(d.record(id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return "", recordFile{}, fmt.Errorf("make the container's record: %w", err)
		}
		r := recordFile{opened}
		ours, err := r.lock()
		if err == nil && ours {
			if err = r.add(first); err == nil {
				return id, r, nil
			}
			_ = os.Remove(r.Name())
		}
		_ = r.Close()
		if err != nil {
			return "", recordFile{}, fmt.Errorf("make the container's record: %w", err)
		}
		// Another tool, removing orphans, took the file for one whose tool had died before it
		// was locked.
	}
}

// newID makes the id of a container.
func newID() string {
	random := make([]byte, idLength/2)
	_, _ = rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// openRecord opens the record of a container that is there.
func openRecord(file string) (recordFile, error) {
	opened, err := os.OpenFile(file, os.O_RDWR, 0)
	return recordFile{opened}, err
}

// add completes the record.
func (r recordFile) add(more record) error {
	line, err := json.Marshal(more)
	if err != nil {
		return err
	}
	_, err = r.Write(append(line, '\n'))
	return err
}

// largestRecord bounds what is read of a record.
const largestRecord = 16 << 20

// read returns what the record says by now.
func (r recordFile) read() record {
	var known record
	for lines := json.NewDecoder(io.NewSectionReader(r, 0, largestRecord)); ; {
		if lines.Decode(&known) != nil {
			return known
		}
	}
}

// lock takes the lock unless another tool has it, and reports whether the file it is on
// is still the container's.
func (r recordFile) lock() (bool, error) {
	err := unix.FcntlFlock(r.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("lock %s: %w", r.Name(), err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(r.Fd()), &stat); err != nil {
		return false, fmt.Errorf("look at %s: %w", r.Name(), err)
	}
	return stat.Nlink > 0, nil
}

// locked reports whether another tool holds the lock.
func (r recordFile) locked() (bool, error) {
	asked := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(r.Fd(), unix.F_OFD_GETLK, &asked); err != nil {
		return false, fmt.Errorf("look who has locked %s: %w", r.Name(), err)
	}
	return asked.Type != unix.F_UNLCK, nil
}

// runDir is the directory of what is known of running containers, shared by all
// tools of a user.
type runDir string

// The entries of a runDir.
func (d runDir) records() string         { return filepath.Join(string(d), "containers") }
func (d runDir) record(id string) string { return filepath.Join(d.records(), id) }
func (d runDir) log(id string) string    { return d.record(id) + ".log" }           // of the runtime
func (d runDir) mountPoint() string      { return filepath.Join(string(d), "mnt") } // of every launcher, each in its own namespace

// make makes the directory. What others may write to would let them choose what
// is killed and mounted.
func (d runDir) make() error {
	for _, directory := range []string{string(d), d.records(), d.mountPoint()} {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			return fmt.Errorf("make the run directory: %w", err)
		}
		var stat unix.Stat_t
		if err := unix.Lstat(directory, &stat); err != nil {
			return fmt.Errorf("look at the run directory: %w", err)
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFDIR || int(stat.Uid) != os.Geteuid() || stat.Mode&0o022 != 0 {
			return fmt.Errorf("the run directory %s must be a directory of yours that nobody else may write to; remove it or set another", directory)
		}
	}
	return nil
}

// isID reports whether a text is the id of a container of ours: it becomes part of
// paths.
func isID(text string) bool {
	if len(text) != idLength {
		return false
	}
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// idLength is the length of a container's id, in hexadecimal digits.
const idLength = 32
