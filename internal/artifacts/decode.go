package artifacts

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// sink takes the entries of a layer, each after the directory that it is in.
type sink interface {
	directory(at string) error
	file(e entry, content io.Reader) error
	link(e entry) error
}

// nowhere is a sink for a layer that is only checked.
type nowhere struct{}

func (nowhere) directory(string) error { return nil }
func (nowhere) link(entry) error       { return nil }
func (nowhere) file(_ entry, content io.Reader) error {
	_, err := io.Copy(io.Discard, content)
	return err
}

// decoder reads a layer. It accepts only what pack writes: it writes each entry again, and
// what came of that must have the digest of what was read.
type decoder struct {
	limits  Limits
	layer   v1.Descriptor
	in      *tar.Reader
	again   *tar.Writer
	open    []string // names of the directories that the last entry is in, or is
	last    []string // for each of them and the root, the last name in it
	entries int
	bytes   int64
}

// decode reads a layer, and gives its entries to a sink. What a sink has got means nothing
// where it fails, which it does at the very end at the latest.
func decode(ctx context.Context, r io.Reader, layer v1.Descriptor, limits Limits, to sink) (Artifact, error) {
	read, written := sha256.New(), sha256.New()
	in := &source{ctx: ctx, r: r, left: layer.Size, sum: read}
	d := &decoder{limits: limits, layer: layer, in: tar.NewReader(in), again: tar.NewWriter(written), last: []string{""}}
	wrong := d.all(to)
	if wrong == nil {
		wrong = d.again.Close()
	}
	// Where it is not what it is to be, that is why its form is wrong, too.
	_, _ = io.Copy(io.Discard, in)
	end := in.end()
	switch got := hex.EncodeToString(read.Sum(nil)); {
	case in.left == 0 && got != layer.Digest.Hex:
		return Artifact{}, fmt.Errorf("its layer has the digest %s%s, not %s: it %w", digestPrefix, got, layer.Digest, ErrAltered)
	case in.failed != nil:
		return Artifact{}, in.failed
	case end != nil:
		return Artifact{}, end
	case wrong != nil:
		return Artifact{}, wrong
	case hex.EncodeToString(written.Sum(nil)) != layer.Digest.Hex:
		return Artifact{}, formError("an entry has an owner, a time or something else that artifacts have not")
	}
	manifest, err := encodeManifest(layer)
	if err != nil {
		return Artifact{}, err
	}
	return Artifact{Digest: digestOf(manifest), Size: d.bytes, Files: d.entries}, nil
}

func formError(format string, args ...any) error {
	return &RefusedError{Reason: "its layer is not in the form of an artifact of a build: " + fmt.Sprintf(format, args...)}
}

func (d *decoder) all(to sink) error {
	for {
		h, err := d.in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return formError("%v", err)
		}
		e, err := d.entry(h)
		if err != nil {
			return err
		}
		if err := d.again.WriteHeader(e.header()); err != nil {
			return formError("%v", err)
		}
		switch e.kind {
		case tar.TypeDir:
			err = to.directory(e.path)
		case tar.TypeSymlink:
			err = to.link(e)
		default:
			err = to.file(e, io.TeeReader(d.in, d.again))
		}
		if err != nil {
			return err
		}
	}
}

// entry is that of a header, which must come after those before it.
func (d *decoder) entry(h *tar.Header) (entry, error) {
	e := entry{path: h.Name, kind: h.Typeflag, size: h.Size, executable: h.Mode&0o100 != 0, target: h.Linkname}
	for key := range h.PAXRecords {
		if key != "path" && key != "linkpath" && key != "size" {
			return e, formError("%.100q has the record %.100q", h.Name, key)
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		e.path = strings.TrimSuffix(h.Name, "/")
	case tar.TypeSymlink:
		if err := checkLink(e.path, e.target); err != nil {
			return e, err
		}
	case tar.TypeReg:
		if e.size > d.layer.Size || e.size > d.limits.Bytes-d.bytes {
			return e, &RefusedError{Path: e.path, Reason: fmt.Sprintf("and what is before it have more than %d bytes", min(d.layer.Size, d.limits.Bytes))}
		}
		d.bytes += e.size
	default:
		return e, formError("%.100q has the type %q", h.Name, h.Typeflag)
	}
	if d.entries++; d.entries > d.limits.Files {
		return e, &RefusedError{Reason: fmt.Sprintf("it has more than %d files, links and directories", d.limits.Files)}
	}
	return e, d.order(e)
}

// order checks that an entry is in the last directory or one of those around it, and its name
// after those before it there: no entry is in or of a link, and none is there twice.
func (d *decoder) order(e entry) error {
	if len(e.path) > maxPath {
		return checkName("", e.path[:maxPath+1])
	}
	names := strings.Split(e.path, "/")
	parents, name := names[:len(names)-1], names[len(names)-1]
	if err := checkName(path.Join(parents...), name); err != nil {
		return err
	}
	depth := len(parents)
	if depth > maxDepth {
		return formError("%.100q is deeper than %d directories", e.path, maxDepth)
	}
	if depth > len(d.open) || !slices.Equal(d.open[:depth], parents) {
		return formError("%.100q is in no directory of it, or comes too late", e.path)
	}
	if name <= d.last[depth] {
		return formError("%.100q is there twice, or comes too late", e.path)
	}
	d.open, d.last = d.open[:depth], d.last[:depth+1]
	d.last[depth] = name
	if e.kind == tar.TypeDir {
		d.open, d.last = append(d.open, name), append(d.last, "")
	}
	return nil
}

// source reads the bytes of a layer, and no more.
type source struct {
	ctx    context.Context
	r      io.Reader
	left   int64
	sum    hash.Hash
	failed error // what made reading fail: no fault of the layer
}

func (s *source) Read(p []byte) (int, error) {
	if s.failed != nil {
		return 0, s.failed
	}
	if s.ctx.Err() != nil {
		s.failed = context.Cause(s.ctx)
		return 0, s.failed
	}
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.sum.Write(p[:n])
	s.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

// end fails unless all was read that there is, and that is as much as there was to be.
func (s *source) end() error {
	if s.failed != nil {
		return s.failed
	}
	if s.left > 0 {
		return fmt.Errorf("its layer lacks %d bytes: it %w", s.left, ErrAltered)
	}
	n, err := io.ReadFull(s.r, make([]byte, 1))
	if n > 0 {
		return fmt.Errorf("its layer has more bytes than it is to have: it %w", ErrAltered)
	}
	if !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return s.failed
}
