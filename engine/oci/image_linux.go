package oci

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/distribution/reference"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/oci/internal/store"
)

// Image makes the image behind ref available according to policy. Credentials
// for its registry come from Docker's configuration. An image id is never
// pulled.
func (e *Engine) Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	parsed, err := reference.ParseAnyReference(ref)
	if err != nil {
		return engine.Image{}, fmt.Errorf("image %q: %w", ref, err)
	}
	_, named := parsed.(reference.Named)
	switch policy {
	case engine.PullAlways:
	case engine.PullMissing, engine.PullNever:
		image, err := e.store.Find(ref)
		if err == nil || !errors.Is(err, engine.ErrNoImage) {
			return answer(ref, image), err
		}
		if policy == engine.PullNever {
			return engine.Image{}, fmt.Errorf("image %q: %w: it is not in the cache and is not to be pulled; load it with `deployster image load`", ref, engine.ErrNoImage)
		}
	default:
		return engine.Image{}, fmt.Errorf("image %q: pull policy %q is not known: use missing, always or never", ref, policy)
	}
	if !named {
		image, err := e.store.Find(ref)
		if errors.Is(err, engine.ErrNoImage) {
			return engine.Image{}, fmt.Errorf("image %q: %w: an id cannot be pulled; use the image's name", ref, engine.ErrNoImage)
		}
		return answer(ref, image), err
	}
	image, err := e.store.Pull(ctx, ref, progress)
	return answer(ref, image), err
}

// answer is an image as the engine's users know it; the zero image stays zero.
func answer(ref string, image store.Image) engine.Image {
	if image.ID == "" {
		return engine.Image{}
	}
	return engine.Image{
		Ref:    ref,
		ID:     image.ID,
		Digest: image.Digest,
		OS:     image.Config.OS,
		Arch:   image.Config.Architecture,
	}
}

// Load puts the images of a tar into the cache: one as `docker save` makes, or
// an OCI layout.
func (e *Engine) Load(ctx context.Context, tar io.Reader) error {
	_, err := e.store.Load(ctx, tar, nil)
	return err
}

// LoadFrom does what Load does, and says what it loaded. progress, which may be
// nil, gets the number of bytes done.
func (e *Engine) LoadFrom(ctx context.Context, tar io.Reader, progress func(int64)) ([]Image, error) {
	loaded, err := e.store.Load(ctx, tar, progress)
	return describe(loaded), err
}

// LoadPath puts the images of a tar or of a directory with an OCI layout into
// the cache. progress, which may be nil, gets the number of bytes done.
func (e *Engine) LoadPath(ctx context.Context, path string, progress func(int64)) ([]Image, error) {
	loaded, err := e.store.LoadPath(ctx, path, progress)
	return describe(loaded), err
}

// Images lists the images in the cache.
func (e *Engine) Images() ([]Image, error) {
	held, err := e.store.List()
	return describe(held), err
}

// Prune removes the images that keep refuses, and whatever no image needs. What
// running containers use stays.
func (e *Engine) Prune(ctx context.Context, keep func(Image) bool) (Pruned, error) {
	result, err := e.store.Prune(ctx, func(image store.Image) bool {
		return keep(describe([]store.Image{image})[0])
	})
	return Pruned{Images: describe(result.Images), Bytes: result.Bytes}, err
}

func describe(held []store.Image) []Image {
	images := make([]Image, len(held))
	for i, image := range held {
		images[i] = Image{
			ID: image.ID, Digest: image.Digest, Names: append([]string{}, image.Names...),
			Size: image.Size, Created: image.Created.UTC(), Used: image.Used.UTC(),
		}
	}
	return images
}
