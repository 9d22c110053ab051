package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/internal/filelock"
)

// place puts a layer, which is not durable yet, into the store, and then what names it. What is
// there and is the same stays, as others may be using it.
func (s *Store) place(ctx context.Context, file *tempFile, digest string, layer v1.Descriptor) (err error) {
	text, err := encodeManifest(layer)
	if err != nil {
		return err
	}
	manifest, err := s.newFile()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, manifest.discard()) }()
	// Both at once: the disk has as much to do with two as with one.
	settle := sync.OnceValue(func() error {
		synced := make(chan error, 1)
		go func() { synced <- file.Sync() }()
		_, err := manifest.Write(text)
		if err == nil {
			err = manifest.Sync()
		}
		return errors.Join(err, <-synced)
	})
	intact, err := s.intact(ctx, digest, layer)
	if err == nil && !intact {
		err = settle()
	}
	if err != nil {
		return err
	}
	err = s.locked(ctx, filelock.Shared, func() error {
		if !intact || !exists(s.blob(layer.Digest.String())) {
			if err := settle(); err != nil {
				return err
			}
			if err := file.place(s.blob(layer.Digest.String())); err != nil {
				return err
			}
		}
		if !intact || s.renew(digest) != nil {
			if err := settle(); err != nil {
				return err
			}
			return manifest.place(s.blob(digest))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.syncDirectories() // whoever waits for the lock need not wait for the disk
}

// syncDirectories makes durable what the store names, also what was there: who made it may have
// died before this. Where the machine ends before, a manifest may be there without its layer:
// that is missing then, like all that nobody was told of. The directories above change only
// when they are made.
func (s *Store) syncDirectories() error {
	made := s.made.Load() + 1
	if err := atomicfile.SyncDir(s.blobs()); err != nil || s.durable.Load() == made {
		return err
	}
	for _, dir := range []string{filepath.Dir(s.blobs()), s.dir, filepath.Dir(s.dir)} {
		if err := atomicfile.SyncDir(dir); err != nil {
			return err
		}
	}
	s.durable.Store(made)
	return nil
}

// intact reports whether an artifact is in the store as it is to be. A copy of it that is
// not is taken away.
func (s *Store) intact(ctx context.Context, digest string, layer v1.Descriptor) (bool, error) {
	if _, err := s.manifest(digest); err != nil {
		return false, s.dropCopy(ctx, digest)
	}
	if s.known(digest, layer) {
		return true, nil
	}
	whole := s.checkBlob(ctx, layer) == nil
	altered := exists(s.copyOf(digest)) && s.checkCopy(ctx, digest, layer) != nil
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case altered:
		return whole, s.dropCopy(ctx, digest)
	default:
		return whole, nil
	}
}

// dropCopy takes the unpacked copy of an artifact away, if there is one: none is made of what is
// not in the store.
func (s *Store) dropCopy(ctx context.Context, digest string) (err error) {
	if !exists(s.copyOf(digest)) {
		return nil
	}
	in, err := s.newWorkspace()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.remove()) }()
	return s.locked(ctx, filelock.Exclusive, func() error {
		return gone(os.Rename(s.copyOf(digest), in.path("dropped")))
	})
}

// noted is for how long it need not be noted again that an artifact is used: nobody removes one
// that was noted to be so MinAge ago.
const noted = MinAge / 24

// use notes that an artifact is used now, unless that was noted lately.
func (s *Store) use(ctx context.Context, digest string) error {
	info, err := os.Lstat(s.blob(digest))
	if err != nil {
		return err
	}
	if age := time.Since(info.ModTime()); age >= 0 && age < noted {
		return nil
	}
	return s.locked(ctx, filelock.Shared, func() error { return s.renew(digest) })
}

// renew notes that an artifact is used now.
func (s *Store) renew(digest string) error {
	now := time.Now()
	return os.Chtimes(s.blob(digest), now, now)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// gone is an error, unless it is that something is not there.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unread is why a part of an artifact could not be opened.
func unread(what string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s %w", what, ErrMissing)
	}
	return err
}
