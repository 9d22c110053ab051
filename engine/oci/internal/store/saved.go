//go:build linux

package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// images reads which images there are. What modern versions of `docker save`
// make is an OCI layout too, which says less about names.
func (f files) images(ctx context.Context, platform v1.Platform) ([]incoming, error) {
	var images []incoming
	var err error
	switch {
	case f.has("manifest.json"):
		images, err = f.saved(platform)
	case f.has("index.json"):
		images, err = f.layout(ctx, platform)
	case f.has("repositories"):
		return nil, errors.New("it has the format of Docker before 1.10; save the image again with a current one")
	}
	if err == nil && len(images) == 0 {
		err = errors.New("there are no images in it; it must be made by `docker save`, or be an OCI layout")
	}
	return images, err
}

// maxImages and maxConfigs bound how many images an archive may hold, and the
// bytes of their configurations together: all are in memory at once.
const (
	maxImages  = 1000
	maxConfigs = 64 << 20
)

func countable(images int) error {
	if images > maxImages {
		return fmt.Errorf("it has %d images, and %d are the limit: save them in several parts", images, maxImages)
	}
	return nil
}

// batch is the images of one archive.
type batch struct {
	list    []incoming
	configs int // bytes
}

func (b *batch) add(image incoming) error {
	if b.configs += len(image.config); b.configs > maxConfigs {
		return fmt.Errorf("the configurations of its images have more than %d bytes, which is the limit: save them in several parts", maxConfigs)
	}
	b.list = append(b.list, image)
	return nil
}

// savedManifest is one image in the manifest.json of `docker save`.
type savedManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// saved reads what `docker save` made. Of an image that was saved for several
// platforms, it takes the one for this.
func (f files) saved(platform v1.Platform) ([]incoming, error) {
	raw, err := f.document("manifest.json")
	if err != nil {
		return nil, err
	}
	var manifests []savedManifest
	if err := json.Unmarshal(raw, &manifests); err != nil {
		return nil, fmt.Errorf("read manifest.json: %w", err)
	}
	if err := countable(len(manifests)); err != nil {
		return nil, err
	}
	var images batch
	var foreign []incoming // for other platforms
	var refused error
	for _, manifest := range manifests {
		image, err := f.savedImage(manifest, platform)
		if err != nil {
			err = fmt.Errorf("image %s: %w", manifest.subject(), err)
		}
		var other *platformError
		switch {
		case errors.As(err, &other):
			foreign = append(foreign, image)
			refused = errors.Join(refused, err)
		case err != nil:
			return nil, err
		default:
			if err := images.add(image); err != nil {
				return nil, err
			}
		}
	}
	for _, other := range foreign {
		same := func(image incoming) bool {
			return slices.ContainsFunc(image.names, func(name string) bool { return slices.Contains(other.names, name) })
		}
		if !slices.ContainsFunc(images.list, same) {
			return nil, refused
		}
	}
	return images.list, nil
}

func (m savedManifest) subject() string {
	if len(m.RepoTags) > 0 {
		return fmt.Sprintf("%q", m.RepoTags[0])
	}
	return m.Config
}

// savedImage reads one image. With a platformError it returns its names.
func (f files) savedImage(manifest savedManifest, platform v1.Platform) (incoming, error) {
	var names []string
	for _, tag := range manifest.RepoTags {
		named, err := reference.ParseNormalizedNamed(tag)
		if err != nil {
			return incoming{}, err
		}
		names = append(names, nameKey(named))
	}
	raw, err := f.document(cleanName(manifest.Config))
	if err != nil {
		return incoming{}, err
	}
	image, err := newIncoming(raw, len(manifest.Layers), platform)
	image.names = names
	if err != nil {
		return image, err
	}
	image.subject = manifest.subject()
	// The file is named after its digest, as HEX.json or in blobs.
	named := v1.Hash{Algorithm: "sha256", Hex: strings.TrimSuffix(path.Base(manifest.Config), ".json")}
	if _, err := v1.NewHash(named.String()); err == nil && named != image.id {
		return image, fmt.Errorf("read %s: %w: its digest is %s", manifest.Config, errDamaged, image.id)
	}
	for i, name := range manifest.Layers {
		image.layers[i].open = func(context.Context) (io.ReadCloser, error) { return f.open(cleanName(name)) }
	}
	return image, nil
}

// The annotations in the index of a layout that name an image. The second one
// is often only a tag, which names nothing.
const (
	fullNameAnnotation = "io.containerd.image.name"
	refNameAnnotation  = "org.opencontainers.image.ref.name"
)

// layout reads an OCI layout. The manifests with one name are one image for
// several platforms.
func (f files) layout(ctx context.Context, platform v1.Platform) ([]incoming, error) {
	raw, err := f.document("index.json")
	if err != nil {
		return nil, err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read index.json: %w", err)
	}
	if err := countable(len(index.Manifests)); err != nil {
		return nil, err
	}
	var names []string
	byName := map[string][]v1.Descriptor{}
	for _, d := range index.Manifests {
		if d.Platform != nil && d.Platform.OS == "unknown" {
			continue // what a builder attached to an image
		}
		name, err := layoutName(d)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		byName[name] = append(byName[name], d)
	}
	var images batch
	for _, name := range names {
		chosen, err := chooseAll(byName[name], platform)
		if err != nil {
			return nil, fmt.Errorf("image %q: %w", name, err)
		}
		for _, d := range chosen {
			subject := name
			if subject == "" {
				subject = d.Digest.String()
			}
			image, err := resolve(ctx, f, d, platform)
			if err != nil {
				return nil, fmt.Errorf("image %q: %w", subject, err)
			}
			image.subject = fmt.Sprintf("%q", subject)
			if name != "" {
				image.names = []string{name}
			}
			if err := images.add(image); err != nil {
				return nil, err
			}
		}
	}
	return images.list, nil
}

// layoutName returns the key of the index for an image in a layout, or "".
func layoutName(d v1.Descriptor) (string, error) {
	name := d.Annotations[fullNameAnnotation]
	if other := d.Annotations[refNameAnnotation]; name == "" && strings.ContainsAny(other, ":/") {
		name = other
	}
	if name == "" {
		return "", nil
	}
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", fmt.Errorf("image %q: %w", name, err)
	}
	return nameKey(named), nil
}

// chooseAll picks, of manifests with the same name, those that are images of
// their own and the one for this platform.
func chooseAll(manifests []v1.Descriptor, platform v1.Platform) ([]v1.Descriptor, error) {
	var chosen, variants []v1.Descriptor
	for _, d := range manifests {
		if d.Platform == nil {
			chosen = append(chosen, d)
		} else {
			variants = append(variants, d)
		}
	}
	if len(variants) == 0 {
		return chosen, nil
	}
	variant, err := choose(variants, platform)
	if err == nil {
		chosen = append(chosen, variant)
	} else if len(chosen) == 0 {
		return nil, err
	}
	return chosen, nil
}

// blob opens a part of an OCI layout.
func (f files) blob(_ context.Context, of v1.Descriptor) (io.ReadCloser, error) {
	return f.open(path.Join("blobs", of.Digest.Algorithm, of.Digest.Hex))
}
