package artifacts

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Type is the type of our artifacts, as their manifests say.
const Type = "application/vnd.deployster.artifact.v1"

const (
	layerType = "application/vnd.oci.image.layer.v1.tar" // not compressed
	emptyType = "application/vnd.oci.empty.v1+json"
	emptyJSON = "{}" // the configuration of an artifact that has none

	maxManifest = 4 << 10 // a manifest of ours has about 600 bytes
	maxDepth    = 255     // directories within each other
	maxPath     = 4095    // bytes, as of paths in Linux
)

// stamp is the time of everything in an artifact, and of everything that is unpacked: the same
// on all machines, so that what is made of it may be, too. It is after the first day of 1980
// in every time zone, with which the times of ZIP archives begin.
var stamp = time.Date(1980, 1, 2, 0, 0, 0, 0, time.UTC)

// encodeManifest is the only manifest that an artifact of this layer has.
func encodeManifest(layer v1.Descriptor) ([]byte, error) {
	layer.MediaType = layerType
	empty, err := v1.NewHash(digestOf([]byte(emptyJSON)))
	if err != nil {
		return nil, err
	}
	return json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		ArtifactType:  Type,
		Config:        v1.Descriptor{MediaType: emptyType, Digest: empty, Size: int64(len(emptyJSON)), Data: []byte(emptyJSON)},
		Layers:        []v1.Descriptor{layer},
	})
}

// decodeManifest returns the layer of an artifact.
func decodeManifest(text []byte) (layer v1.Descriptor, err error) {
	if len(text) > maxManifest {
		return layer, &RefusedError{Reason: fmt.Sprintf("its manifest has %d bytes, at most %d are possible", len(text), maxManifest)}
	}
	var m v1.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return layer, &RefusedError{Reason: fmt.Sprintf("its manifest is not that of an artifact: %v", err)}
	}
	if m.ArtifactType != Type {
		of := cmp.Or(m.ArtifactType, string(m.Config.MediaType), string(m.MediaType))
		return layer, &RefusedError{Reason: fmt.Sprintf("it is no artifact of a build: its type is %.100q, not %q", of, Type)}
	}
	if len(m.Layers) == 1 && m.Layers[0].Digest.Algorithm == "sha256" && m.Layers[0].Size >= 0 {
		layer = v1.Descriptor{MediaType: layerType, Digest: m.Layers[0].Digest, Size: m.Layers[0].Size}
		if only, err := encodeManifest(layer); err == nil && bytes.Equal(only, text) {
			return layer, nil
		}
	}
	return v1.Descriptor{}, &RefusedError{Reason: "its manifest is not in the form of an artifact of a build, though of its type"}
}

// entry is a file, a link or a directory of an artifact.
type entry struct {
	path       string
	kind       byte // as of the header of a tar: tar.TypeReg, TypeSymlink or TypeDir
	executable bool // of a file
	size       int64
	target     string // of a link
}

// header is the only one that an entry has.
func (e entry) header() *tar.Header {
	h := &tar.Header{Typeflag: e.kind, Name: e.path, Mode: 0o644, ModTime: stamp, Format: tar.FormatPAX}
	switch {
	case e.kind == tar.TypeDir:
		h.Name, h.Mode = e.path+"/", 0o755
	case e.kind == tar.TypeSymlink:
		h.Linkname, h.Mode = e.target, 0o777
	case e.executable:
		h.Mode = 0o755
	}
	if e.kind == tar.TypeReg {
		h.Size = e.size
	}
	return h
}

// checkName refuses a name that not every file system, archive, document and terminal
// carries unchanged.
func checkName(dir, name string) error {
	at := path.Join(dir, name)
	switch {
	case name == "" || name == "." || name == ".." || strings.Contains(name, "/"):
		return &RefusedError{Path: at, Reason: "has no name"}
	case !utf8.ValidString(name):
		return &RefusedError{Path: at, Reason: "has a name that is not valid UTF-8, which manifests and archives cannot carry", Remedy: "rename it"}
	case strings.ContainsFunc(name, unicode.IsControl):
		return &RefusedError{Path: at, Reason: "has a name with control characters, which what lists it would take for commands", Remedy: "rename it"}
	case len(at) > maxPath:
		return &RefusedError{Path: at[:80] + "…", Reason: fmt.Sprintf("has a path of more than %d bytes", maxPath), Remedy: "shorten it"}
	}
	return nil
}

// checkLink refuses a link that may lead out of the directory. It goes by the texts alone:
// leading ".." climb from where the link is, which is no link itself; and after a name, which
// may be a link to somewhere deeper, nobody could say where ".." leads.
func checkLink(at, target string) error {
	const remedy = "let it be relative and lead to something in the directory, or copy what it leads to"
	switch {
	case !utf8.ValidString(target) || strings.ContainsFunc(target, unicode.IsControl):
		return &RefusedError{Path: at, Reason: fmt.Sprintf("is a link to %q, which has control characters or is not valid UTF-8", target), Remedy: "rename what it leads to"}
	case target == "" || len(target) > maxPath:
		return &RefusedError{Path: at, Reason: fmt.Sprintf("is a link to a path of %d bytes, at most %d are possible", len(target), maxPath), Remedy: remedy}
	case strings.HasPrefix(target, "/"):
		return &RefusedError{Path: at, Reason: fmt.Sprintf("is a link to %q, which is not in the directory wherever that is mounted", target), Remedy: remedy}
	}
	depth, named := strings.Count(at, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			depth--
			if depth < 0 {
				return &RefusedError{Path: at, Reason: fmt.Sprintf("is a link to %q, which leaves the directory", target), Remedy: remedy}
			}
			if named {
				return &RefusedError{Path: at, Reason: fmt.Sprintf("is a link to %q, with \"..\" after a name, which leads elsewhere where that is a link", target), Remedy: "write it without"}
			}
		default:
			named = true
		}
	}
	return nil
}
