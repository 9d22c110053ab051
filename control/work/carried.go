package work

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/objects"
)

// Carried are the texts of the files that a revision carries, by their paths below the
// workspace: manifests, and all that these include.
type Carried map[string][]byte

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
	return filesOf(c, func(text []byte) ([]byte, error) { return text, nil })
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

// filesOf are what expressions may include of texts that are loaded by what is known of them.
func filesOf[V any](files map[string]V, load func(V) ([]byte, error)) expression.Files {
	return func(name string) (string, error) {
		of, ok := files[name]
		if !ok {
			return "", notCarried(files, name, load)
		}
		text, err := load(of)
		return string(text), err
	}
}

// notCarried is of a file that was not in the workspace when the revision was made, or was
// left out of it. As in the workspace, a directory is not a file that is absent, and a file
// is no directory.
func notCarried[V any](files map[string]V, name string, load func(V) ([]byte, error)) error {
	if of, some := files[revision.OmittedName]; some {
		text, err := load(of)
		if err == nil {
			err = revision.RefuseOmitted(text, name)
		}
		if err != nil {
			return err
		}
	}
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
