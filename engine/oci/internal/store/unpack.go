//go:build linux

package store

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/pkg/archive"
	"golang.org/x/sys/unix"
)

// limits of one layer or archive. They are far above what images have, and keep a hostile
// one from filling disk and memory.
type limits struct {
	bytes   int64 // of its tar, and of the files in it
	entries int
	names   int64 // bytes of all names and link targets together, which are kept in memory
}

var layerLimits = limits{bytes: 64 << 30, entries: 2_000_000, names: 256 << 20}

// counted is what was seen of a tar.
type counted struct {
	limits
	seen limits
}

// check counts an entry, and refuses one that goes beyond the limits.
func (c *counted) check(header *tar.Header) error {
	c.seen.entries++
	c.seen.bytes += header.Size // a sparse file is larger than what stands for it in the tar
	c.seen.names += int64(len(header.Name) + len(header.Linkname))
	switch {
	case c.seen.entries > c.entries:
		return fmt.Errorf("it has more than %d entries, which is the limit", c.entries)
	case header.Size < 0, c.seen.bytes > c.bytes, c.seen.bytes < 0:
		return tooLarge(c.limits)
	case len(header.Name) > unix.PathMax, len(header.Linkname) > unix.PathMax:
		return fmt.Errorf("entry %d has a name of more than %d bytes, which is the limit", c.seen.entries, unix.PathMax)
	case c.seen.names > c.names:
		return fmt.Errorf("its names have more than %d bytes, which is the limit", c.names)
	}
	return nil
}

// unpack writes the layer that the tar r is into the empty directory dir, as an
// overlay wants its lower directories: what the layer deletes becomes a device
// 0:0, and a directory that hides what is below it gets an attribute. Linux
// lets every user make such a device.
//
// Not all of a layer is taken over. Device nodes are left out: the rules of a
// container keep it from using them. So are extended attributes: an image has
// no business with those of overlays, and file capabilities give nothing to
// processes without new privileges. Setuid bits stay, for the same reason.
// A rootless store owns all files, and may always read and remove them.
//
// No entry leads out of dir, whatever its name or the links before it.
func unpack(ctx context.Context, dir string, r io.Reader, rootless bool, limit limits) error {
	w := &whiteouts{root: dir, attribute: opaqueAttribute(rootless)}
	total := &counted{limits: limit}
	filter := func(header *tar.Header) (bool, error) {
		if err := total.check(header); err != nil {
			return false, err
		}
		if !isID(header.Uid) || !isID(header.Gid) {
			return false, fmt.Errorf("entry %q has the owner %d:%d, which is out of range", header.Name, header.Uid, header.Gid)
		}
		return accept(header, rootless), nil
	}
	options := []archive.ApplyOpt{archive.WithFilter(filter), archive.WithConvertWhiteout(w.see)}
	if rootless {
		options = append(options, archive.WithNoSameOwner())
	}
	if _, err := archive.Apply(ctx, dir, &boundedReader{r: r, limit: limit}, options...); err != nil {
		return err
	}
	return w.apply()
}

// accept decides whether an entry is unpacked, and leaves in its header only
// what is wanted of it.
func accept(header *tar.Header, rootless bool) bool {
	mode := header.Mode & 0o7777
	switch header.Typeflag {
	case tar.TypeChar, tar.TypeBlock, tar.TypeXGlobalHeader:
		return false
	case tar.TypeDir:
		if rootless {
			mode |= 0o700
		}
	case tar.TypeReg:
		if rootless {
			mode |= 0o600
		}
	}
	*header = tar.Header{
		Typeflag: header.Typeflag, Name: header.Name, Linkname: header.Linkname, Size: header.Size,
		Mode: mode, Uid: header.Uid, Gid: header.Gid, ModTime: header.ModTime, AccessTime: header.AccessTime,
	}
	return true
}

// isID reports whether a user or group may have this number; the last one means
// "leave it" to the kernel.
func isID(n int) bool { return n >= 0 && n < math.MaxUint32 }

func tooLarge(limit limits) error {
	return fmt.Errorf("it unpacks to more than %d bytes, which is the limit", limit.bytes)
}

// boundedReader fails once more was read than the limit allows.
type boundedReader struct {
	r     io.Reader
	limit limits
	done  int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.done += int64(n); b.done > b.limit.bytes {
		return 0, tooLarge(b.limit)
	}
	return n, err
}

const (
	whiteoutPrefix = ".wh."
	opaqueMarker   = ".wh..wh..opq"
)

// whiteouts collects what a layer deletes of those below it. A marker means
// nothing to its own layer, wherever in the tar it stands, so all are applied
// once everything else is there.
type whiteouts struct {
	root      string
	attribute string
	opaque    []string // directories below root
	deleted   []string // paths below root
}

// see notes an entry that is a marker; all others are to be written.
func (w *whiteouts) see(_ *tar.Header, at string) (bool, error) {
	base := filepath.Base(at)
	if !strings.HasPrefix(base, whiteoutPrefix) {
		return true, nil
	}
	dir, err := filepath.Rel(w.root, filepath.Dir(at))
	if err != nil {
		return false, err
	}
	name := strings.TrimPrefix(base, whiteoutPrefix)
	switch {
	case base == opaqueMarker:
		w.opaque = append(w.opaque, dir)
	case strings.HasPrefix(name, whiteoutPrefix): // other notes of a union file system to itself
	case name == "" || name == "." || name == "..":
		return false, errors.New("it deletes nothing that has a name")
	default:
		w.deleted = append(w.deleted, path.Join(dir, name))
	}
	return false, nil
}

// apply makes the markers. Later entries may have put links where directories
// were, so it works through a root that none of them leaves.
func (w *whiteouts) apply() error {
	root, err := os.OpenRoot(w.root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, at := range w.deleted {
		info, err := root.Lstat(at)
		switch {
		case isGone(err):
			err = deleteIn(root, path.Dir(at), path.Base(at))
		case err == nil && info.IsDir(): // it has come again, and nothing of the old one
			err = w.hide(root, at)
		}
		if err != nil {
			return fmt.Errorf("mark %q as deleted: %w", at, err)
		}
	}
	for _, at := range w.opaque {
		if err := w.hide(root, at); err != nil {
			return fmt.Errorf("hide what is below %q: %w", at, err)
		}
	}
	return nil
}

func deleteIn(root *os.Root, dir, name string) error {
	parent, err := openDir(root, dir)
	if parent == nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	return unix.Mknodat(int(parent.Fd()), name, unix.S_IFCHR, 0)
}

// hide makes a directory opaque.
func (w *whiteouts) hide(root *os.Root, at string) error {
	dir, err := openDir(root, at)
	if dir == nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	err = unix.Fsetxattr(int(dir.Fd()), w.attribute, []byte("y"), 0)
	if errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("the file system of the image store has no attributes %s: keep the store on another one: %w", w.attribute, err)
	}
	return err
}

// openDir opens a directory, or returns nil if a later entry put something else
// in its place: that hides everything below by itself.
func openDir(root *os.Root, at string) (*os.File, error) {
	dir, err := root.OpenFile(at, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if isGone(err) {
		return nil, nil
	}
	return dir, err
}

func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// opaqueAttribute is what makes a directory hide what is below it. Only root
// may set those of the kernel's own.
func opaqueAttribute(rootless bool) string {
	if rootless {
		return "user.overlay.opaque"
	}
	return "trusted.overlay.opaque"
}

// isOpaque reports whether a directory hides what is below it.
func isOpaque(dir string, rootless bool) bool {
	value := make([]byte, 1)
	n, err := unix.Lgetxattr(dir, opaqueAttribute(rootless), value)
	return err == nil && n == 1 && value[0] == 'y'
}
