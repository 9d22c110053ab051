package logcopy

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
)

// Beside is what is beside the events of a log.
type Beside struct {
	Objects   objects.Store
	Documents *protected.Store // nil is none
}

// Brought is what was copied beside the events.
type Brought struct {
	Objects   int
	Documents int
}

// CopyBeside copies what the events of a log name, as far as it is there: the objects, the key of
// hashes, and the documents of these names. What is there already is copied again.
func CopyBeside(ctx context.Context, log deploylog.Log, from, to Beside, documents map[string]bool) (n Brought, err error) {
	if err := copySalt(from.Objects, to.Objects); err != nil {
		return n, err
	}
	seen := map[string]bool{}
	for e, err := range log.Read(ctx, deploylog.Filter{}) {
		if err != nil {
			return n, err
		}
		var failed error
		objects.HashesIn(e.Data, func(hash string) {
			if failed != nil || seen[hash] {
				return
			}
			seen[hash] = true
			var there bool
			if there, failed = copyObject(from.Objects, to.Objects, hash); there {
				n.Objects++
			}
		})
		if failed != nil {
			return n, fmt.Errorf("copy what the log names: %w", failed)
		}
	}
	if from.Documents == nil || to.Documents == nil {
		return n, nil
	}
	for name := range documents {
		there, err := from.Documents.Copy(to.Documents, name)
		if err != nil {
			return n, err
		}
		if there {
			n.Documents++
		}
	}
	return n, nil
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

// copySalt copies the key of hashes. With another one the secrets of revisions would seem to be
// others.
func copySalt(from, to objects.Store) error {
	salt, err := from.Salt()
	if errors.Is(err, objects.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	is, err := to.KeepSalt(salt)
	if err == nil && !bytes.Equal(is, salt) {
		err = errors.New("where it is to go there is another key of hashes: somebody has made revisions there; name a place without a log")
	}
	return err
}
