// Package contents finds out what files and directories hold, as a hash, so that what was made of
// them can be told from what would be made now.
//
// A hash covers the names, permissions, texts and links of a directory, but no owners and no times. A link is its own
// text, wherever it leads. Anything that is no file, link or directory has no content, and is refused.
package contents

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/deployster-go/deployster/internal/regularfile"
)

// The bounds of what is read of one path.
const (
	MaxFiles = 10_000 // files, links and directories
	MaxBytes = 256 << 20
)

// settled is how long ago a file must have been changed, so that a later change of it changes its times.
const settled = 2 * time.Second

// Content is what is at a path.
type Content struct {
	Hash  string `json:"hash"`  // sha256:…
	Files int    `json:"files"` // and links
	Bytes int64  `json:"bytes"`
}

// RefusedError is why what is at a path has no hash.
type RefusedError struct{ Cause error }

func (e *RefusedError) Error() string { return e.Cause.Error() }
func (e *RefusedError) Unwrap() error { return e.Cause }

func refused(format string, args ...any) error { return &RefusedError{fmt.Errorf(format, args...)} }

// Reader reads contents, and remembers them as long as nothing changes that it can tell without reading. It may be
// used by several goroutines.
type Reader struct {
	Except string // the directory at which nothing is read, wherever it is found; "" is none
	Now    func() time.Time

	mu    sync.Mutex
	known map[string]remembered // by path
}

type remembered struct {
	state   [sha256.Size]byte
	content Content
}

// Of returns what is at a path, to which links are followed. What has no hash is a *RefusedError.
func (r *Reader) Of(ctx context.Context, path string) (Content, error) {
	at, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Content{}, unread(path, err)
	}
	state, stable, err := r.state(ctx, at)
	if err != nil {
		return Content{}, err
	}
	r.mu.Lock()
	known, ok := r.known[at]
	r.mu.Unlock()
	if ok && stable && known.state == state {
		return known.content, nil
	}
	content, err := r.read(ctx, at)
	if err != nil || !stable {
		return content, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]remembered{}
	}
	r.known[at] = remembered{state, content}
	return content, nil
}

// state is a hash of what can be told of a path without reading its files. It is stable if a change from now on
// changes it, too.
func (r *Reader) state(ctx context.Context, at string) (state [sha256.Size]byte, stable bool, err error) {
	sum := sha256.New()
	stable = true
	before := r.Now().Add(-settled)
	err = r.walk(ctx, at, func(name, _ string, info fs.FileInfo) error {
		changed, id, ok := statusOf(info)
		stable = stable && ok && changed.Before(before) && info.ModTime().Before(before)
		add(sum, name, fmt.Sprint(info.Mode(), info.Size(), info.ModTime().UnixNano(), changed.UnixNano(), id))
		return nil
	})
	sum.Sum(state[:0])
	return state, stable, err
}

// read hashes what is at a path.
func (r *Reader) read(ctx context.Context, at string) (Content, error) {
	var c Content
	sum := sha256.New()
	err := r.walk(ctx, at, func(name, path string, info fs.FileInfo) error {
		if c.Files++; info.IsDir() {
			c.Files--
		}
		switch mode := info.Mode(); {
		case mode.IsDir():
			add(sum, "directory", name, mode.Perm().String())
		case mode&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return unread(path, err)
			}
			add(sum, "link", name, target)
		default:
			add(sum, "file", name, (mode & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid)).String())
			size, err := file(ctx, sum, path, MaxBytes-c.Bytes)
			if c.Bytes += size; err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Content{}, err
	}
	c.Hash = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	return c, nil
}

// walk calls visit with what is at a path, in the order of the names, after having looked whether it is more than is
// read.
func (r *Reader) walk(ctx context.Context, at string, visit func(name, path string, info fs.FileInfo) error) error {
	files, bytes := 0, int64(0)
	return filepath.WalkDir(at, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return unread(path, err)
		case r.Except != "" && entry.IsDir() && same(path, r.Except):
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil {
			return unread(path, err)
		}
		if mode := info.Mode(); !mode.IsDir() && !mode.IsRegular() && mode&fs.ModeSymlink == 0 {
			return refused("%s is %s, which has no content", path, regularfile.Kind(mode))
		}
		if files++; files > MaxFiles {
			return refused("%s holds more than %d files", at, MaxFiles)
		}
		if info.Mode().IsRegular() {
			bytes += info.Size()
		}
		if bytes > MaxBytes {
			return refused("%s holds more than %d MiB", at, MaxBytes>>20)
		}
		name, err := filepath.Rel(at, path)
		if err != nil {
			return err
		}
		return visit(name, path, info)
	})
}

// file adds the text of a file to a hash.
func file(ctx context.Context, sum hash.Hash, path string, most int64) (int64, error) {
	f, info, err := regularfile.OpenNoLink(path)
	if err != nil {
		return 0, unread(path, err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(info.Size()))
	sum.Write(length[:])
	size := int64(0)
	for {
		n, err := io.CopyN(sum, f, 4<<20)
		switch size += n; {
		case errors.Is(err, io.EOF) && size != info.Size():
			return size, refused("%s changes while it is read", path)
		case errors.Is(err, io.EOF):
			return size, nil
		case err != nil:
			return size, unread(path, err)
		case ctx.Err() != nil:
			return size, context.Cause(ctx)
		case size > most:
			return size, refused("%s grows while it is read", path)
		}
	}
}

// add adds texts, each with its length, so that others never give the same.
func add(sum hash.Hash, texts ...string) {
	for _, text := range texts {
		sum.Write(binary.AppendUvarint(nil, uint64(len(text))))
		io.WriteString(sum, text) //nolint:errcheck // a hash never fails
	}
}

func same(path, other string) bool {
	a, err := os.Stat(path)
	b, failed := os.Stat(other)
	return err == nil && failed == nil && os.SameFile(a, b)
}

// unread refuses what cannot be read. That of a machine which has no more files or memory is no fault of the path.
func unread(path string, err error) error { return refused("%s cannot be read: %w", path, err) }
