package authoring

import (
	"bytes"
	"encoding/binary"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mostDirs is how many directories are watched.
const mostDirs = 1000

// watch sees what is renamed and removed in directories. The kernel keeps what happens until
// stop reads it, or says that it was too much.
type watch struct {
	fd   int
	dirs map[int32]string
}

// watchDirs watches directories; nil is that it cannot.
func watchDirs(dirs []string) *watch {
	if len(dirs) == 0 || len(dirs) > mostDirs {
		return nil
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	w := &watch{fd: fd, dirs: map[int32]string{}}
	for _, dir := range dirs {
		wd, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVED_FROM|unix.IN_MOVED_TO|unix.IN_ONLYDIR)
		if err != nil {
			_ = unix.Close(fd)
			return nil
		}
		w.dirs[int32(wd)] = dir
	}
	return w
}

// stop returns what was renamed, and what was made and removed; nil is that it is not known.
func (w *watch) stop() renames {
	if w == nil {
		return nil
	}
	defer func() { _ = unix.Close(w.fd) }()
	seen, made, moving := renames{}, map[string]bool{}, map[uint32]string{}
	note := func(path, to string) { seen[path] = renamed{seen[path].times + 1, to} }
	buffer := make([]byte, 64<<10)
	for {
		n, err := unix.Read(w.fd, buffer)
		if err != nil || n <= 0 {
			return seen
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(rest))
			mask, cookie, length := binary.NativeEndian.Uint32(rest[4:]), binary.NativeEndian.Uint32(rest[8:]), binary.NativeEndian.Uint32(rest[12:])
			name, _, _ := bytes.Cut(rest[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], []byte{0})
			rest = rest[unix.SizeofInotifyEvent+length:]
			path := filepath.Join(w.dirs[wd], string(name))
			switch {
			case mask&unix.IN_Q_OVERFLOW != 0:
				return nil
			case mask&unix.IN_ISDIR != 0:
			case mask&unix.IN_CREATE != 0:
				made[path] = true
			case mask&unix.IN_DELETE != 0 && made[path]:
				note(path, "")
			case mask&unix.IN_MOVED_FROM != 0:
				moving[cookie] = path
			case mask&unix.IN_MOVED_TO != 0 && moving[cookie] != "":
				note(moving[cookie], path)
			}
		}
	}
}
