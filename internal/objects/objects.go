// Package objects keeps contents by their SHA-256, so that whoever names a hash gets
// these bytes and no others, whatever has become of the files they were read from.
//
// An object is there whole or not at all, durable before its hash is returned, and only
// its owner can read it, since it may hold secrets, unless it is given to others. What
// was altered afterwards is refused when it is read.
package objects

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/internal/atomicfile"
)

// MaxSize is how large an object may be, in bytes: none is made of a larger file.
const MaxSize = 16 << 20

// ErrMissing is wrapped where there is no object of a hash. It is not fs.ErrNotExist,
// which callers take for a file that nobody ever made.
var ErrMissing = errors.New("is missing")

// ErrAltered is wrapped where an object is not what its hash says.
var ErrAltered = errors.New("is not what it was when it was stored")

// Store is a directory of objects. Any number of processes may use it at once.
type Store struct {
	dir  string
	give Give
	far  Remote // nil is a store of this machine
}

// Give gives a file, or a directory, of a store to those who are to use it, as far as
// this process may. made is whether this process has just made it: what another one made
// may be theirs already.
type Give func(f *os.File, made bool)

// In is the store in a directory, which is made with its first object. Without give it
// is for whoever makes it.
func In(dir string, give Give) Store {
	if give == nil {
		give = func(*os.File, bool) {}
	}
	return Store{dir: filepath.Join(dir, "sha256"), give: give}
}

// Hash is the name of a content: its SHA-256 in hexadecimal.
func Hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// IsHash reports whether a text is one that Hash returns.
func IsHash(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size && hex.EncodeToString(sum) == text
}

func (s Store) path(hash string) string { return filepath.Join(s.dir, hash) }

// Keep stores a content, which is durable on return, and returns its hash.
func (s Store) Keep(content []byte) (hash string, err error) {
	hash = Hash(content)
	return hash, s.KeepAll(content)
}

// KeepAll stores contents, which are durable on return.
func (s Store) KeepAll(contents ...[]byte) error {
	if len(contents) > 0 {
		s.Share()
	}
	for _, content := range contents {
		hash := Hash(content)
		if len(content) > MaxSize {
			return fmt.Errorf("storing object %s: it has %d bytes, at most %d are possible", hash, len(content), MaxSize)
		}
		if s.far != nil {
			if err := s.far.Keep(hash, content); err != nil {
				return fmt.Errorf("storing object %s: %w", hash, err)
			}
			continue
		}
		if s.renew(hash) {
			continue
		}
		err := s.makeDirectories()
		if err == nil {
			err = s.write(hash, content)
		}
		if err != nil {
			return fmt.Errorf("storing object %s: %w", hash, err)
		}
	}
	if len(contents) == 0 || s.far != nil {
		return nil
	}
	// Also of what is there: who wrote it may have died before this.
	for _, dir := range []string{s.dir, filepath.Dir(s.dir), filepath.Dir(filepath.Dir(s.dir))} {
		if err := atomicfile.SyncDir(dir); err != nil {
			return fmt.Errorf("storing objects: %w", err)
		}
	}
	return nil
}

// renew reports whether an object is there, and is now as new as one that has just been
// stored, so that Prune, which may be at work, leaves it. It is given to its users, who may
// be others than when it was stored. One of another owner, whose time this process may not
// change, is to be stored again: this owner may be about to prune it.
func (s Store) renew(hash string) bool {
	if _, err := s.Load(hash); err != nil {
		return false
	}
	s.giveAgain(s.path(hash), 0)
	now := time.Now()
	return os.Chtimes(s.path(hash), now, now) == nil
}

// Share gives what is there to the users of the store, as far as this process may: they may
// be others than when it was stored. As long as the directories are theirs, what is in them
// is, too.
func (s Store) Share() {
	if s.far != nil {
		return
	}
	s.giveAgain(s.saltPath(), 0)
	// The outer one last: until it is given, a process that is killed leaves all of it to
	// the next one.
	for _, dir := range []string{s.dir, filepath.Dir(s.dir)} {
		if s.giveAgain(dir, syscall.O_DIRECTORY) {
			s.giveObjects()
		}
	}
}

// giveObjects gives every object to its users again.
func (s Store) giveObjects() {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if IsHash(strings.TrimPrefix(e.Name(), prunedPrefix)) {
			s.giveAgain(s.path(e.Name()), 0)
		}
	}
}

// giveAgain gives what is there to its users again, and reports whether that changed it. A
// link leads to what its user takes care of.
func (s Store) giveAgain(path string, flag int) (changed bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|flag, 0)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // opened for reading
	before, err := f.Stat()
	if err != nil || !before.IsDir() && !before.Mode().IsRegular() {
		return false
	}
	s.give(f, false)
	after, err := f.Stat()
	return err == nil && access(after) != access(before)
}

// access is who may use a file.
func access(info fs.FileInfo) (a struct {
	uid, gid uint32
	mode     fs.FileMode
}) {
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		a.uid, a.gid = stat.Uid, stat.Gid
	}
	a.mode = info.Mode()
	return a
}

// makeDirectories makes the directories of the store, and gives them to its users.
func (s Store) makeDirectories() error {
	outer := filepath.Dir(s.dir)
	if err := os.MkdirAll(filepath.Dir(outer), 0o700); err != nil {
		return err
	}
	for _, dir := range []string{outer, s.dir} {
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		s.give(f, true)
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// write makes an object, which has its users before it has its name.
func (s Store) write(hash string, content []byte) error {
	f, err := atomicfile.Create(s.path(hash))
	if err != nil {
		return err
	}
	defer f.Discard()
	s.give(f.File, true)
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Place()
}

// Load returns the content of a hash, and no other.
func (s Store) Load(hash string) ([]byte, error) {
	if !IsHash(hash) {
		return nil, fmt.Errorf("%.80q is not the SHA-256 of an object", hash)
	}
	if s.far != nil {
		content, err := s.far.Load(hash)
		if err == nil && Hash(content) != hash {
			err = ErrAltered
		}
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", hash, err)
		}
		return content, nil
	}
	content, err := Read(s.path(hash), hash)
	if errors.Is(err, ErrMissing) {
		// Who took it away may be dead.
		if back := s.bringBack(hash); back == nil || errors.Is(back, fs.ErrExist) {
			content, err = Read(s.path(hash), hash)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", hash, err)
	}
	return content, nil
}

// Read returns the content of a file that is to have a hash.
func Read(path, hash string) ([]byte, error) {
	// Opening a pipe would wait for its writer.
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, unread(path, err)
	case !info.Mode().IsRegular() || info.Size() > MaxSize:
		return nil, fmt.Errorf("%s %w", path, ErrAltered)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unread(path, err)
	}
	content, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if Hash(content) != hash {
		return nil, fmt.Errorf("%s %w", path, ErrAltered)
	}
	return content, nil
}

// unread is why a file could not be opened.
func unread(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s %w", path, ErrMissing)
	}
	return err
}
