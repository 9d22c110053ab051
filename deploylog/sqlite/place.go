package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Where a log is lies beside it. A log that was copied with it is found to be a copy as long as
// the other one is where it was, and leaves a note there, so that this one knows of it, too. Who
// moves a log leaves none behind.
const (
	placeSuffix = "-place"
	copySuffix  = "-copy" // where the copy is
)

// placed is where a log is.
type placed struct {
	Log  string `json:"log"`
	Path string `json:"path"` // absolute and without links
}

// CopiedError is that a log is a copy of another one that still is there.
type CopiedError struct {
	Log   string // their id
	Path  string
	Other string
}

// Error implements error.
func (e *CopiedError) Error() string {
	dir, name := filepath.Split(e.Path)
	return fmt.Sprintf("%s is a copy of %s: both have the id %s, so each would take the containers of the other for its own, and nothing is written here. "+
		"If this is the one that goes on, as after a restore: rm %[1]s%[4]s. "+
		"If both do, give this one an id of its own: cd %[5]s && for f in %[6]s*; do mv $f old-$f; done && deployster log copy old-%[6]s %[6]s",
		e.Path, e.Other, e.Log, placeSuffix, filepath.Clean(dir), name)
}

// settle finds out whether the log is where it was. It returns a CopiedError for a copy. Where the log is now is noted
// once something is written: to read a log, as a backup, leaves nothing beside it.
func (l *Log) settle() error {
	here := placed{l.id, l.path}
	known, err := readPlace(l.path + placeSuffix)
	switch {
	case err == nil && known == here:
		l.mentionCopy()
		return nil
	case err == nil && known.Log == l.id && l.isElsewhere(known.Path):
		_ = writePlace(known.Path, copySuffix, here)
		return &CopiedError{l.id, l.path, known.Path}
	}
	l.arrived.Store(&here)
	return nil
}

// note takes note of where the log is, if that is new. If no note can be written, the log goes without.
func (l *Log) note() {
	if here := l.arrived.Load(); here != nil && l.arrived.CompareAndSwap(here, nil) {
		_ = os.Remove(l.path + copySuffix) //nolint:gosec // beside the log; it was of another place
		_ = writePlace(l.path, placeSuffix, *here)
	}
}

// mentionCopy says where a copy is that has noted itself.
func (l *Log) mentionCopy() {
	of, err := readPlace(l.path + copySuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil || of.Log != l.id || !l.isElsewhere(of.Path) {
		_ = os.Remove(l.path + copySuffix) // it is gone, or has an id of its own
		return
	}
	l.logger.Warn("the deployment log was copied, and the copy has its id: nothing is written there until it has another", "path", l.path, "copy", of.Path)
}

// isElsewhere reports whether another file at a path is a log of the same id.
func (l *Log) isElsewhere(path string) bool {
	here, err := os.Stat(l.path)
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	if err != nil || os.SameFile(here, there) {
		return false
	}
	// Whoever made the workspace says what the path is: nothing is opened there that is no file.
	if anchor, err := os.Lstat(path + anchorSuffix); err != nil || !anchor.Mode().IsRegular() {
		return false
	}
	a, anchored, err := readAnchor(path)
	return err == nil && anchored && a.log == l.id
}

// maxPlace bounds the file that has a place.
const maxPlace = 64 << 10

func readPlace(file string) (p placed, err error) {
	info, err := os.Lstat(file)
	if err != nil {
		return p, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxPlace {
		return p, fmt.Errorf("%s is no file that says where a log is", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(text, &p)
}

// writePlace writes a place beside the log at path.
func writePlace(path, suffix string, p placed) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return makeBeside(path, suffix, append(text, '\n'), os.Rename)
}
