package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/deployster-go/deployster/internal/atomicfile"
)

// place puts the layer of a workspace, which is durable, into the store, and then what names
// it. What is there and is the same stays, as others may be using it.
func (s *Store) place(ctx context.Context, in *workspace, digest string, layer v1.Descriptor) error {
	manifest, err := encodeManifest(layer)
	if err != nil {
		return err
	}
	if err := writeFile(in.path("manifest"), manifest); err != nil {
		return err
	}
	intact, err := s.intact(ctx, in, digest, layer)
	if err != nil {
		return err
	}
	return s.locked(ctx, shared, func() error {
		if !intact || !exists(s.blob(layer.Digest.String())) {
			if err := os.Rename(in.path("layer"), s.blob(layer.Digest.String())); err != nil {
				return err
			}
			// A manifest must not outlive its layer.
			if err := atomicfile.SyncDir(s.blobs()); err != nil {
				return err
			}
		}
		if !intact || s.renew(digest) != nil {
			if err := os.Rename(in.path("manifest"), s.blob(digest)); err != nil {
				return err
			}
		}
		// Also of what is there: who made it may have died before this.
		for _, dir := range []string{s.blobs(), filepath.Dir(s.blobs()), s.dir, filepath.Dir(s.dir)} {
			if err := atomicfile.SyncDir(dir); err != nil {
				return err
			}
		}
		return nil
	})
}

// intact reports whether an artifact is in the store as it is to be. A copy of it that is
// not is taken away.
func (s *Store) intact(ctx context.Context, in *workspace, digest string, layer v1.Descriptor) (bool, error) {
	if _, err := s.manifest(digest); err != nil {
		return false, s.dropCopy(ctx, in, digest)
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
		return whole, s.dropCopy(ctx, in, digest)
	default:
		return whole, nil
	}
}

// dropCopy takes the unpacked copy of an artifact away.
func (s *Store) dropCopy(ctx context.Context, in *workspace, digest string) error {
	return s.locked(ctx, exclusive, func() error {
		return gone(os.Rename(s.copyOf(digest), in.path("dropped")))
	})
}

// renew notes that an artifact is used now.
func (s *Store) renew(digest string) error {
	now := time.Now()
	return os.Chtimes(s.blob(digest), now, now)
}

func writeFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
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
