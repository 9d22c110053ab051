package shipped

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// format is part of every image's hash. It changes when images are built in
// another way from the same binary.
const format = "2"

// Prefix is how manifests name the shipped types.
const Prefix = "deployster/"

// Program is the path of this program in the images of shipped types.
const Program = "/deployster"

// Tag is the reference of a type's image. It is given by the type's name and by
// what the binary contains; version only makes it readable.
func Tag(name, version string, b Binary) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{format, name, b.Arch, b.SHA256}, "\x00")))
	return fmt.Sprintf("%s%s:%s-%s", Prefix, name, tagText(version), hex.EncodeToString(sum[:6]))
}

// tagText turns a version into what may stand in a tag.
func tagText(version string) string {
	version = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_':
			return r
		}
		return '-'
	}, version)
	version = strings.TrimLeft(version, ".-")
	if version == "" {
		version = "unknown"
	}
	return version[:min(len(version), 100)]
}

// WriteArchive writes the images of the named types as one docker-save tar.
// They share their only layer, so many cost hardly more than one, and types that are one
// program are one image. The same binary and version always give the same bytes.
func WriteArchive(w io.Writer, version string, b Binary, names ...string) error {
	archive := tar.NewWriter(w)
	diffID, err := writeLayer(archive, b)
	if err != nil {
		return fmt.Errorf("packing %s: %w", b.Path, err)
	}
	type image struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var manifest []image
	index := map[string]int{} // in it, by program
	for _, name := range names {
		program := types()[name].program
		if at, packed := index[program]; packed {
			manifest[at].RepoTags = append(manifest[at].RepoTags, Tag(name, version, b))
			continue
		}
		index[program] = len(manifest)
		config, err := json.Marshal(imageConfig(program, version, b.Arch, diffID))
		if err != nil {
			return fmt.Errorf("packing the image of %s: %w", name, err)
		}
		sum := sha256.Sum256(config)
		file := hex.EncodeToString(sum[:]) + ".json"
		if err := writeFile(archive, file, config); err != nil {
			return fmt.Errorf("packing the image of %s: %w", name, err)
		}
		manifest = append(manifest, image{file, []string{Tag(name, version, b)}, []string{layerFile}})
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return fmt.Errorf("packing the manifest: %w", err)
	}
	if err := writeFile(archive, "manifest.json", text); err != nil {
		return fmt.Errorf("packing the manifest: %w", err)
	}
	return archive.Close()
}

func imageConfig(program, version, arch string, diffID v1.Hash) v1.ConfigFile {
	return v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: time.Unix(0, 0).UTC()},
		Config: v1.Config{
			Entrypoint: []string{Program, "type", "run", program},
			Env:        []string{"PATH=/", "HOME=/tmp"},
			Labels:     map[string]string{"deployster.type": program, "deployster.version": version},
		},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diffID}},
	}
}

const layerFile = "layer.tar"

// writeLayer writes the layer into the archive, uncompressed: it goes to an
// engine on the same machine, or through a connection that may compress. The
// hash of the layer is taken on the way, in the only pass over the binary.
func writeLayer(archive *tar.Writer, b Binary) (diffID v1.Hash, err error) {
	file, err := b.open()
	if err != nil {
		return diffID, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return diffID, err
	}
	// What comes before and after the binary's bytes in the layer.
	var head, tail bytes.Buffer
	start := tar.NewWriter(&head)
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR},
		{Typeflag: tar.TypeReg, Name: "deployster", Mode: 0o755, Size: info.Size(), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR},
	} {
		if err := start.WriteHeader(h); err != nil {
			return diffID, err
		}
	}
	const block = 512 // a file is filled up to whole blocks; two empty ones end a tar
	tail.Write(make([]byte, (block-info.Size()%block)%block+2*block))

	size := int64(head.Len()) + info.Size() + int64(tail.Len())
	if err := archive.WriteHeader(header(layerFile, size)); err != nil {
		return diffID, err
	}
	hash, content := sha256.New(), sha256.New()
	n, err := io.Copy(io.MultiWriter(archive, hash), io.MultiReader(&head, io.TeeReader(io.LimitReader(file, info.Size()), content), &tail))
	if err != nil {
		return diffID, err
	}
	if n != size || hex.EncodeToString(content.Sum(nil)) != b.SHA256 {
		return diffID, fmt.Errorf("%s changed while it was read; try again", b.Path)
	}
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(hash.Sum(nil))}, nil
}

func writeFile(archive *tar.Writer, name string, content []byte) error {
	if err := archive.WriteHeader(header(name, int64(len(content)))); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

func header(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0)}
}
