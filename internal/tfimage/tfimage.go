// Package tfimage makes images of resource types from a provider of Terraform, one for
// each of its resources and data sources.
//
// All images of a provider share three layers: this program, the provider with the
// certificates that it trusts, and what its resources say about themselves. The last is
// found out by running the provider in a container, without network, while the images are
// made; it need not be started to answer init.
package tfimage

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/compression"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/resources/terraform"
)

// Image is an image that is made.
type Image struct {
	Tag  string
	Args []string // of "type run terraform"
}

// Contents are what images consist of.
type Contents struct {
	Program  shipped.Binary // Deployster, in the engine's platform
	Provider string         // path of the provider's program
	Inits    []terraform.Description
	Labels   map[string]string
}

// file is one of a layer.
type file struct {
	path string
	mode int64
	size int64
	open func() (io.ReadCloser, error) // nil of a directory
}

// Write writes images as a docker-save tar.
func (c Contents) Write(to io.Writer, images ...Image) error {
	base, err := c.base()
	if err != nil {
		return err
	}
	all := map[name.Tag]v1.Image{}
	for _, i := range images {
		tag, err := name.NewTag(i.Tag, name.WeakValidation)
		if err != nil {
			return fmt.Errorf("%q cannot be the name of an image: %w", i.Tag, err)
		}
		if all[tag], err = mutate.Config(base, v1.Config{
			Entrypoint: append([]string{shipped.Program, "type", "run", terraform.TypeName}, i.Args...),
			Env:        []string{"PATH=/", "HOME=/tmp"},
			Labels:     c.Labels,
		}); err != nil {
			return fmt.Errorf("making the image %s: %w", i.Tag, err)
		}
	}
	return tarball.MultiWrite(all, to)
}

// base is an image with all layers.
func (c Contents) base() (v1.Image, error) {
	provider, err := fileOf(terraform.ProgramPath(terraform.Dir), c.Provider, 0o755)
	if err != nil {
		return nil, err
	}
	program, err := fileOf(shipped.Program, c.Program.Path, 0o755)
	if err != nil {
		return nil, err
	}
	layers := [][]file{
		{directory("/tmp", 0o1777), program},
		append(parents("/etc/ssl/certs"), text("/etc/ssl/certs/ca-certificates.crt", certificates()), directory(terraform.Dir, 0o755), provider),
	}
	inits, err := c.inits()
	if err != nil {
		return nil, err
	}
	if len(inits) > 0 {
		layers = append(layers, inits)
	}
	image := v1.Image(empty.Image)
	for _, files := range layers {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return packed(files), nil }, tarball.WithCompression(compression.None))
		if err != nil {
			return nil, fmt.Errorf("packing the image: %w", err)
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, fmt.Errorf("packing the image: %w", err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("packing the image: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", c.Program.Arch, v1.Time{Time: time.Unix(0, 0).UTC()}
	return mutate.ConfigFile(image, config)
}

// packed is the tar of files.
func packed(files []file) io.ReadCloser {
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(pack(w, files)) }()
	return r
}

func pack(to io.Writer, files []file) error {
	archive := tar.NewWriter(to)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.path[1:], Mode: f.mode, Size: f.size, ModTime: time.Unix(0, 0), Format: tar.FormatGNU}
		if f.open == nil {
			header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if f.open == nil {
			continue
		}
		if err := f.copy(archive); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (f file) copy(to io.Writer) error {
	from, err := f.open()
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it was only read
	_, err = io.CopyN(to, from, f.size)
	return err
}

func directory(path string, mode int64) file { return file{path: path, mode: mode} }

func parents(path string) (dirs []file) {
	for i, r := range path {
		if r == '/' && i > 0 {
			dirs = append(dirs, directory(path[:i], 0o755))
		}
	}
	return append(dirs, directory(path, 0o755))
}

func text(path string, content []byte) file {
	return file{path, 0o644, int64(len(content)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }}
}

func fileOf(path, from string, mode int64) (file, error) {
	info, err := os.Stat(from)
	if err != nil {
		return file{}, err
	}
	return file{path, mode, info.Size(), func() (io.ReadCloser, error) { return os.Open(from) }}, nil
}

// certificates are those that providers trust: those that this program does.
func certificates() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // what is trusted in part only cannot be said in such a file
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return all.Bytes()
}

// inits are the files with what resources say about themselves.
func (c Contents) inits() ([]file, error) {
	var files []file
	for _, d := range c.Inits {
		content, err := d.Encode()
		if err != nil {
			return nil, fmt.Errorf("packing what is known of %s: %w", d.Name, err)
		}
		files = append(files, text(terraform.InitPath(terraform.Dir, d.Name), content))
	}
	if len(files) == 0 {
		return nil, nil
	}
	return slices.Insert(files, 0, directory(terraform.InitsPath(terraform.Dir), 0o755)), nil
}
