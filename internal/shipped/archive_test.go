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
)

func binary(t *testing.T, content string) Binary {
	t.Helper()
	path := filepath.Join(t.TempDir(), "deployster")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(content))
	return Binary{Path: path, Arch: "arm64", SHA256: hex.EncodeToString(sum[:])}
}

func archive(t *testing.T, b Binary, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := WriteArchive(&out, "1.2", b, names...); err != nil {
		t.Fatal(err)
	}
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
			tag, err := name.NewTag(Tag(typ, "1.2", b))
			if err != nil {
				t.Fatal(err)
			}
			image, err := tarball.Image(open, &tag)
			if err != nil {
				t.Fatal(err)
			}
			config, err := image.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if want := []string{"/deployster", "type", "run", program}; !slices.Equal(config.Config.Entrypoint, want) || config.Architecture != "arm64" || config.OS != "linux" {
				t.Errorf("configuration: %+v", config)
			}
			if images[typ], err = image.ConfigName(); err != nil {
				t.Fatal(err)
			}
			text := onlyLayer(t, image)
			if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != config.RootFS.DiffIDs[0].Hex {
				t.Errorf("%d bytes: the layer's hash is not the one in the configuration", size)
			}
			files := filesOf(t, text)
			if len(files) != 2 || files["deployster 755"] != content || files["tmp/ 1777"] != "" {
				t.Errorf("%d bytes: the layer holds %d files", size, len(files))
			}
		}
		if images["container"] != images["network"] || images["file"] == images["http"] || images["file"] == images["network"] {
			t.Errorf("images, of which two are one: %v", images)
		}
	}
}

// onlyLayer is the one layer of an image, as a tar.
func onlyLayer(t *testing.T, image v1.Image) []byte {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers: %v, %v", layers, err)
	}
	layer, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(layer)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// filesOf reads a tar: names and modes to contents.
func filesOf(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(packed)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		inside, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[fmt.Sprintf("%s %o", h.Name, h.Mode)] = string(inside)
	}
}

func TestArchiveIsTheSameEveryTime(t *testing.T) {
	b := binary(t, "program")
	if !bytes.Equal(archive(t, b, Names()...), archive(t, b, Names()...)) {
		t.Error("two archives of one binary differ")
	}
	elsewhere := binary(t, "program")
	if !bytes.Equal(archive(t, b, "file"), archive(t, elsewhere, "file")) {
		t.Error("the path of the binary is part of the archive")
	}
}

func TestTag(t *testing.T) {
	b := binary(t, "program")
	tag := Tag("file", "1.2.3", b)
	if _, err := name.NewTag(tag); err != nil || !strings.HasPrefix(tag, "deployster/file:1.2.3-") || len(tag) != len("deployster/file:1.2.3-")+12 {
		t.Errorf("tag: %s, %v", tag, err)
	}
	other := binary(t, "another program")
	arch := b
	arch.Arch = "amd64"
	for what, changed := range map[string]string{"type": Tag("http", "1.2.3", b), "binary": Tag("file", "1.2.3", other), "architecture": Tag("file", "1.2.3", arch)} {
		if changed[len(changed)-12:] == tag[len(tag)-12:] {
			t.Errorf("another %s has the same hash", what)
		}
	}
	for _, version := range []string{"", "(devel)", "v1.0.0+dirty", "../x", ".1", strings.Repeat("9", 300), "1 2", "é"} {
		if _, err := name.NewTag(Tag("file", version, b)); err != nil {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

func TestABinaryThatChangesIsNotPacked(t *testing.T) {
	b := binary(t, "program")
	if err := os.WriteFile(b.Path, []byte("progran"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteArchive(io.Discard, "1", b, "file"); err == nil || !strings.Contains(err.Error(), "changed while it was read") {
		t.Errorf("got %v", err)
	}
}
