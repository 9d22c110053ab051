package worktree

import (
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
)

// Comparison compares what is copied of the directory of a tree with what the commit has there.
// Paths are those below the directory, with slashes. A nil one compares nothing.
type Comparison struct {
	tree    *Tree
	differs bool
	sources int
	copied  map[string]bool // paths of files and links, of the source that is being copied
}

// Compare begins a comparison; of no tree it is nil.
func (t *Tree) Compare() *Comparison {
	if t == nil {
		return nil
	}
	return &Comparison{tree: t, differs: !t.proved, copied: map[string]bool{}}
}

// Exact reports whether something was copied, and all of it is what the commit has.
func (c *Comparison) Exact() bool { return c != nil && c.sources > 0 && !c.differs }

// Hash is what the content of a file of a size is to be written to.
func (c *Comparison) Hash(size int64) io.Writer {
	if c == nil {
		return io.Discard
	}
	h := c.tree.newHash()
	_, _ = fmt.Fprintf(h, "blob %d\x00", size)
	return h
}

// File compares a file that was copied, with its content in what Hash has returned. Git keeps
// whether its owner may execute it.
func (c *Comparison) File(path string, mayExecute bool, content io.Writer) {
	if c == nil {
		return
	}
	mode, sum := regular, ""
	if mayExecute {
		mode = executable
	}
	if h, is := content.(hash.Hash); is {
		sum = string(h.Sum(nil))
	}
	c.compare(path, mode, sum)
}

// Link compares a link.
func (c *Comparison) Link(path, target string) {
	if c != nil {
		c.compare(path, link, c.tree.sum("blob", []byte(target)))
	}
}

func (c *Comparison) compare(path, mode, sum string) {
	path = c.tree.prefix + path
	c.copied[path] = true
	i, there := c.tree.find(path)
	c.differs = c.differs || !there || c.tree.entries[i].mode != mode || c.tree.entries[i].sum != sum
}

// Directory compares a directory: a commit has those alone in which it has something.
func (c *Comparison) Directory(path string) {
	if c != nil {
		from, to := c.tree.below(path)
		c.differs = c.differs || from == to
	}
}

// Source ends the copying of a file, or of a directory with all that is in it: nothing may be
// missing of what the commit has there.
func (c *Comparison) Source(path string) {
	if c == nil {
		return
	}
	from, to := c.tree.below(path)
	if _, there := c.tree.find(c.tree.prefix + path); there {
		to++ // the file itself; there is nothing below it
	}
	c.differs = c.differs || len(c.copied) != to-from
	c.sources++
	clear(c.copied)
}

// find is the place of a path among the entries.
func (t *Tree) find(path string) (int, bool) {
	return slices.BinarySearchFunc(t.entries, path, func(e entry, path string) int { return strings.Compare(e.path, path) })
}

// below is the range of the entries that are in a directory.
func (t *Tree) below(path string) (from, to int) {
	from, _ = t.find(t.prefix + path + "/")
	to, _ = t.find(t.prefix + path + "0") // which comes after the slash
	return from, to
}
