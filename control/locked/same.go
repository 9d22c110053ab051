package locked

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/deployster-go/deployster/internal/regularfile"
)

// same reports whether a directory has the names and contents of another one, and no others. It
// reads no more than it takes to know. What cannot be read is not the same.
func same(one, other string) bool {
	if info, err := os.Lstat(other); err != nil || !info.IsDir() {
		return false
	}
	a, err := os.OpenRoot(one)
	if err != nil {
		return false
	}
	defer a.Close() //nolint:errcheck // opened for reading
	b, err := os.OpenRoot(other)
	if err != nil {
		return false
	}
	defer b.Close() //nolint:errcheck // opened for reading
	c := comparison{a: a, b: b}
	return c.directories(".")
}

// comparison compares two directories.
type comparison struct {
	a, b           *os.Root
	inOne, inOther [32 << 10]byte
}

func (c *comparison) directories(name string) bool {
	one, err := fs.ReadDir(c.a.FS(), name)
	if err != nil {
		return false
	}
	other, err := fs.ReadDir(c.b.FS(), name)
	if err != nil || len(one) != len(other) {
		return false
	}
	for i, e := range one { // both are sorted
		if e.Name() != other[i].Name() || e.Type() != other[i].Type() || !c.entries(path.Join(name, e.Name()), e.Type()) {
			return false
		}
	}
	return true
}

func (c *comparison) entries(name string, kind fs.FileMode) bool {
	if kind == fs.ModeSymlink {
		one, err := c.a.Readlink(name)
		other, failed := c.b.Readlink(name)
		return err == nil && failed == nil && one == other
	}
	return kind == fs.ModeDir && c.directories(name) || kind == 0 && c.files(name)
}

func (c *comparison) files(name string) bool {
	one, _, err := regularfile.OpenIn(c.a, name)
	if err != nil {
		return false
	}
	defer one.Close() //nolint:errcheck // opened for reading
	other, _, err := regularfile.OpenIn(c.b, name)
	if err != nil {
		return false
	}
	defer other.Close() //nolint:errcheck // opened for reading
	for {
		n, err := io.ReadFull(one, c.inOne[:])
		m, failed := io.ReadFull(other, c.inOther[:])
		if !bytes.Equal(c.inOne[:n], c.inOther[:m]) || err != failed { //nolint:errorlint // of io.ReadFull, as they are
			return false
		}
		if err != nil {
			return err == io.EOF || err == io.ErrUnexpectedEOF
		}
	}
}
