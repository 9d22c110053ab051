package submission

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// The bounds of what is read of a repository.
const (
	maxRef     = 4096     // bytes of a file with one reference
	maxPacked  = 64 << 20 // bytes of packed references
	maxAliases = 5        // references that name another one
)

var (
	validCommit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	validRef    = regexp.MustCompile(`^refs/[^\x00-\x20\x7f~^:?*\[\\]+$`)
)

// commit is the commit of git that a directory is at, as its repository says; "" where that
// cannot be found out. Whether files were changed since is not known.
func commit(dir string) string {
	for {
		if of := repository(filepath.Join(dir, ".git")); of != "" {
			return resolve(of, "HEAD", 0)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// repository is the directory of a repository: .git, or of a worktree the directory that its
// file .git names.
func repository(at string) string {
	info, err := os.Stat(at)
	if err != nil {
		return ""
	}
	if info.IsDir() {
		return at
	}
	named, found := strings.CutPrefix(first(at), "gitdir: ")
	if !found {
		return ""
	}
	if !filepath.IsAbs(named) {
		named = filepath.Join(filepath.Dir(at), named)
	}
	if info, err := os.Stat(named); err != nil || !info.IsDir() {
		return ""
	}
	return named
}

// resolve follows a reference. Those of a worktree are in its own directory, and else in the
// one that it shares with others.
func resolve(of, ref string, aliases int) string {
	shared := of
	if text := first(filepath.Join(of, "commondir")); text != "" {
		if shared = text; !filepath.IsAbs(text) {
			shared = filepath.Join(of, text)
		}
	}
	for _, dir := range []string{of, shared} {
		text := first(filepath.Join(dir, filepath.FromSlash(ref)))
		if validCommit.MatchString(text) {
			return text
		}
		to, is := strings.CutPrefix(text, "ref: ")
		if to = strings.TrimSpace(to); is && aliases < maxAliases && validRef.MatchString(to) && filepath.IsLocal(to) {
			return resolve(of, to, aliases+1)
		}
	}
	return packed(filepath.Join(shared, "packed-refs"), ref)
}

// first is the first line of a small file.
func first(path string) string {
	f, err := open(path)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // opened for reading
	text, err := io.ReadAll(io.LimitReader(f, maxRef))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// packed is the commit of a reference among those that are in one file.
func packed(path, ref string) string {
	f, err := open(path)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // opened for reading
	lines := bufio.NewScanner(io.LimitReader(f, maxPacked))
	for lines.Scan() {
		if hash, name, _ := strings.Cut(lines.Text(), " "); name == ref && validCommit.MatchString(hash) {
			return hash
		}
	}
	return ""
}

// open opens a regular file: a pipe would wait for its writer.
func open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, os.ErrInvalid
	}
	return os.Open(path)
}
