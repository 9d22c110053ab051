package objects

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/deployster-go/deployster/internal/atomicfile"
)

// SaltSize is how many bytes a salt has.
const SaltSize = 32

func (s Store) saltPath() string { return filepath.Join(filepath.Dir(s.dir), "salt") }

// ErrSalt is wrapped where the salt cannot be used. Unlike an object it is not made anew from
// what it was made of.
var ErrSalt = errors.New("the salt of hashes")

// Salt is the key of hashes of what must not be known to those who see the hash. There is
// one for all objects, and it is kept beside them. It fails with ErrMissing where nobody
// has made it.
func (s Store) Salt() ([]byte, error) {
	if s.far != nil {
		salt, err := s.far.Salt()
		if err == nil && len(salt) != SaltSize {
			err = ErrAltered
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSalt, err)
		}
		return salt, nil
	}
	path := s.saltPath()
	info, err := os.Lstat(path) // opening a pipe would wait for its writer
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrSalt, unread(path, err))
	case !info.Mode().IsRegular() || info.Size() != 2*SaltSize:
		return nil, fmt.Errorf("%w: %s %w", ErrSalt, path, ErrAltered)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSalt, err)
	}
	salt, err := hex.DecodeString(string(text))
	if err != nil || len(salt) != SaltSize {
		return nil, fmt.Errorf("%w: %s %w", ErrSalt, path, ErrAltered)
	}
	return salt, nil
}

// MakeSalt is Salt, which is made, durably, when there is none.
func (s Store) MakeSalt() ([]byte, error) {
	if s.dir == "" && s.far == nil {
		return nil, fmt.Errorf("%w: there is no place for it", ErrSalt)
	}
	s.Share()
	salt, err := s.Salt()
	if !errors.Is(err, ErrMissing) {
		return salt, err
	}
	var made [SaltSize]byte
	if _, err := rand.Read(made[:]); err != nil {
		return nil, fmt.Errorf("making the salt of hashes: %w", err)
	}
	return s.KeepSalt(made[:])
}

// KeepSalt makes a salt the one of the store, unless that has one, and returns which it is.
func (s Store) KeepSalt(salt []byte) (is []byte, err error) {
	if keeper, keeps := s.far.(Keeper); keeps {
		err = keeper.KeepSalt(salt)
	} else if s.far == nil {
		err = s.writeSalt(salt)
	}
	if err != nil {
		return nil, fmt.Errorf("making the salt of hashes: %w", err)
	}
	return s.Salt()
}

// writeSalt writes a salt, unless there is one.
func (s Store) writeSalt(salt []byte) error {
	if err := s.makeDirectories(); err != nil {
		return err
	}
	f, err := atomicfile.Create(s.saltPath())
	if err != nil {
		return err
	}
	defer f.Discard()
	s.give(f.File, true)
	if _, err := f.WriteString(hex.EncodeToString(salt)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), s.saltPath()); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	outer := filepath.Dir(s.dir)
	return cmp.Or(atomicfile.SyncDir(outer), atomicfile.SyncDir(filepath.Dir(outer)))
}
