package shipped

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

func binary(t *testing.T, content string) Binary {
	path := filepath.Join(t.TempDir(), "deployster")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	sum := sha256.Sum256([]byte(content))
	return Binary{Path: path, Arch: "arm64", SHA256: hex.EncodeToString(sum[:])}
}

func archive(t *testing.T, b Binary, names ...string) []byte {
	var out bytes.Buffer
	require.NoError(t, WriteArchive(&out, "1.2", b, names...))
	return out.Bytes()
}

func TestArchiveIsReadByOthers(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 100_000} { // around the blocks of a tar
		content := strings.Repeat("x", size)
		b := binary(t, content)
		packed := archive(t, b, "container", "file", "http", "network")
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil }
		images := map[string]v1.Hash{}
		for typ, program := range map[string]string{"container": "docker", "file": "file", "http": "http", "network": "docker"} {
			tag := must.Get(name.NewTag(Tag(typ, "1.2", b)))(t)
			image := must.Get(tarball.Image(open, &tag))(t)
			config, err := image.ConfigFile()
			require.NoError(t, err)
			want := []string{"/deployster", "type", "run", program}
			assert.True(t, slices.Equal(config.Config.Entrypoint, want) && config.Architecture == "arm64" && config.OS == "linux", "configuration: %+v", config)
			if images[typ], err = image.ConfigName(); err != nil {
				t.Fatal(err)
			}
			text := onlyLayer(t, image)
			sum := sha256.Sum256(text)
			assert.True(t, hex.EncodeToString(sum[:]) == config.RootFS.DiffIDs[0].Hex, "%d bytes: the layer's hash is not the one in the configuration", size)
			files := filesOf(t, text)
			assert.True(t, len(files) == 2 && files["deployster 755"] == content && files["tmp/ 1777"] == "", "%d bytes: the layer holds %d files", size, len(files))
		}
		if images["container"] != images["network"] || images["file"] == images["http"] || images["file"] == images["network"] {
			t.Errorf("images, of which two are one: %v", images)
		}
	}
}

// onlyLayer is the one layer of an image, as a tar.
func onlyLayer(t *testing.T, image v1.Image) []byte {
	layers, err := image.Layers()
	require.True(t, err == nil && len(layers) == 1, "layers: %v, %v", layers, err)
	layer := must.Get(layers[0].Uncompressed())(t)
	text := must.Get(io.ReadAll(layer))(t)
	return text
}

// filesOf reads a tar: names and modes to contents.
func filesOf(t *testing.T, packed []byte) map[string]string {
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(packed)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		inside := must.Get(io.ReadAll(r))(t)
		files[fmt.Sprintf("%s %o", h.Name, h.Mode)] = string(inside)
	}
}

func TestArchiveIsTheSameEveryTime(t *testing.T) {
	b := binary(t, "program")
	assert.True(t, bytes.Equal(archive(t, b, Names()...), archive(t, b, Names()...)), "two archives of one binary differ")
	elsewhere := binary(t, "program")
	assert.True(t, bytes.Equal(archive(t, b, "file"), archive(t, elsewhere, "file")), "the path of the binary is part of the archive")
}

func TestTag(t *testing.T) {
	b := binary(t, "program")
	tag := Tag("file", "1.2.3", b)
	_, err := name.NewTag(tag)
	assert.True(t, err == nil && strings.HasPrefix(tag, "deployster/file:1.2.3-") && len(tag) == len("deployster/file:1.2.3-")+12, "tag: %s, %v", tag, err)
	other := binary(t, "another program")
	arch := b
	arch.Arch = "amd64"
	for what, changed := range map[string]string{"type": Tag("http", "1.2.3", b), "binary": Tag("file", "1.2.3", other), "architecture": Tag("file", "1.2.3", arch)} {
		assert.True(t, changed[len(changed)-12:] != tag[len(tag)-12:], "another %s has the same hash", what)
	}
	for _, version := range []string{"", "(devel)", "v1.0.0+dirty", "../x", ".1", strings.Repeat("9", 300), "1 2", "é"} {
		assert.NoError(t, errOf(name.NewTag(Tag("file", version, b))), "version %q", version)
	}
}

func TestABinaryThatChangesIsNotPacked(t *testing.T) {
	b := binary(t, "program")
	require.NoError(t, os.WriteFile(b.Path, []byte("progran"), 0o600))
	assert.ErrorContains(t, WriteArchive(io.Discard, "1", b, "file"), "changed while it was read")
}
