package deploylog

import (
	"context"
	"errors"
)

// Index keeps documents that follow from a log up to an event, each under a key, so that a reader reads the few
// that it asks about instead of the log. The log stays the only truth: an index that is lost costs time, and
// nothing else. It is safe for concurrent use, also by several processes.
type Index interface {
	// Read returns the documents of some keys, and up to which event the index is. One that is not there is
	// missing.
	Read(ctx context.Context, keys ...string) (seq int64, docs map[string][]byte, err error)

	// Under returns the documents whose keys begin with any of some prefixes, and up to which event the index is.
	Under(ctx context.Context, prefixes ...string) (seq int64, docs map[string][]byte, err error)

	// Write has the index be up to an event, with other documents under some keys; nil removes one. All of that
	// happens, or nothing: it fails with ErrIndexMoved where the index is no longer up to from.
	Write(ctx context.Context, from, to int64, changes map[string][]byte) error
}

// ErrIndexMoved says that another process has written an index meanwhile.
var ErrIndexMoved = errors.New("the index was written meanwhile")

// IndexLog is a Log beside which readers keep indexes, each under a name.
type IndexLog interface {
	// Index returns the one of a name that this very program, run by this user, keeps of the log. It is empty, up
	// to event 0, where there was none, or one that is damaged or of another history.
	Index(ctx context.Context, name string) (Index, error)
}
