package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/deployster-go/deployster/internal/atomicfile"
)

// ensure makes sure that there is a file at path and returns where it really
// is: links to a log share its locks and its write-ahead log. A new log is
// built beside path and then put into place, so that no process ever sees half
// a log, and an empty file is always the sign of a lost one.
func ensure(ctx context.Context, path string, l *Log) (real string, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !l.readOnly:
		err = create(ctx, path, l)
	case err == nil && info.IsDir():
		err = errors.New("this is a directory: name a file")
	case err == nil && info.Size() == 0:
		err = corrupt("the file is empty")
	}
	if err != nil {
		return "", err
	}
	if real, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	if l.readOnly { // as a backup that shares files with another one
		return real, nil
	}
	return real, refuseLinked(real)
}

// refuseLinked refuses a log that has more than one name: its locks, write-ahead log and anchor lie
// beside each name, so that processes that open different ones would not know of each other. The name
// that a new one has until it is in place does not count.
func refuseLinked(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	links := linkCount(info)
	if links <= 1 {
		return nil
	}
	unplaced, _ := filepath.Glob(filepath.Join(literal(filepath.Dir(path)), literal(unfinished(path, ""))+"*"))
	for _, name := range unplaced {
		if other, err := os.Lstat(name); err == nil && os.SameFile(info, other) {
			links--
		}
	}
	if links <= 1 {
		return nil
	}
	if info, err = os.Stat(path); err != nil || linkCount(info) <= 1 { // it was put into place meanwhile
		return err
	}
	return fmt.Errorf("the file has %d names (hard links): those who open it by another one would not share its locks and its write-ahead log; find the others with 'find DIR -samefile %s', and remove or copy them", links, path)
}

// linkCount is how many names a file has, 1 if that is not known.
func linkCount(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink) //nolint:unconvert // it has other types elsewhere
	}
	return 1
}

// literal is a pattern that matches a text alone.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(text)
}

func create(ctx context.Context, path string, l *Log) error {
	if to, err := os.Readlink(path); err == nil {
		return fmt.Errorf("this is a link to %s, which does not exist: bring the log back there, or remove the link to begin a new one", to)
	}
	if err := refuseOrphan(path); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := makeDir(dir, atomicfile.SyncDir); err != nil {
		return fmt.Errorf("create the directory of the log: %w", err)
	}
	f, err := os.CreateTemp(dir, unfinished(path, "")+"*") // mode 0600
	if err != nil {
		return fmt.Errorf("create the log: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := f.Close(); err != nil {
		return fmt.Errorf("create the log: %w", err)
	}
	id, err := l.queue.ID(l.now())
	if err != nil {
		return err
	}
	if err := build(ctx, f.Name(), id); err != nil {
		return fmt.Errorf("create the log: %w", err)
	}
	if err := place(f.Name(), path, os.Link); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("put the new log into place: %w", err)
	}
	return atomicfile.SyncDir(dir)
}

// orphans are the files that tell of a log which is not there, and what they
// are. SQLite would play the one into a new log, which it does not belong to;
// the other says that acknowledged events are gone.
func orphans(path string) (files, what []string) {
	for _, f := range [...]struct{ suffix, what string }{{"-wal", "its write-ahead log"}, {anchorSuffix, "its anchor"}} {
		if _, err := os.Lstat(path + f.suffix); err == nil { // else the next step meets the same obstacle
			files, what = append(files, path+f.suffix), append(what, f.what+" "+filepath.Base(path)+f.suffix)
		}
	}
	return files, what
}

// Lost reports whether there was a log at path of which only other files are
// left. Open says so as well, and makes no new one.
func Lost(path string) bool {
	if _, err := os.Lstat(path); err == nil {
		return false
	}
	files, _ := orphans(path)
	return len(files) > 0
}

// refuseOrphan fails where something of a log lies without it.
func refuseOrphan(path string) error {
	files, what := orphans(path)
	if len(files) == 0 {
		return nil
	}
	if _, err := os.Lstat(path); err == nil {
		return nil // another process has created them all since
	}
	return corrupt("the file is gone, but there still is %s; to begin a new log, remove %s as well",
		strings.Join(what, " and "), strings.Join(files, " and "))
}

// makeDir makes dir with the directories above it, and makes them durable: each
// is an entry of its parent.
func makeDir(dir string, sync func(dir string) error) error {
	var parents []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			break // MkdirAll meets any other obstacle as well
		}
		parents = append(parents, filepath.Dir(d))
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for _, d := range parents {
		if err := sync(d); err != nil {
			return err
		}
	}
	return nil
}

// place gives a file its name unless that is taken, which is fs.ErrExist. On a
// file system that has no hard links it is renamed.
func place(file, name string, hardLink func(file, name string) error) error {
	err := hardLink(file, name)
	if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOTSUP) && !errors.Is(err, syscall.EOPNOTSUPP) {
		return err
	}
	if rename := renameNew(file, name); rename != nil {
		return fmt.Errorf("the file system has no hard links, and renaming without replacing fails as well; keep the log on another one: %w", rename)
	}
	return nil
}
