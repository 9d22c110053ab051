package kubernetes

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Load pushes the images of a docker-save tar to the repository, each under a tag of its
// name there and under one of its id.
func (e *Engine) Load(ctx context.Context, packed io.Reader) (err error) {
	file, err := os.CreateTemp("", "deployster-load-")
	if err != nil {
		return fmt.Errorf("load images: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	if _, err := io.Copy(file, packed); err != nil {
		return fmt.Errorf("load images: read the tar: %w", err)
	}
	open := func() (io.ReadCloser, error) { return os.Open(file.Name()) }
	manifest, err := tarball.LoadManifest(open)
	if err != nil {
		return fmt.Errorf("load images: %w; it must be a tar as `docker save` makes", err)
	}
	loaded := false
	for _, described := range manifest {
		for _, ref := range described.RepoTags {
			tag, err := name.NewTag(ref)
			if err != nil {
				return fmt.Errorf("load images: %w", err)
			}
			image, err := tarball.Image(open, &tag)
			if err != nil {
				return fmt.Errorf("load image %q: %w", ref, err)
			}
			if err := e.push(ctx, ref, image); err != nil {
				return err
			}
			loaded = true
		}
	}
	if !loaded {
		return errors.New("load images: the tar holds none with a name; it must be one as `docker save` makes")
	}
	return nil
}

func (e *Engine) push(ctx context.Context, ref string, image v1.Image) error {
	id, err := image.ConfigName()
	if err != nil {
		return fmt.Errorf("load image %q: %w", ref, err)
	}
	e.mu.Lock()
	delete(e.known, ref) // it may be another one by now
	e.mu.Unlock()
	for _, as := range []string{id.String(), ref} {
		if err := remote.Write(e.repository.Tag(tagOf(as)), image, e.registry(ctx)...); err != nil {
			return e.pushError(fmt.Sprintf("push image %q to %s", ref, e.repository), err)
		}
	}
	return nil
}

func (e *Engine) pushError(action string, err error) error {
	return fmt.Errorf("%w; what is named with --types-image (of a host: types_image) must be a repository to which you may push (`docker login %s`)",
		registryError(action, e.repository, err), e.repository.RegistryStr())
}

// shimPath is where the shim's image has this program.
const shimPath = "/deployster"

// shimImage returns the image of the shim by digest, which is pushed unless it is there.
func (e *Engine) shimImage(ctx context.Context) (string, error) {
	e.mu.Lock()
	shim := e.shim
	e.mu.Unlock()
	if shim != "" {
		return shim, nil
	}
	image, err := programImage(e.options.Program)
	if err != nil {
		return "", fmt.Errorf("make the image of this program for Pods: %w", err)
	}
	digest, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("make the image of this program for Pods: %w", err)
	}
	pinned := e.repository.Digest(digest.String())
	if _, err := remote.Head(pinned, e.registry(ctx)...); err != nil {
		if err := remote.Write(e.repository.Tag("shim-"+digest.Hex[:40]), image, e.registry(ctx)...); err != nil {
			return "", e.pushError(fmt.Sprintf("push this program to %s", e.repository), err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shim = pinned.Name()
	return e.shim, nil
}

// programImage is an image that has nothing but a program.
func programImage(file string) (v1.Image, error) {
	program, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	if err := w.WriteHeader(&tar.Header{Name: shimPath[1:], Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}); err != nil {
		return nil, err
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	// Each command needs its digest, and so compresses it; few push it.
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }, tarball.WithCompressedCaching, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{shimPath}
	return mutate.ConfigFile(image, config)
}
