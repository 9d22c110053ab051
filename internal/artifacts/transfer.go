package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Layer is the blob of an artifact that holds its files. The digest of the artifact follows from
// it, so that nothing else need be sent of one.
type Layer struct {
	Digest string // sha256:HEX
	Size   int64  // bytes
}

// descriptor is a layer as manifests name it, and the digest of the artifact that it makes.
func (l Layer) descriptor() (layer v1.Descriptor, artifact string, err error) {
	if _, err := hexOf(l.Digest); err != nil {
		return layer, "", err
	}
	if l.Size < 0 {
		return layer, "", fmt.Errorf("a layer cannot have %d bytes", l.Size)
	}
	layer = v1.Descriptor{MediaType: layerType, Size: l.Size, Digest: v1.Hash{Algorithm: "sha256", Hex: l.Digest[len(digestPrefix):]}}
	manifest, err := encodeManifest(layer)
	return layer, digestOf(manifest), err
}

// Open opens the layer of an artifact, to be sent to another store. Reading it fails at its end
// where it was altered.
func (s *Store) Open(ctx context.Context, digest string) (io.ReadCloser, Layer, error) {
	layer, err := s.manifest(digest)
	if err != nil {
		return nil, Layer{}, fmt.Errorf("reading artifact %s: %w", digest, err)
	}
	blob, err := blobOf{s, layer, ctx, func(int64) {}}.Compressed()
	if err != nil {
		return nil, Layer{}, fmt.Errorf("reading artifact %s: %w", digest, err)
	}
	return blob, Layer{layer.Digest.String(), layer.Size}, nil
}

// Receive stores an artifact of which somebody sends the layer, whoever that is. It is stored
// only if it is in the form of one, within the limits, and has its digest; else it fails with a
// RefusedError, or with ErrAltered. What the store has already is read to its end nevertheless.
func (s *Store) Receive(ctx context.Context, digest string, sent Layer, body io.Reader, limits Limits) (Artifact, error) {
	a, err := s.receive(ctx, digest, sent, body, limits.orDefault())
	if err != nil {
		return Artifact{}, fmt.Errorf("storing artifact %.90s: %w", digest, explain(err))
	}
	return a, nil
}

func (s *Store) receive(ctx context.Context, digest string, sent Layer, body io.Reader, limits Limits) (a Artifact, err error) {
	layer, makes, err := sent.descriptor()
	switch {
	case err != nil:
		return a, &RefusedError{Reason: err.Error()}
	case makes != digest:
		return a, &RefusedError{Reason: fmt.Sprintf("a layer with the digest %s and %d bytes makes %s", sent.Digest, sent.Size, makes)}
	}
	if err := limits.allow(layer); err != nil {
		return a, err
	}
	file, err := s.newFile()
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, file.discard()) }()
	if free, known := freeBytes(file.File); known && limits.MinFree > 0 && (free < limits.MinFree || uint64(layer.Size) > free-limits.MinFree) {
		return a, fmt.Errorf("it has %d bytes, and of %d that are free %d are to stay so: %w", layer.Size, free, limits.MinFree, syscall.ENOSPC)
	}
	a, err = decode(ctx, io.TeeReader(body, file), layer, limits, nowhere{})
	if err != nil {
		return Artifact{}, err
	}
	return a, s.place(ctx, file, digest, layer)
}

// allow refuses a layer that is larger than the files of an artifact may be, with what comes with
// each of them beside its bytes.
func (l Limits) allow(layer v1.Descriptor) error {
	if overhead := int64(l.Files) * (2*maxPath + 4096); layer.Size > l.Bytes && layer.Size-l.Bytes > overhead {
		return &RefusedError{Reason: fmt.Sprintf("its layer has %d bytes, which are more than the files of an artifact may have: %d", layer.Size, l.Bytes)}
	}
	return nil
}

// Use reports whether an artifact seems to be there, as Has does, and has it stay for MinAge even
// if nobody needs it: who asks is about to name it.
func (s *Store) Use(ctx context.Context, digest string) (bool, error) {
	if !s.Has(digest) {
		return false, nil
	}
	if err := s.use(ctx, digest); err != nil {
		return false, gone(err) // it was removed
	}
	return s.Has(digest), nil
}
