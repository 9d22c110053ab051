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
	"github.com/deployster-go/deployster/internal/regularfile"
)

// Bounds of what is copied into a Pod.
const (
	copiedBytes = 64 << 20
	copiedFiles = 20_000

	// copiedMemory is what these take at most in memory, where each file has whole pages, and an entry.
	copiedMemory = copiedBytes + copiedFiles*(4<<10) + 16<<20
)

// copied is what a Pod sees of this machine: copies, in one volume, each below its own
// number. The first are those of mounts, then those of hidden directories, which are empty.
type copied struct {
	mounts []engine.Mount
	hidden []string // in the container
	inner  []string // where others are mounted, in the container

	workspace bool // one of them is that, which need not be copied
	foreign   bool // the program runs as another user than the one whose the copies are
}

// mode is that of a copy. A program that is not its owner may read and run what the owner may, who is
// nobody else: only this Pod has it. To write nobody may, and there are programs that trust no file
// which others may write.
func (c *copied) mode(of fs.FileMode) int64 {
	mode := of.Perm()
	if c.foreign {
		mode |= mode>>3&0o050 | mode>>6&0o005
	}
	return int64(mode)
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
		if _, err := realSource(m); err != nil {
			return &engine.SpecError{Cause: fmt.Errorf("copy %s into the Pod: %w", m.Source, err)}
		}
	}
	return nil
}

// realSource is where the links on the way to a mount's source lead, which others may change at
// any time: what is copied is looked for when it is opened.
func realSource(m engine.Mount) (string, error) {
	real, err := filepath.EvalSymlinks(m.Source)
	if err == nil && slices.Contains(strings.Split(real, string(filepath.Separator)), engine.StateDir) {
		err = fmt.Errorf("it is within %s, which no type may see", engine.StateDir)
	}
	return real, err
}

type packer struct {
	*copied
	tar   *tar.Writer
	bytes int64
	files int
}

// mount packs what is at the source of a mount.
func (p *packer) mount(as string, m engine.Mount) (err error) {
	real, err := realSource(m)
	if err != nil {
		return err
	}
	found := m.Found
	if found == (engine.Found{}) {
		if found, err = (engine.Finder{}).Find(real); err != nil {
			return err
		}
	}
	info, err := os.Lstat(real)
	if err != nil {
		return err
	}
	made := map[string]bool{path.Clean(m.Target): true}
	// What is in a directory others may change meanwhile: nothing is opened through a link.
	dir := real
	if !info.IsDir() {
		dir = filepath.Dir(real)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if now, err := realSource(m); err != nil || now != real {
		return errors.Join(fmt.Errorf("%s was replaced while it was copied", m.Source), err)
	}
	opened := info
	if info.IsDir() {
		if opened, err = root.Stat("."); err != nil {
			return err
		}
	}
	if found != (engine.Found{}) && (found.Path != real || !found.Is(opened)) {
		return fmt.Errorf("%s: %w", m.Source, engine.ErrReplaced)
	}
	if !info.IsDir() {
		return p.leaf(source{root, filepath.Base(real), real, as, m.Target}, info)
	}
	if err := p.directory(source{root, ".", real, as, path.Clean(m.Target)}, made); err != nil {
		return err
	}
	return p.places(as, m.Target, made)
}

// source is where something is that is packed.
type source struct {
	in   *os.Root
	name string // in it
	path string // for people
	as   string // in the tar
	at   string // in the container
}

// directory packs one that is open, with what is in it.
func (p *packer) directory(d source, made map[string]bool) error {
	info, err := d.in.Stat(".")
	if err != nil {
		return err
	}
	if err := p.header(&tar.Header{Name: d.as + "/", Typeflag: tar.TypeDir, Mode: p.mode(info.Mode())}); err != nil {
		return err
	}
	if slices.Contains(p.hidden, d.at) || filepath.Base(d.path) == engine.StateDir {
		return nil // what is below is not for the Pod
	}
	entries, err := fs.ReadDir(d.in.FS(), ".")
	if err != nil {
		return fmt.Errorf("read directory %s: %w", d.path, err)
	}
	for _, entry := range entries {
		name := entry.Name()
		one := source{d.in, name, filepath.Join(d.path, name), path.Join(d.as, name), path.Join(d.at, name)}
		info, err := d.in.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed since
		}
		if err != nil {
			return err
		}
		made[one.at] = true
		if err := p.entry(one, info, made); err != nil {
			return err
		}
	}
	return nil
}

// entry packs what a directory has, unless it was removed since.
func (p *packer) entry(e source, seen fs.FileInfo, made map[string]bool) (err error) {
	if seen.IsDir() {
		err = p.below(e, seen, made)
	} else {
		err = p.leaf(e, seen)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// below packs a directory within another one.
func (p *packer) below(d source, seen fs.FileInfo, made map[string]bool) (err error) {
	if d.in, err = d.in.OpenRoot(d.name); err != nil {
		return fmt.Errorf("open directory %s: %w", d.path, err)
	}
	defer func() { err = errors.Join(err, d.in.Close()) }()
	opened, err := d.in.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = fmt.Errorf("%s was replaced while it was copied", d.path)
	}
	if err != nil {
		return err
	}
	return p.directory(d, made)
}

// leaf packs what is no directory.
func (p *packer) leaf(f source, seen fs.FileInfo) error {
	switch mode := seen.Mode(); {
	case mode&fs.ModeSymlink != 0:
		link, err := f.in.Readlink(f.name)
		if err != nil {
			return err
		}
		return p.header(&tar.Header{Name: f.as, Typeflag: tar.TypeSymlink, Linkname: link})
	case mode.IsRegular():
		return p.file(f, seen)
	default:
		return fmt.Errorf("%s is %s, which cannot be copied to another machine: move it elsewhere", f.path, regularfile.Kind(mode))
	}
}

func (p *packer) file(f source, seen fs.FileInfo) (err error) {
	file, info, err := regularfile.OpenIn(f.in, f.name)
	if err != nil {
		return fmt.Errorf("open %s: %w", f.path, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if !os.SameFile(seen, info) {
		return fmt.Errorf("%s was replaced while it was copied", f.path)
	}
	if p.bytes += info.Size(); p.bytes > copiedBytes {
		return p.tooMuch(fmt.Sprintf("%d MiB", copiedBytes>>20))
	}
	if err := p.header(&tar.Header{Name: f.as, Typeflag: tar.TypeReg, Mode: p.mode(info.Mode()), Size: info.Size()}); err != nil {
		return err
	}
	if _, err = io.CopyN(p.tar, file, info.Size()); errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s became smaller while it was copied", f.path)
	}
	return err
}

func (p *packer) header(h *tar.Header) error {
	if p.files++; p.files > copiedFiles {
		return p.tooMuch(fmt.Sprintf("%d files", copiedFiles))
	}
	return p.tar.WriteHeader(h)
}

func (p *packer) tooMuch(most string) error {
	err := fmt.Errorf("what the Pod is to see has more than %s: have it in a volume of the cluster, and name a claim for that as the path of the plug: %sNAME", most, Claim)
	if p.workspace {
		err = fmt.Errorf("%w; of a workspace like that leave --copy-workspace (of a host: copy_workspace) away", err)
	}
	return err
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
