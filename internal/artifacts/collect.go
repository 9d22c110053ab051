package artifacts

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/deployster-go/deployster/internal/regularfile"
)

// bufferSize is how much is read and written at once. Most artifacts are small, and memory that
// is taken for each of them is to be cleared and given back each time.
const (
	bufferSize = 32 << 10
	minBuffer  = 1 << 10
)

// Collect makes an artifact of a directory, which anybody may have written to. It fails with
// a RefusedError where that cannot be one, and leaves nothing in the store then. Files that
// have several names are kept once for each.
func (s *Store) Collect(ctx context.Context, dir string, limits Limits) (Artifact, error) {
	a, err := s.collect(ctx, dir, limits.orDefault())
	if err != nil {
		return Artifact{}, fmt.Errorf("storing %s as an artifact: %w", dir, explain(err))
	}
	return a, nil
}

func (s *Store) collect(ctx context.Context, dir string, limits Limits) (a Artifact, err error) {
	file, err := s.newFile()
	if err != nil {
		return Artifact{}, err
	}
	defer func() { err = errors.Join(err, file.discard()) }()
	a, layer, err := pack(ctx, dir, limits, false, file.File)
	if err != nil {
		return Artifact{}, err
	}
	return a, s.place(ctx, file, a.Digest, layer)
}

// explain adds what to do where the disk is full.
func explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w; make room, `deployster gc` removes what nobody needs any more", err)
	}
	return err
}

// pack writes the layer of a directory, and returns what artifact it makes. unpacked is
// whether the directory is a copy that this package made.
func pack(ctx context.Context, dir string, limits Limits, unpacked bool, w io.Writer) (a Artifact, layer v1.Descriptor, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return a, layer, err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	sum := sha256.New()
	out := &counter{w: bufio.NewWriterSize(io.MultiWriter(w, sum), bufferSize)}
	disk, _ := w.(*os.File)
	p := &packer{ctx: ctx, limits: limits, unpacked: unpacked, tar: tar.NewWriter(out)}
	if disk != nil {
		p.room = &room{file: disk, minFree: limits.MinFree}
	}
	info, err := root.Stat(".")
	if err == nil {
		err = p.directory(root, "", info, 0)
	}
	if err == nil {
		err = errors.Join(p.tar.Close(), out.w.Flush())
	}
	if err != nil {
		return a, layer, err
	}
	layer = v1.Descriptor{MediaType: layerType, Size: out.n, Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}}
	manifest, err := encodeManifest(layer)
	if err != nil {
		return a, layer, err
	}
	return Artifact{Digest: digestOf(manifest), Size: p.bytes, Files: p.entries}, layer, nil
}

// counter counts what is written.
type counter struct {
	w *bufio.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// packer writes a directory as a tar.
type packer struct {
	ctx      context.Context
	limits   Limits
	unpacked bool
	tar      *tar.Writer
	buffer   []byte
	entries  int
	bytes    int64
	room     *room // nil where nothing is stored
}

// directory writes what a directory holds, in the order of the names. was is what it was
// found to be before it was opened.
func (p *packer) directory(root *os.Root, at string, was fs.FileInfo, depth int) error {
	if depth > maxDepth {
		return &RefusedError{Path: at, Reason: fmt.Sprintf("is deeper than %d directories", maxDepth), Remedy: "make an archive of what is below it"}
	}
	opened, err := root.Open(".")
	if err != nil {
		return unreadable(at, err)
	}
	defer opened.Close() //nolint:errcheck // opened for reading
	names, err := p.names(opened, at)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := checkName(at, name); err != nil {
			return err
		}
		if err := p.add(root, at, name, depth); err != nil {
			return err
		}
	}
	is, err := opened.Stat()
	if err != nil {
		return unreadable(at, err)
	}
	if !same(was, is) {
		return changed(at)
	}
	return nil
}

// names lists a directory, unless there is more than may be.
func (p *packer) names(dir *os.File, at string) ([]string, error) {
	var all []string
	for {
		if err := p.ctx.Err(); err != nil {
			return nil, context.Cause(p.ctx)
		}
		some, err := dir.Readdirnames(1024)
		all = append(all, some...)
		if p.entries += len(some); p.entries > p.limits.Files {
			return nil, &RefusedError{Reason: fmt.Sprintf("there are more than %d files, links and directories", p.limits.Files), Remedy: "leave out what nobody needs, or make an archive of it"}
		}
		if errors.Is(err, io.EOF) {
			slices.Sort(all)
			return all, nil
		}
		if err != nil {
			return nil, unreadable(at, err)
		}
	}
}

// add writes an entry, and of a directory all that it holds.
func (p *packer) add(root *os.Root, dir, name string, depth int) error {
	at := path.Join(dir, name)
	info, err := root.Lstat(name)
	if err != nil {
		return unreadable(at, err)
	}
	if p.unpacked && !asUnpacked(info) {
		return fmt.Errorf("the unpacked copy: %q has another mode or time: it %w", at, ErrAltered)
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		below, err := root.OpenRoot(name)
		if err != nil {
			return unreadable(at, err)
		}
		defer below.Close() //nolint:errcheck // opened for reading
		// What was opened may be something else, that a link led to.
		if is, err := below.Stat("."); err != nil || !os.SameFile(info, is) {
			return changed(at)
		}
		if err := p.tar.WriteHeader(entry{path: at, kind: tar.TypeDir}.header()); err != nil {
			return err
		}
		return p.directory(below, at, info, depth+1)
	case fs.ModeSymlink:
		target, err := root.Readlink(name)
		if err != nil {
			return unreadable(at, err)
		}
		if err := checkLink(at, target); err != nil {
			return err
		}
		return p.tar.WriteHeader(entry{path: at, kind: tar.TypeSymlink, target: target}.header())
	case 0:
		return p.file(root, at, name, info)
	default:
		return &RefusedError{Path: at, Reason: fmt.Sprintf("is %s, not a file, a link or a directory", regularfile.Kind(info.Mode())), Remedy: "remove it at the end of the job"}
	}
}

// file writes a file, which must be the same before, while and after it is read.
func (p *packer) file(root *os.Root, at, name string, was fs.FileInfo) error {
	if was.Size() > p.limits.Bytes-p.bytes {
		return &RefusedError{Path: at, Reason: fmt.Sprintf("and what is before it have more than %d bytes", p.limits.Bytes), Remedy: "leave out what nobody needs"}
	}
	p.bytes += was.Size()
	f, is, err := regularfile.OpenIn(root, name)
	if err != nil {
		return unreadable(at, err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	if !os.SameFile(was, is) || !same(was, is) {
		return changed(at)
	}
	if err := p.room.wants(at, was, was.Size()); err != nil {
		return err
	}
	if err := p.tar.WriteHeader(entry{path: at, kind: tar.TypeReg, size: was.Size(), executable: was.Mode()&0o100 != 0}.header()); err != nil {
		return err
	}
	if err := p.content(f, at, was); err != nil {
		return err
	}
	if is, err = f.Stat(); err != nil {
		return unreadable(at, err)
	}
	if !same(was, is) {
		return changed(at)
	}
	return nil
}

// content writes what a file holds.
func (p *packer) content(f *os.File, at string, was fs.FileInfo) error {
	if need := min(was.Size()+1, bufferSize); int64(len(p.buffer)) < need { // one more than there is, so that the end is seen at once
		p.buffer = make([]byte, max(need, minBuffer))
	}
	for left := was.Size(); ; {
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		n, err := f.Read(p.buffer)
		if left -= int64(n); left < 0 {
			return changed(at)
		}
		if _, err := p.tar.Write(p.buffer[:n]); err != nil {
			return err
		}
		if err := p.room.took(at, was, n); err != nil {
			return err
		}
		switch {
		case errors.Is(err, io.EOF) && left == 0:
			return nil
		case errors.Is(err, io.EOF):
			return changed(at)
		case err != nil:
			return unreadable(at, err)
		}
	}
}

// same reports whether a file, or a directory, was left alone from one moment to another.
func same(was, is fs.FileInfo) bool {
	a, b := stateOf(was), stateOf(is)
	return a == b && was.Size() == is.Size() && was.Mode() == is.Mode() && was.ModTime().Equal(is.ModTime())
}

func changed(at string) error {
	if at == "" {
		at = "."
	}
	return &RefusedError{Path: at, Reason: "changed while it was read", Remedy: "let the job end only when all that it started has ended"}
}

func unreadable(at string, err error) error {
	if at == "" {
		at = "."
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &RefusedError{Path: at, Reason: "cannot be read: permission denied", Remedy: "let the job make it readable for the user that runs deployster"}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR):
		return changed(at)
	default:
		return fmt.Errorf("reading %q: %w", at, err)
	}
}
