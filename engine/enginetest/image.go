package enginetest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// ImageSpec describes an image of one layer around one static binary. The same
// spec always gives the same image.
type ImageSpec struct {
	Binary     string // file on this machine
	Path       string // where it is in the image; "/" + its base name if empty
	Entrypoint []string
	Cmd        []string
	Env        []string
	WorkDir    string
	User       string
	Arch       string // GOARCH; this machine's if empty

	// Files are more files by their paths, readable by all. A path that ends in
	// a slash is a directory that all may write to.
	Files map[string]string
}

// BuildImage makes the image that spec describes.
func BuildImage(spec ImageSpec) (v1.Image, error) {
	if spec.Path == "" {
		spec.Path = "/" + path.Base(spec.Binary)
	}
	if spec.Arch == "" {
		spec.Arch = runtime.GOARCH
	}
	content, err := layer(spec)
	if err != nil {
		return nil, fmt.Errorf("build image around %s: %w", spec.Binary, err)
	}
	one, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	})
	if err != nil {
		return nil, fmt.Errorf("build image around %s: %w", spec.Binary, err)
	}
	image, err := mutate.AppendLayers(empty.Image, one)
	if err != nil {
		return nil, fmt.Errorf("build image around %s: %w", spec.Binary, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("build image around %s: %w", spec.Binary, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", spec.Arch
	config.Config = v1.Config{
		Entrypoint: spec.Entrypoint,
		Cmd:        spec.Cmd,
		Env:        spec.Env,
		WorkingDir: spec.WorkDir,
		User:       spec.User,
	}
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		return nil, fmt.Errorf("build image around %s: %w", spec.Binary, err)
	}
	return image, nil
}

// ImageTar packs an image as `docker save` would, under the name ref, for
// Engine.Load.
func ImageTar(ref string, image v1.Image) ([]byte, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return nil, fmt.Errorf("pack image: %w", err)
	}
	var packed bytes.Buffer
	if err := tarball.Write(tag, image, &packed); err != nil {
		return nil, fmt.Errorf("pack image %s: %w", ref, err)
	}
	return packed.Bytes(), nil
}

// layer is the tar of the image's only layer.
func layer(spec ImageSpec) ([]byte, error) {
	binary, err := os.ReadFile(spec.Binary)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	add := func(header tar.Header, content []byte) error {
		header.Name = strings.TrimPrefix(header.Name, "/")
		header.Size, header.ModTime = int64(len(content)), time.Unix(0, 0)
		if err := w.WriteHeader(&header); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	}
	if err := add(tar.Header{Name: spec.Path, Mode: 0o755, Typeflag: tar.TypeReg}, binary); err != nil {
		return nil, err
	}
	for _, file := range slices.Sorted(maps.Keys(spec.Files)) {
		header := tar.Header{Name: file, Mode: 0o644, Typeflag: tar.TypeReg}
		if strings.HasSuffix(file, "/") {
			header.Mode, header.Typeflag = 0o1777, tar.TypeDir
		}
		if err := add(header, []byte(spec.Files[file])); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
