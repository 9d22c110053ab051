//go:build linux

package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// maxDocument bounds manifests, indexes and configurations, in bytes.
const maxDocument = 8 << 20

// maxNested bounds how deep an index may lie in others.
const maxNested = 4

// blobs is where the parts of an OCI image come from: a registry or a layout.
type blobs interface {
	blob(ctx context.Context, of v1.Descriptor) (io.ReadCloser, error)
}

// document reads a small part of an image and compares its digest.
func document(ctx context.Context, from blobs, of v1.Descriptor) ([]byte, error) {
	if of.Size > maxDocument {
		return nil, fmt.Errorf("%s has %d bytes, and %d are the limit", of.Digest, of.Size, maxDocument)
	}
	source, err := from.blob(ctx, of)
	if err != nil {
		return nil, err
	}
	defer func() { _ = source.Close() }()
	content, err := readDocument(source)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", of.Digest, err)
	}
	if got := hashOf(content); got != of.Digest {
		return nil, fmt.Errorf("read %s: %w: its digest is %s", of.Digest, errDamaged, got)
	}
	return content, nil
}

// readDocument reads all there is, if that is not too much.
func readDocument(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(content) > maxDocument {
		err = fmt.Errorf("it has more than %d bytes, which is the limit", maxDocument)
	}
	return content, err
}

// resolve follows a descriptor to the image for this platform.
func resolve(ctx context.Context, from blobs, at v1.Descriptor, platform v1.Platform) (incoming, error) {
	for range maxNested {
		content, err := document(ctx, from, at)
		if err != nil {
			return incoming{}, err
		}
		switch {
		case at.MediaType.IsImage():
			return fromManifest(ctx, from, content, platform)
		case at.MediaType.IsIndex():
			manifest, err := v1.ParseIndexManifest(bytes.NewReader(content))
			if err != nil {
				return incoming{}, fmt.Errorf("read the index %s: %w", at.Digest, err)
			}
			if at, err = choose(manifest.Manifests, platform); err != nil {
				return incoming{}, err
			}
		case at.MediaType.IsSchema1():
			return incoming{}, errors.New("its manifest has the format schema 1, which was given up years ago: build and push it again with a current tool")
		default:
			return incoming{}, fmt.Errorf("it is a %q, not a container image", at.MediaType)
		}
	}
	return incoming{}, fmt.Errorf("it has more than %d indexes inside one another", maxNested)
}

// choose picks, of the manifests in an index, the one for this platform. One
// without a platform is a guess that its configuration will confirm.
func choose(manifests []v1.Descriptor, platform v1.Platform) (v1.Descriptor, error) {
	isImage := func(d v1.Descriptor) bool { return d.MediaType.IsImage() || d.MediaType.IsIndex() }
	for _, fits := range []func(d v1.Descriptor) bool{
		func(d v1.Descriptor) bool { return d.Platform != nil && d.Platform.Equals(platform) },
		func(d v1.Descriptor) bool { return d.Platform != nil && d.Platform.Satisfies(platform) },
		func(d v1.Descriptor) bool { return d.Platform == nil },
	} {
		for _, d := range manifests {
			if isImage(d) && fits(d) {
				return d, nil
			}
		}
	}
	var has []string
	for _, d := range manifests {
		// What builders attach to images has the platform "unknown".
		if name := d.Platform; isImage(d) && name != nil && name.OS != "unknown" && !slices.Contains(has, name.String()) {
			has = append(has, name.String())
		}
	}
	if len(has) == 0 {
		return v1.Descriptor{}, errors.New("its index holds no image")
	}
	return v1.Descriptor{}, fmt.Errorf("is for %s, this engine runs %s", strings.Join(has, ", "), platform)
}

// fromManifest reads what a manifest tells about an image.
func fromManifest(ctx context.Context, from blobs, content []byte, platform v1.Platform) (incoming, error) {
	manifest, err := v1.ParseManifest(bytes.NewReader(content))
	if err != nil {
		return incoming{}, fmt.Errorf("read its manifest: %w", err)
	}
	if !manifest.Config.MediaType.IsConfig() {
		return incoming{}, fmt.Errorf("it holds a %q, not a container image", manifest.Config.MediaType)
	}
	raw, err := document(ctx, from, manifest.Config)
	if err != nil {
		return incoming{}, fmt.Errorf("read its configuration: %w", err)
	}
	image, err := newIncoming(raw, len(manifest.Layers), platform)
	if err != nil {
		return incoming{}, err
	}
	for i, delivered := range manifest.Layers {
		if kind := delivered.MediaType; !kind.IsLayer() || !kind.IsDistributable() {
			return incoming{}, fmt.Errorf("its layer %s has the media type %q, which is not supported: build it with layers of type %q", delivered.Digest, kind, types.OCILayer)
		}
		image.layers[i].digest, image.layers[i].size = delivered.Digest, delivered.Size
		image.layers[i].open = func(ctx context.Context) (io.ReadCloser, error) { return from.blob(ctx, delivered) }
	}
	return image, nil
}

// newIncoming checks a configuration and begins an image with it, whose layers
// cannot be opened yet.
func newIncoming(raw []byte, layers int, platform v1.Platform) (incoming, error) {
	config, err := parseConfig(raw)
	if err != nil {
		return incoming{}, err
	}
	// Some builders leave it out, and mean the machine they run on.
	if is := (v1.Platform{OS: config.OS, Architecture: config.Architecture}); is.OS != "" && is.OS != platform.OS || is.Architecture != "" && is.Architecture != platform.Architecture {
		return incoming{}, &platformError{is: is, runs: platform}
	}
	if len(config.RootFS.DiffIDs) != layers {
		return incoming{}, fmt.Errorf("its manifest has %d layers and its configuration %d: %w", layers, len(config.RootFS.DiffIDs), errDamaged)
	}
	image := incoming{id: hashOf(raw), config: raw, layers: make([]layer, layers)}
	for i, diffID := range config.RootFS.DiffIDs {
		image.layers[i].diffID = diffID
	}
	return image, nil
}

// platformError tells that an image is for another platform.
type platformError struct{ is, runs v1.Platform }

func (e *platformError) Error() string {
	return fmt.Sprintf("is for %s, this engine runs %s", e.is, e.runs)
}

func parseConfig(raw []byte) (*v1.ConfigFile, error) {
	config := &v1.ConfigFile{}
	if err := json.Unmarshal(raw, config); err != nil {
		return nil, fmt.Errorf("read its configuration: %w", err)
	}
	return config, nil
}
