package logcopy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
)

// Beside is what is beside the events of a log.
type Beside struct {
	Objects   objects.Store
	Documents *protected.Store
}

// Brought is what was copied beside the events.
type Brought struct {
	Objects   int
	Documents int
	Missing   int      // documents that events name, and that are not there
	Unread    []string // kinds of what was not copied, since it is not given to this reader
}

// CopyBeside copies what the events of a log name, as far as it is there and may be read: the
// objects, the key of hashes, and the documents of these names. What is there already is copied
// again.
func CopyBeside(ctx context.Context, log deploylog.Log, from, to Beside, documents map[string]bool) (n Brought, err error) {
	for _, kind := range []struct {
		name string
		copy func() (there bool, err error)
	}{
		{"the key of hashes", func() (bool, error) { return copySalt(from.Objects, to.Objects) }},
		{"texts of revisions", func() (there bool, err error) {
			n.Objects, there, err = copyObjects(ctx, log, from.Objects, to.Objects)
			return there, err
		}},
		{"documents with secrets", func() (there bool, err error) {
			n.Documents, n.Missing, there, err = copyDocuments(from.Documents, to.Documents, documents)
			return there, err
		}},
	} {
		switch there, err := kind.copy(); {
		case !there && errors.Is(err, fs.ErrPermission):
			n.Unread = append(n.Unread, kind.name)
		case err != nil:
			return n, fmt.Errorf("copy what the log names: %s: %w", kind.name, err)
		}
	}
	return n, nil
}

// copyObjects copies the objects that events name. Where it fails, there is whether the object was
// read.
func copyObjects(ctx context.Context, log deploylog.Log, from, to objects.Store) (n int, there bool, err error) {
	seen := map[string]bool{}
	for e, failed := range log.Read(ctx, deploylog.Filter{}) {
		if failed != nil {
			return n, true, failed
		}
		objects.HashesIn(e.Data, func(hash string) {
			if err != nil || seen[hash] {
				return
			}
			seen[hash] = true
			if there, err = copyObject(from, to, hash); there && err == nil {
				n++
			}
		})
		if err != nil {
			return n, there, err
		}
	}
	return n, true, nil
}

func copyObject(from, to objects.Store, hash string) (there bool, err error) {
	content, err := from.Load(hash)
	if errors.Is(err, objects.ErrMissing) {
		return false, nil // most of what looks like a name is none
	}
	if err != nil {
		return false, err
	}
	return true, to.KeepAll(content)
}

// copyDocuments copies the documents of these names. Where it fails, there is whether the document
// was read.
func copyDocuments(from, to *protected.Store, names map[string]bool) (n, missing int, there bool, err error) {
	for name := range names {
		if there, err = from.Copy(to, name); err != nil {
			return n, missing, there, err
		}
		if there {
			n++
		} else {
			missing++
		}
	}
	return n, missing, true, nil
}

// copySalt copies the key of hashes. With another one the secrets of revisions would seem to be
// others. Where it fails, there is whether the key was read.
func copySalt(from, to objects.Store) (there bool, err error) {
	salt, err := from.Salt()
	if errors.Is(err, objects.ErrMissing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	is, err := to.KeepSalt(salt)
	if err == nil && !bytes.Equal(is, salt) {
		err = errors.New("where it is to go there is another key of hashes: somebody has made revisions there; name a place without a log")
	}
	return true, err
}
