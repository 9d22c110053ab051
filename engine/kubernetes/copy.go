package kubernetes

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/engine"
)

// Bounds of what is copied into a Pod.
const (
	copiedBytes = 64 << 20
	copiedFiles = 20_000
)

// copied is what a Pod sees of this machine: copies, in one volume, each below its own
// number. The first are those of mounts, then those of hidden directories, which are empty.
type copied struct {
	mounts []engine.Mount
	hidden []string // in the container
	inner  []string // where others are mounted, in the container
}

// pack writes the copies as a tar.
func (c *copied) pack(to io.Writer) error {
	p := &packer{tar: tar.NewWriter(to), copied: c}
	for i, m := range c.mounts {
		if err := p.mount(strconv.Itoa(i), m); err != nil {
			return &engine.SpecError{Cause: fmt.Errorf("copy %s into the Pod: %w", m.Source, err)}
		}
	}
	for i, hidden := range c.hidden {
		if err := p.empty(strconv.Itoa(len(c.mounts)+i), hidden); err != nil {
			return err
		}
	}
	return p.tar.Close()
}

// check fails for what can be known before a Pod is made for it.
func (c *copied) check() error {
	for _, m := range c.mounts {
		real, err := filepath.EvalSymlinks(m.Source)
		if err == nil && slices.Contains(strings.Split(real, string(filepath.Separator)), engine.StateDir) {
			err = fmt.Errorf("it is within %s, which no type may see", engine.StateDir)
		}
		if err != nil {
			return &engine.SpecError{Cause: fmt.Errorf("copy %s into the Pod: %w", m.Source, err)}
		}
	}
	return nil
}

type packer struct {
	*copied
	tar   *tar.Writer
	bytes int64
	files int
}

// mount packs what is at the source of a mount.
func (p *packer) mount(as string, m engine.Mount) error {
	real, err := filepath.EvalSymlinks(m.Source)
	if err != nil {
		return err
	}
	made := map[string]bool{}
	err = filepath.WalkDir(real, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(real, name)
		if err != nil {
			return err
		}
		below = filepath.ToSlash(below)
		at := path.Join(m.Target, below)
		made[at] = true
		if err := p.entry(path.Join(as, below), name, entry); err != nil {
			return err
		}
		if entry.IsDir() && (slices.Contains(p.hidden, at) || entry.Name() == engine.StateDir) {
			return fs.SkipDir // what is below is not for the Pod
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.places(as, m.Target, made)
}

// empty packs a directory in which only others are mounted.
func (p *packer) empty(as, target string) error {
	if err := p.header(&tar.Header{Name: as + "/", Typeflag: tar.TypeDir, Mode: 0o555}); err != nil {
		return err
	}
	return p.places(as, target, map[string]bool{target: true})
}

// places packs the directories on which others are mounted, and that are not there: nobody
// can make them in what is read-only.
func (p *packer) places(as, target string, made map[string]bool) error {
	for _, inner := range p.inner {
		below, inside := strings.CutPrefix(inner, strings.TrimSuffix(target, "/")+"/")
		if !inside || made[inner] {
			continue
		}
		at := as
		for _, part := range strings.Split(below, "/") {
			at = path.Join(at, part)
			if name := path.Join(target, strings.TrimPrefix(at, as)); !made[name] {
				made[name] = true
				if err := p.header(&tar.Header{Name: at + "/", Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p *packer) entry(as, name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return p.header(&tar.Header{Name: as + "/", Typeflag: tar.TypeDir, Mode: int64(mode.Perm())})
	case mode&fs.ModeSymlink != 0:
		link, err := os.Readlink(name)
		if err != nil {
			return err
		}
		return p.header(&tar.Header{Name: as, Typeflag: tar.TypeSymlink, Linkname: link})
	case mode.IsRegular():
		return p.file(as, name)
	default:
		return fmt.Errorf("%s is a %s, which cannot be copied to another machine", name, kind(mode))
	}
}

func (p *packer) file(as, name string) (err error) {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s was replaced", name)
	}
	if p.bytes += info.Size(); p.bytes > copiedBytes {
		return fmt.Errorf("what the Pod is to see has more than %d MiB: have it in a volume of the cluster, and name a claim for that as the path of the plug: %sNAME", copiedBytes>>20, Claim)
	}
	if err := p.header(&tar.Header{Name: as, Typeflag: tar.TypeReg, Mode: int64(info.Mode().Perm()), Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.CopyN(p.tar, file, info.Size())
	return err
}

func (p *packer) header(h *tar.Header) error {
	if p.files++; p.files > copiedFiles {
		return fmt.Errorf("what the Pod is to see has more than %d files: have it in a volume of the cluster, and name a claim for that as the path of the plug: %sNAME", copiedFiles, Claim)
	}
	return p.tar.WriteHeader(h)
}

func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	default:
		return "device"
	}
}
