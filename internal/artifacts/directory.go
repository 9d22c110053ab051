package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/deployster-go/deployster/internal/filelock"
	"github.com/deployster-go/deployster/internal/regularfile"
)

// maxCopy bounds what is unpacked of what is in the store already: nothing but its layer.
var maxCopy = Limits{Files: 1 << 40, Bytes: 1 << 60}

// Directory returns where an artifact is unpacked, for containers to mount: nobody may write
// to it. It is unpacked when that is asked for first. It stays until the artifact is removed,
// which Prune does of none that was asked for lately. It fails with ErrMissing or ErrAltered
// where the artifact is not there as it was stored: it is to be removed and made again.
func (s *Store) Directory(ctx context.Context, digest string) (path string, err error) {
	path, err = s.directory(ctx, digest)
	if err != nil {
		return "", fmt.Errorf("artifact %s: %w", digest, explain(err))
	}
	return path, nil
}

func (s *Store) directory(ctx context.Context, digest string) (path string, err error) {
	layer, err := s.manifest(digest)
	if err != nil {
		return "", err
	}
	if err := s.use(ctx, digest); err != nil { // from here on it stays
		return "", unread("its manifest", err)
	}
	files := filepath.Join(s.copyOf(digest), filesName)
	if s.known(digest, layer) {
		return files, nil
	}
	in, err := s.newWorkspace()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, in.remove()) }()
	held, err := filelock.Acquire(ctx, s.blob(digest), filelock.Exclusive) // one unpacks it
	if err != nil {
		return "", unread("its manifest", err)
	}
	defer held.Release()
	if s.known(digest, layer) {
		return files, nil
	}
	if exists(s.copyOf(digest)) {
		again, err := s.reconsider(ctx, in, digest, layer)
		if err != nil || !again {
			return files, err
		}
	}
	return files, s.unpack(ctx, in, digest, layer)
}

// reconsider reads all of a copy whose fingerprint is another. It takes away one that is to
// be made again: what was not durable when the machine stopped is nobody's fault.
func (s *Store) reconsider(ctx context.Context, in *workspace, digest string, layer v1.Descriptor) (again bool, err error) {
	was, err := os.ReadFile(filepath.Join(s.copyOf(digest), fingerprintName))
	lost := err != nil || !strings.HasPrefix(string(was), s.startOfMachine()+" ")
	settled, err := s.settle(ctx, in)
	if err != nil {
		return false, err
	}
	if err := s.checkBlob(ctx, layer); err != nil {
		return false, err
	}
	err = s.checkCopy(ctx, digest, layer)
	if errors.Is(err, ErrAltered) && lost {
		return true, s.dropCopy(ctx, digest)
	}
	if err != nil {
		return false, err
	}
	return false, s.record(in, s.copyOf(digest), layer, settled)
}

// unpack makes the copy of an artifact.
func (s *Store) unpack(ctx context.Context, in *workspace, digest string, layer v1.Descriptor) error {
	files := in.path(filepath.Join("copy", filesName))
	if err := os.MkdirAll(files, 0o700); err != nil {
		return err
	}
	to, err := newTree(files)
	if err != nil {
		return err
	}
	_, err = s.readBlob(ctx, layer, to)
	if err := errors.Join(err, to.close()); err != nil {
		return err
	}
	settled, err := s.settle(ctx, in)
	if err != nil {
		return err
	}
	if err := s.record(in, in.path("copy"), layer, settled); err != nil {
		return err
	}
	return s.locked(ctx, filelock.Shared, func() error {
		if !exists(s.blob(digest)) {
			return fmt.Errorf("its manifest %w: it was removed while it was unpacked", ErrMissing)
		}
		err := os.Rename(in.path("copy"), s.copyOf(digest))
		if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
			return nil // another process made it, of the same manifest
		}
		return err
	})
}

// manifest reads what names the layer of an artifact.
func (s *Store) manifest(digest string) (layer v1.Descriptor, err error) {
	if _, err := hexOf(digest); err != nil {
		return layer, err
	}
	path := s.blob(digest)
	info, err := os.Lstat(path) // opening a pipe would wait for its writer
	switch {
	case err != nil:
		return layer, unread("its manifest", err)
	case !info.Mode().IsRegular() || info.Size() > maxManifest:
		return layer, fmt.Errorf("its manifest %w", ErrAltered)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return layer, unread("its manifest", err)
	}
	if digestOf(text) != digest {
		return layer, fmt.Errorf("its manifest %w", ErrAltered)
	}
	return s.layerOf(digest, text)
}

// layerOf is the layer of a manifest that has a digest. No other text has that, so that it need
// not be decoded again.
func (s *Store) layerOf(digest string, text []byte) (v1.Descriptor, error) {
	s.mu.Lock()
	layer, known := s.layers[digest]
	s.mu.Unlock()
	if known {
		return layer, nil
	}
	layer, err := decodeManifest(text)
	if err != nil {
		return layer, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.layers == nil || len(s.layers) >= layersKnown {
		s.layers = map[string]v1.Descriptor{}
	}
	s.layers[digest] = layer
	return layer, nil
}

// readBlob gives the entries of a layer to a sink.
func (s *Store) readBlob(ctx context.Context, layer v1.Descriptor, to sink) (Artifact, error) {
	path := s.blob(layer.Digest.String())
	f, info, err := regularfile.OpenNoLink(path)
	if errors.Is(err, regularfile.ErrNotFile) {
		return Artifact{}, fmt.Errorf("its layer %w", ErrAltered)
	}
	if err != nil {
		return Artifact{}, unread("its layer", err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	if info.Size() != layer.Size {
		return Artifact{}, fmt.Errorf("its layer %w", ErrAltered)
	}
	return decode(ctx, f, layer, maxCopy, to)
}

// checkBlob reads all of a layer.
func (s *Store) checkBlob(ctx context.Context, layer v1.Descriptor) error {
	_, err := s.readBlob(ctx, layer, nowhere{})
	return err
}

// checkCopy reads all of an unpacked copy.
func (s *Store) checkCopy(ctx context.Context, digest string, layer v1.Descriptor) error {
	files := filepath.Join(s.copyOf(digest), filesName)
	before, err := os.Lstat(s.copyOf(digest))
	if err != nil {
		return unread("the unpacked copy", err)
	}
	a, _, err := pack(ctx, files, maxCopy, true, &bounded{layer.Size})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	after, gone := os.Lstat(s.copyOf(digest))
	if right := err == nil && a.Digest == digest; !right && (gone != nil || stateOf(before) != stateOf(after)) {
		return fmt.Errorf("the unpacked copy %w: it was removed while it was read", ErrMissing)
	}
	refused := new(RefusedError)
	switch {
	case err == nil && a.Digest == digest, errors.Is(err, ErrAltered):
		return err
	case err == nil, errors.As(err, &refused), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, io.ErrShortWrite):
		return fmt.Errorf("the unpacked copy %w", ErrAltered)
	default:
		return fmt.Errorf("the unpacked copy: %w", err)
	}
}

// bounded discards what is written, and fails once there is more than there is to be.
type bounded struct{ left int64 }

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// Verify reads all of an artifact, and of its unpacked copy where there is one. It fails with
// ErrMissing or ErrAltered where it is not there as it was stored.
func (s *Store) Verify(ctx context.Context, digest string) error {
	layer, err := s.manifest(digest)
	if err == nil {
		err = s.checkBlob(ctx, layer)
	}
	if err == nil && exists(s.copyOf(digest)) {
		err = s.checkCopy(ctx, digest, layer)
	}
	if err != nil {
		return fmt.Errorf("verifying artifact %s: %w", digest, err)
	}
	return nil
}

// Has reports whether an artifact seems to be there: it is found out only when it is read
// whether it was altered.
func (s *Store) Has(digest string) bool {
	layer, err := s.manifest(digest)
	if err != nil {
		return false
	}
	info, err := os.Lstat(s.blob(layer.Digest.String()))
	return err == nil && info.Mode().IsRegular() && info.Size() == layer.Size
}
