package objects

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Check makes sure that there is an object of a hash, and that it is what it was when it was
// stored. It is not held in memory.
func (s Store) Check(hash string) error {
	if s.far != nil {
		_, err := s.Load(hash)
		return err
	}
	f, _, err := s.Open(hash)
	if err != nil {
		return err
	}
	return f.Close()
}

// Open opens an object to be read, of which it has made sure, and returns how long it is. Who
// does not trust the disk makes sure of what they read. One that is reached through somebody
// else is held in memory.
func (s Store) Open(hash string) (f io.ReadCloser, size int64, err error) {
	switch {
	case !IsHash(hash):
		return nil, 0, fmt.Errorf("%.80q is not the SHA-256 of an object", hash)
	case s.far != nil:
		content, err := s.Load(hash)
		if err != nil {
			return nil, 0, err
		}
		return io.NopCloser(bytes.NewReader(content)), int64(len(content)), nil
	}
	f, size, err = openChecked(s.path(hash), hash)
	if errors.Is(err, ErrMissing) {
		if back := s.bringBack(hash); back == nil || errors.Is(back, fs.ErrExist) {
			f, size, err = openChecked(s.path(hash), hash)
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("object %s: %w", hash, err)
	}
	return f, size, nil
}

// openChecked opens a file that has a hash.
func openChecked(path, hash string) (*os.File, int64, error) {
	info, err := os.Lstat(path) // opening a pipe would wait for its writer
	switch {
	case err != nil:
		return nil, 0, unread(path, err)
	case !info.Mode().IsRegular() || info.Size() > MaxSize:
		return nil, 0, fmt.Errorf("%s %w", path, ErrAltered)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, unread(path, err)
	}
	sum := sha256.New()
	size, err := io.Copy(sum, io.LimitReader(f, MaxSize+1))
	switch {
	case err != nil:
		err = fmt.Errorf("reading %s: %w", path, err)
	case hex.EncodeToString(sum.Sum(nil)) != hash:
		err = fmt.Errorf("%s %w", path, ErrAltered)
	default:
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}
