package work

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/objects"
)

// The bounds of what a revision carries. They are far above what manifests include.
const (
	maxCarried      = 1000     // files
	maxCarriedBytes = 64 << 20 // of all of them
)

// Carried are the texts of the files that a revision carries, by their paths below the
// workspace: manifests, and all that these include.
type Carried map[string][]byte

// collector reads files of the workspace, each once.
type collector struct {
	workspace string
	evaluator *expression.Evaluator
	files     Carried
}

func (c *collector) read(name string) (string, error) {
	if text, known := c.files[name]; known {
		return string(text), nil
	}
	if err := c.bounded(); err != nil {
		return "", err
	}
	text, err := expression.Workspace(c.workspace)(name)
	if err == nil {
		c.files[name] = []byte(text)
	}
	return text, err
}

func (c *collector) bounded() error {
	size := 0
	for _, text := range c.files {
		size += len(text)
	}
	if len(c.files) > maxCarried || size > maxCarriedBytes {
		return fmt.Errorf("it includes too much for a revision to carry: at most %d files with together %d MiB", maxCarried, maxCarriedBytes>>20)
	}
	return nil
}

// follow reads what may be included by names that are known only later, with what that
// includes. What is not there now is not there for whoever includes it, and what is no
// template fails where it is included, if it is. What is there and cannot be read is
// refused: it would be missing in the revision, and a fallback would take its place.
func (c *collector) follow(possible expression.Usage) error {
	seen := map[string]bool{}
	candidates, directories := possible.Candidates, possible.Directories
	for len(candidates)+len(directories) > 0 {
		for _, directory := range directories {
			if directory = path.Clean(directory); seen[directory+"/"] {
				continue
			}
			seen[directory+"/"] = true
			below, err := c.below(directory)
			if err != nil {
				return err
			}
			candidates = append(candidates, below...)
		}
		directories = nil
		names := candidates
		candidates = nil
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			_, err := c.read(path.Clean(name))
			switch {
			case err != nil && c.bounded() != nil:
				return c.bounded()
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				return unreadable(name, err)
			}
			u, err := c.evaluator.Includes(name)
			switch {
			case err != nil:
				continue
			case u.Anywhere:
				return fmt.Errorf("%s, which may be included, includes a file whose name is known only when it is evaluated, so a revision cannot carry it", name)
			}
			candidates = append(candidates, u.Candidates...)
			directories = append(directories, u.Directories...)
		}
	}
	return nil
}

// unreadable refuses what may be included, and is there, and cannot be read.
func unreadable(name string, err error) error {
	return fmt.Errorf("%s, which may be included, cannot be read: %w; correct or remove it", name, err)
}

// below are the files in a directory of the workspace and those below it; none where
// there is no such directory.
func (c *collector) below(directory string) (names []string, err error) {
	if !fs.ValidPath(directory) {
		return nil, nil // it leads out of the workspace, and is refused where it is included
	}
	root, err := os.OpenRoot(c.workspace)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	info, err := root.Stat(directory)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, unreadable(directory, err)
	case !info.IsDir():
		return nil, unreadable(directory, errors.New("it is not a directory"))
	}
	w := &walk{root: root, start: directory}
	err = fs.WalkDir(root.FS(), directory, w.visit)
	return w.names, err
}

// walk finds the files below a directory of the workspace, also those that symbolic links
// lead to, since whoever includes them follows these.
type walk struct {
	root  *os.Root
	start string
	links int // to directories
	names []string
}

func (w *walk) visit(name string, entry fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return unreadable(name, err)
	case name == engine.StateDir:
		return fs.SkipDir
	case entry.IsDir():
		return nil
	}
	if entry.Type()&fs.ModeSymlink != 0 {
		// Why a link leads nowhere is found when it is read as a file.
		if info, err := w.root.Stat(name); err == nil && info.IsDir() {
			return w.through(name, info)
		}
	}
	if w.names = append(w.names, name); len(w.names) > maxCarried {
		return fmt.Errorf("the directory %s has more than %d files, too many for a revision to carry", w.start, maxCarried)
	}
	return nil
}

// through walks the directory that a link leads to. Below one that leads to a directory
// in which it is itself, there is no end of names.
func (w *walk) through(link string, target fs.FileInfo) error {
	for within := link; within != "."; {
		within = path.Dir(within)
		info, err := w.root.Stat(within)
		if err != nil {
			return unreadable(within, err)
		}
		if os.SameFile(info, target) {
			return unreadable(link, fmt.Errorf("it is a link to %s, in which it is itself", within))
		}
	}
	if w.links++; w.links > maxCarried {
		return fmt.Errorf("the directory %s has more than %d links to directories, too many for a revision to carry", w.start, maxCarried)
	}
	return fs.WalkDir(w.root.FS(), link, w.visit)
}

// Digests are the SHA-256 of each file.
func (c Carried) Digests() map[string]string {
	digests := map[string]string{}
	for name, text := range c {
		digests[name] = objects.Hash(text)
	}
	return digests
}

// Files are what expressions may include.
func (c Carried) Files() expression.Files {
	return func(name string) (string, error) {
		text, ok := c[name]
		if !ok {
			return "", notCarried(c, name)
		}
		return string(text), nil
	}
}

// KeepAll keeps texts, which are durable on return.
func (t Texts) KeepAll(c Carried) error {
	return t.objects.KeepAll(slices.Collect(maps.Values(c))...)
}

// LoadAll returns the texts of digests.
func (t Texts) LoadAll(digests map[string]string) (Carried, error) {
	c := Carried{}
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		text, err := t.Load(digests[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimPrefix(name, "/"), err)
		}
		c[name] = text
	}
	return c, nil
}

// Files are what expressions may include of what a revision carries. Each is read when
// it is included.
func (t Texts) Files(digests map[string]string) expression.Files {
	return filesOf(digests, t.Load)
}

// filesOf are what expressions may include of texts that are loaded by their digests.
func filesOf(digests map[string]string, load func(digest string) ([]byte, error)) expression.Files {
	return func(name string) (string, error) {
		digest, ok := digests[name]
		if !ok {
			return "", notCarried(digests, name)
		}
		text, err := load(digest)
		return string(text), err
	}
}

// notCarried is of a file that was not in the workspace when the revision was made. As in
// the workspace, a directory is not a file that is absent, and a file is no directory.
func notCarried[V any](files map[string]V, name string) error {
	for other := range files {
		switch {
		case strings.HasPrefix(other, name+"/"):
			return errors.New("it is a directory in what the revision carries")
		case strings.HasPrefix(name, other+"/"):
			return fmt.Errorf("%s is a file in what the revision carries, not a directory", other)
		}
	}
	return fmt.Errorf("the revision carries no such file: %w", fs.ErrNotExist)
}
