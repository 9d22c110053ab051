package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/deployster-go/deployster/internal/filelock"
)

// Pull fetches an artifact from a registry, REGISTRY/REPOSITORY@DIGEST or
// REGISTRY/REPOSITORY:TAG, whoever put it there. It is stored only if it is in the form of
// one, within the limits, and has its digest; else it fails with a RefusedError, or with
// ErrAltered where the registry gives other bytes than it says. Where that does not have it, it
// fails with ErrMissing. What the store has already is
// not fetched again. progress may be nil; it is called from one goroutine at a time.
func (s *Store) Pull(ctx context.Context, ref string, limits Limits, progress func(Progress)) (Artifact, error) {
	a, err := s.pull(ctx, ref, limits.orDefault(), progress)
	if err != nil {
		return Artifact{}, fmt.Errorf("pulling artifact %s: %w", ref, explain(err))
	}
	return a, nil
}

func (s *Store) pull(ctx context.Context, text string, limits Limits, progress func(Progress)) (Artifact, error) {
	ref, err := parseReference(text)
	if err != nil {
		return Artifact{}, err
	}
	from, err := open(ref.Context())
	if err != nil {
		return Artifact{}, err
	}
	found, err := from.puller.Get(ctx, ref)
	if err != nil {
		return Artifact{}, from.explainRemote(ctx, err)
	}
	digest := digestOf(found.Manifest)
	if asked, is := ref.(name.Digest); is && asked.DigestStr() != digest {
		return Artifact{}, fmt.Errorf("the registry gave %s: it %w", digest, ErrAltered)
	}
	layer, err := decodeManifest(found.Manifest)
	if err != nil {
		return Artifact{}, err
	}
	if err := limits.allow(layer); err != nil {
		return Artifact{}, err
	}
	count := newCount(layer.Size, progress)
	count.add(0)
	if there, err := s.stored(ctx, digest, layer); err != nil || there.Digest != "" {
		if err == nil {
			count.all()
		}
		return there, err
	}
	return s.fetch(ctx, from, digest, layer, limits, count)
}

// stored returns an artifact that is in the store as it is to be, or nothing.
func (s *Store) stored(ctx context.Context, digest string, layer v1.Descriptor) (Artifact, error) {
	if _, err := s.manifest(digest); err != nil {
		return Artifact{}, nil //nolint:nilerr // what is not there, or altered, is fetched
	}
	a, err := s.readBlob(ctx, layer, nowhere{})
	if ctx.Err() != nil {
		return Artifact{}, context.Cause(ctx)
	}
	if err != nil {
		return Artifact{}, nil //nolint:nilerr // as above
	}
	err = s.locked(ctx, filelock.Shared, func() error { return s.renew(digest) })
	if err != nil {
		return Artifact{}, gone(err) // it was removed
	}
	return a, nil
}

// fetch stores an artifact, whose layer is checked while it comes.
func (s *Store) fetch(ctx context.Context, from *repository, digest string, layer v1.Descriptor, limits Limits, count *count) (a Artifact, err error) {
	file, err := s.newFile()
	if err != nil {
		return Artifact{}, err
	}
	defer func() { err = errors.Join(err, file.discard()) }()
	blob, err := from.puller.Layer(ctx, from.name.Digest(layer.Digest.String()))
	if err != nil {
		return Artifact{}, from.explainRemote(ctx, err)
	}
	body, err := blob.Compressed()
	if err != nil {
		return Artifact{}, from.explainRemote(ctx, err)
	}
	defer body.Close() //nolint:errcheck // all that is wanted of it was read
	counted := io.TeeReader(body, writerFunc(func(p []byte) (int, error) {
		count.add(int64(len(p)))
		return file.Write(p)
	}))
	a, err = decode(ctx, counted, layer, limits, nowhere{})
	if err != nil {
		return Artifact{}, from.explainRemote(ctx, err)
	}
	return a, s.place(ctx, file, digest, layer)
}

// writerFunc is a writer that is a function.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
