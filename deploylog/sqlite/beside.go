package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/internal/atomicfile"
)

// openBeside opens a file that belongs to the log at path; there being none is
// fs.ErrNotExist.
func openBeside(path, suffix string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path+suffix, flag, 0) //nolint:gosec // beside the log, wherever its user wants that
	if errors.Is(err, fs.ErrNotExist) {
		if to, dangling := os.Readlink(path + suffix); dangling == nil {
			return nil, fmt.Errorf("its file %s is a link to %s, which does not exist: bring that back, or remove the link and the log is given a new one", path+suffix, to)
		}
	}
	if err != nil {
		return nil, err
	}
	// The log may have been shared since, or kept from others.
	if own, log, err := stats(f, path); err == nil && own.Uid == log.Uid && (own.Gid != log.Gid || own.Mode != log.Mode) {
		likeLog(f, log)
	}
	return f, nil
}

// unfinished is how files are named that are made beside the log at path before
// they get their names, without what makes the names unique.
func unfinished(path, suffix string) string { return "." + filepath.Base(path) + suffix + ".new-" }

// abandonedAfter is when whoever made an unfinished file was killed at it.
const abandonedAfter = time.Hour

// sweep removes what processes left unfinished that were killed, as far as it
// may: it takes little room and does no harm.
func sweep(path string) {
	dir := filepath.Dir(path)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		for _, suffix := range []string{"", anchorSuffix, checkSuffix, placeSuffix, copySuffix} {
			if !strings.HasPrefix(e.Name(), unfinished(path, suffix)) {
				continue
			}
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > abandonedAfter {
				_ = os.Remove(filepath.Join(dir, e.Name()))
			}
		}
	}
}

// createBeside makes a file that belongs to the log at path, whole and durable,
// unless another process was faster.
func createBeside(path, suffix string, content []byte) error {
	err := makeBeside(path, suffix, content, func(from, to string) error { return place(from, to, os.Link) })
	if errors.Is(err, fs.ErrExist) {
		err = atomicfile.SyncDir(filepath.Dir(path))
	}
	return err
}

// makeBeside makes a file that belongs to the log at path, for whom the log belongs to, and has put give it its name.
func makeBeside(path, suffix string, content []byte, put func(from, to string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, unfinished(path, suffix)+"*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() //nolint:gosec // as above
	_, log, err := stats(f, path)
	if err == nil {
		likeLog(f, log)
		_, err = f.Write(content)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = put(f.Name(), path+suffix)
	}
	if err != nil {
		return err
	}
	return atomicfile.SyncDir(dir)
}

// stats are those of a file and of the log that it belongs to.
func stats(f *os.File, path string) (own, log *syscall.Stat_t, err error) {
	ownInfo, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	logInfo, err := os.Stat(path) //nolint:gosec // as above
	if err != nil {
		return nil, nil, err
	}
	own, isStat := ownInfo.Sys().(*syscall.Stat_t)
	log, areStats := logInfo.Sys().(*syscall.Stat_t)
	if !isStat || !areStats {
		return nil, nil, fmt.Errorf("%s has no owner", path)
	}
	return own, log, nil
}

// likeLog gives a file the owner, the group and the mode of the log, as far as
// this process may: whoever may use the log must be able to use what belongs to
// it. SQLite does so with the write-ahead log.
func likeLog(f *os.File, log *syscall.Stat_t) {
	give(f, log, fs.FileMode(log.Mode).Perm()|0o600) // a log that is protected for a while is not so for ever
}

// give gives a file the owner and the group of the log, and a mode.
func give(f *os.File, log *syscall.Stat_t, mode fs.FileMode) {
	if f.Chown(int(log.Uid), int(log.Gid)) != nil && f.Chown(-1, int(log.Gid)) != nil {
		mode &^= 0o070 // its group is not the log's
	}
	_ = f.Chmod(mode)
}

// GiveObject gives a file or a directory of the objects that belong to the log at path
// to who owns the log, as likeLog does, and to its group where that may write the log:
// they may hold secrets, which the log does not, so nobody else gets them. One that was
// not made by this process is left to another owner, as a link may lead to it.
func GiveObject(path string, f *os.File, made bool) {
	own, log, err := stats(f, path)
	if err != nil || !made && own.Uid != log.Uid {
		return
	}
	mode := fs.FileMode(0o600)
	if log.Mode&0o060 == 0o060 {
		mode = 0o660
	}
	if own.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		mode |= mode >> 2 & 0o110
	}
	if own.Uid == log.Uid && own.Gid == log.Gid && fs.FileMode(own.Mode).Perm() == mode {
		return
	}
	give(f, log, mode)
}
