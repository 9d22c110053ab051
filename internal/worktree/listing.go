package worktree

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // by which Git names its objects
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
)

// entry is a file, link or submodule of a commit.
type entry struct {
	path string
	mode string // octal, as a listing has it
	sum  string // binary
}

// The modes of what is compared.
const (
	regular    = "100644"
	executable = "100755"
	link       = "120000"
)

// newHash is that by which the repository names its objects.
func (t *Tree) newHash() hash.Hash {
	if len(t.Commit) == hex.EncodedLen(sha256.Size) {
		return sha256.New()
	}
	return sha1.New() //nolint:gosec // by which Git names its objects
}

// sum is the hash of an object.
func (t *Tree) sum(kind string, content []byte) string {
	h := t.newHash()
	_, _ = fmt.Fprintf(h, "%s %d\x00", kind, len(content))
	_, _ = h.Write(content)
	return string(h.Sum(nil))
}

// list reads all that the commit has, and keeps what is in the directory. The object of the commit, and the trees that the list makes,
// must have the hashes by which they are called: Git does not look at these.
func (t *Tree) list(ctx context.Context, g git, commit string) {
	root, is := strings.CutPrefix(commit, "tree ")
	root, _, _ = strings.Cut(root, "\n")
	if !is || hex.EncodeToString([]byte(t.sum("commit", []byte(commit)))) != t.Commit {
		return
	}
	trees := &trees{of: t, open: []directory{{}}}
	ok := g.stream(ctx, maxListing, func(out io.Reader) bool {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		lines.Split(atNUL)
		for lines.Scan() {
			e, ok := read(lines.Text())
			if !ok {
				return false
			}
			trees.add(e)
			if strings.HasPrefix(e.path, t.prefix) {
				e.path = strings.Clone(e.path) // or the whole line would be kept
				t.entries = append(t.entries, e)
			}
		}
		return lines.Err() == nil
	}, "ls-tree", "-r", "-z", "--full-tree", t.Commit)
	t.proved = ok && hex.EncodeToString([]byte(trees.root())) == root
	if !t.proved {
		t.entries = nil
	}
	slices.SortFunc(t.entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
}

// atNUL splits at characters that no path has.
func atNUL(data []byte, end bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if end && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// read reads a line: MODE KIND HASH, a tab, and the path.
func read(line string) (e entry, ok bool) {
	about, path, ok := strings.Cut(line, "\t")
	fields := strings.Fields(about)
	if !ok || len(fields) != 3 {
		return e, false
	}
	sum, err := hex.DecodeString(fields[2])
	return entry{path, modeOf(fields[0]), string(sum)}, err == nil
}

// modeOf is a mode, of which there are few.
func modeOf(text string) string {
	for _, known := range []string{regular, executable, link} {
		if text == known {
			return known
		}
	}
	return strings.Clone(text)
}

// trees makes the trees of a list of files, in the order of which each tree comes whole.
type trees struct {
	of   *Tree
	open []directory // each within the one before
}

type directory struct {
	name    string
	content bytes.Buffer
}

func (s *trees) add(e entry) {
	names := strings.Split(e.path, "/")
	dirs := names[:len(names)-1]
	same := 0
	for same < len(dirs) && same+1 < len(s.open) && s.open[same+1].name == dirs[same] {
		same++
	}
	s.closeTo(same + 1)
	for _, name := range dirs[same:] {
		s.open = append(s.open, directory{name: name})
	}
	s.put(e.mode, names[len(names)-1], e.sum)
}

func (s *trees) put(mode, name, sum string) {
	in := &s.open[len(s.open)-1].content
	_, _ = fmt.Fprintf(in, "%s %s\x00%s", strings.TrimLeft(mode, "0"), name, sum)
}

// closeTo ends all trees but the outermost ones.
func (s *trees) closeTo(depth int) {
	for len(s.open) > depth {
		last := s.open[len(s.open)-1]
		s.open = s.open[:len(s.open)-1]
		s.put("40000", last.name, s.of.sum("tree", last.content.Bytes()))
	}
}

// root is the hash of the outermost tree.
func (s *trees) root() string {
	s.closeTo(1)
	return s.of.sum("tree", s.open[0].content.Bytes())
}
