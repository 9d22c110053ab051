package engine

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// appearances returns the paths at which this machine shows a directory: its own,
// and those at which a file system that has it is mounted once more, as bind mounts
// are.
func appearances(real string) []string {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return []string{real} // not Linux, where containers see no such mounts
	}
	return showing(real, mountedAgain(string(info), real))
}

// appearances is the same, and reads the mounts only where there are others than the last time.
func (s *Views) appearances(real string) []string {
	text := s.mounts.info()
	s.mu.Lock()
	if text != s.again.text || real != s.again.real {
		s.again = mountsAgain{text, real, mountedAgain(text, real)}
	}
	paths := s.again.paths
	s.mu.Unlock()
	return showing(real, paths)
}

// mountsAgain are the paths at which mounts show a directory.
type mountsAgain struct {
	text, real string
	paths      []string
}

// showing are those of the paths that show a directory at present, and its own: another mount may
// be over one.
func showing(real string, candidates []string) []string {
	all := []string{real}
	here, err := os.Stat(real)
	if err != nil {
		return all
	}
	for _, candidate := range candidates {
		if candidate == real {
			continue
		}
		if there, err := os.Stat(candidate); err == nil && os.SameFile(here, there) && !slices.Contains(all, candidate) {
			all = append(all, candidate)
		}
	}
	return all
}

// mountPoint is a line of mountinfo, see proc(5).
type mountPoint struct {
	device string
	root   string // directory of the file system that is mounted
	at     string
}

// mountedAgain returns the paths at which the mounts show a directory.
func mountedAgain(mountinfo, real string) (paths []string) {
	var all []mountPoint
	var home *mountPoint // the mount that has the directory: of several at one place, the last
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		m := mountPoint{device: fields[2], root: unescaped(fields[3]), at: unescaped(fields[4])}
		all = append(all, m)
		if below(real, m.at) && (home == nil || len(m.at) >= len(home.at)) {
			home = &m
		}
	}
	if home == nil {
		return nil
	}
	in := path.Join(home.root, strings.TrimPrefix(real, home.at)) // within the file system
	for _, m := range all {
		if m.device == home.device && below(in, m.root) {
			paths = append(paths, filepath.Join(m.at, strings.TrimPrefix(in, m.root)))
		}
	}
	return paths
}

// unescaped is a field without its octal escapes of spaces, tabs, newlines and
// backslashes.
func unescaped(field string) string {
	var text strings.Builder
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' && i+3 < len(field) {
			if code, err := strconv.ParseUint(field[i+1:i+4], 8, 8); err == nil {
				text.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		text.WriteByte(field[i])
	}
	return text.String()
}
