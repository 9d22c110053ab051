package entrypoint

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What lies below Request.Dir beside the runtime's files.
const (
	layersDir = "layers" // links to the image's layers, with names short enough for any number of them
	upperDir  = "upper"
	workDir   = "work"
	rootDir   = "root" // the overlay: what the container sees
)

// private bounds what a container's private file system holds. The container
// cannot write to it: it is for what the launcher and the runtime put there.
const private = "mode=0700,size=16m,nr_inodes=16k"

// mount makes the mount namespace the launcher's own and puts the container's
// root into it. It ends in Request.Dir.
func (l *launcher) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return failed("keep mounts private", err)
	}
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("proc", "/proc", "proc", quiet, ""); err != nil {
		return failed("mount /proc", err)
	}
	for _, directory := range l.request.Hide {
		if err := unix.Mount("tmpfs", directory, "tmpfs", quiet, "mode=0700,size=64k"); err != nil {
			return failed("hide "+directory, err)
		}
	}
	if l.request.Unified {
		if err := mountUnified(); err != nil {
			return failed("mount control groups on "+cgroupRoot, err)
		}
	}
	held, err := l.sources()
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", l.request.Dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, private); err != nil {
		return failed("mount a tmpfs on "+l.request.Dir, err)
	}
	if err := os.Chdir(l.request.Dir); err != nil {
		return failed("enter "+l.request.Dir, err)
	}
	for _, directory := range []string{layersDir, upperDir, workDir, rootDir} {
		if err := os.Mkdir(directory, 0o755); err != nil { //nolint:gosec // the upper directory is the container's root
			return failed("make a directory", err)
		}
	}
	for name, content := range l.request.Files {
		if err := put(path.Join(upperDir, path.Clean("/"+name)), content); err != nil {
			return failed("put a file above the image", err)
		}
	}
	if err := l.show(held); err != nil {
		return err
	}
	return l.overlay()
}

// sources takes hold of what mounts are to show: what is made or mounted in its place later
// changes nothing of it. It has none of what the launcher mounts in Request.Dir.
func (l *launcher) sources() (held []int, err error) {
	for _, s := range l.request.Sources {
		tree, err := s.hold()
		if errors.Is(err, errReplaced) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
			return nil, &Failure{Doing: "mount " + s.Path, Text: err.Error(), Replaced: true}
		}
		if err != nil {
			return nil, unsupported("5.6", "mount "+s.Path, err)
		}
		held = append(held, tree)
	}
	return held, nil
}

// errReplaced is that another file or directory is in the place of a source.
var errReplaced = errors.New("it was replaced by something else since it was checked")

// hold returns the mount of what is at the source, if that is what was checked.
func (s Source) hold() (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	if s.Dir {
		how.Flags |= unix.O_DIRECTORY
	}
	source, err := unix.Openat2(unix.AT_FDCWD, s.Path, &how)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(source) }()
	var is unix.Stat_t
	if err := unix.Fstat(source, &is); err != nil {
		return 0, err
	}
	if is.Dev != s.Device || is.Ino != s.Inode {
		return 0, errReplaced
	}
	return unix.OpenTree(source, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
}

// show mounts what is held where the runtime looks for it.
func (l *launcher) show(held []int) error {
	if err := os.Mkdir(sourcesDir, 0o700); err != nil {
		return failed("make a directory", err)
	}
	for i, tree := range held {
		s, at := l.request.Sources[i], SourceAt(".", i)
		var err error
		if s.Dir {
			err = os.Mkdir(at, 0o700)
		} else {
			err = os.WriteFile(at, nil, 0o600)
		}
		if err == nil {
			err = unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
		}
		if err != nil {
			return failed("mount "+s.Path, err)
		}
		_ = unix.Close(tree)
	}
	return nil
}

// cgroupRoot is where runtimes look for control groups.
const cgroupRoot = "/sys/fs/cgroup"

// mountUnified shows the runtime a hierarchy of control groups that it cannot
// change, from its own group down: runc ends at once where it sees none, and
// goes without groups where it may make none.
func mountUnified() error {
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return err
	}
	return unix.Mount("cgroup2", cgroupRoot, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "")
}

func put(file, content string) error {
	if err := os.MkdirAll(path.Dir(file), 0o755); err != nil { //nolint:gosec // the container's user reads it
		return err
	}
	return os.WriteFile(file, []byte(content), 0o644) //nolint:gosec // the container's user reads it
}

// tryReadOnly does what a runtime does for a read-only mount, to a mount that
// serves nothing else.
func tryReadOnly() error {
	err := unix.MountSetattr(unix.AT_FDCWD, rootDir, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if err != nil {
		return unsupported("5.12", "make a mount read-only with all below it", err)
	}
	return nil
}

// overlay mounts the image's layers and the upper directory on the root.
func (l *launcher) overlay() error {
	layers := l.request.Layers
	if len(layers) == 0 {
		empty := path.Join(l.request.Dir, layersDir)
		layers = []string{empty}
	}
	names := make([]string, len(layers))
	for i, layer := range layers {
		names[i] = strconv.Itoa(i)
		if err := os.Symlink(layer, path.Join(layersDir, names[i])); err != nil {
			return failed("link a layer", err)
		}
	}
	if err := os.Chdir(layersDir); err != nil {
		return failed("enter the layers", err)
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=../%s,workdir=../%s", strings.Join(names, ":"), upperDir, workDir)
	if l.request.Rootless {
		options += ",userxattr"
	}
	if err := unix.Mount("overlay", "../"+rootDir, "overlay", unix.MS_NODEV, options); err != nil {
		return failed("mount an overlay", err)
	}
	if err := os.Chdir(".."); err != nil {
		return failed("leave the layers", err)
	}
	return nil
}
