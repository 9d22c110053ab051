// Package snapshotfile keeps snapshots of a deployment log in files: one of each name and
// user, whole or not at all, and of no use to another user, log or history. The name has the version of the form.
package snapshotfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/regularfile"
)

const (
	limit      = 1 << 30 // bytes of a file, which is read as a whole
	unfinished = ".new-" // begins the names of files that are being written

	abandonedAfter = time.Hour // since when whoever wrote an unfinished file was killed at it
)

// file is that of a user: nobody has to believe what others wrote.
func file(dir, name string) string { return filepath.Join(dir, name+"."+strconv.Itoa(os.Geteuid())) }

// Read returns the snapshot of a name that this user wrote; ok is false
// where there is none, or it is damaged. Whoever reads it compares its origin.
func Read(dir, name string) (of Origin, s deploylog.Snapshot, ok bool) {
	text, err := readOwn(file(dir, name))
	if err != nil {
		return of, s, false
	}
	return Decode(name, text)
}

// readOwn reads a file of this user.
func readOwn(path string) ([]byte, error) {
	// A link or a pipe of others leads nowhere.
	f, info, err := regularfile.OpenNoLink(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	own, isStat := info.Sys().(*syscall.Stat_t)
	if !isStat || int(own.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 || info.Size() > limit {
		return nil, fmt.Errorf("%s is not a snapshot of this user's", path)
	}
	text := make([]byte, info.Size())
	_, err = io.ReadFull(f, text)
	return text, err
}

// Write puts a snapshot in the place of the one of its name and this user. share gives the
// directory to whoever may write there, too; made says that it is new. Nothing is synced:
// what a power failure leaves of the file is found to be damaged.
func Write(dir, name string, of Origin, s deploylog.Snapshot, share func(dir *os.File, made bool)) error {
	text, err := Encode(name, of, s)
	if err != nil {
		return err
	}
	if err := makeDir(dir, share); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, unfinished+"*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func makeDir(dir string, share func(dir *os.File, made bool)) error {
	made := true
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		made = false
	} else if err != nil {
		return err
	}
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	share(f, made)
	return f.Close()
}

// Prune removes the snapshots and the indexes that were not written since a time, and what processes left
// unfinished that were killed; with dryRun it removes nothing and returns what it would.
func Prune(dir string, before time.Time, dryRun bool) (all deploylog.Pruned, failed error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return all, fmt.Errorf("prune snapshots: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			failed = errors.Join(failed, pruneIndex(filepath.Join(dir, e.Name()), before, dryRun, &all))
			continue
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		abandoned := strings.HasPrefix(e.Name(), unfinished) && time.Since(info.ModTime()) > abandonedAfter
		if !abandoned && !info.ModTime().Before(before) {
			continue
		}
		if !dryRun {
			err := os.Remove(filepath.Join(dir, e.Name()))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed = fmt.Errorf("prune snapshots: %w", err) // that of another user keeps nobody from the rest
				continue
			}
		}
		all.Add(info)
	}
	return all, failed
}

// pruneIndex removes an index that was not written since a time, with all of its directory, and one that was to go.
func pruneIndex(dir string, before time.Time, dryRun bool, all *deploylog.Pruned) error {
	name := filepath.Base(dir)
	info, err := os.Lstat(filepath.Join(dir, indexFile))
	gone := strings.HasPrefix(name, unfinished)
	if err != nil || !gone && (!strings.HasSuffix(name, indexSuffix) || !info.ModTime().Before(before)) {
		return nil
	}
	if !dryRun {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("prune index: %w", err)
		}
	}
	all.Add(info)
	return nil
}
