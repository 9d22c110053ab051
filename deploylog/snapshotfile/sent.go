package snapshotfile

import (
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
)

// Program tells this program from all others and from its other versions: a snapshot is of
// no use to these. "" is that it cannot be told.
func Program() string { return program() }

// Encode is a snapshot as this very program decodes it, on this machine or another.
func Encode(of Origin, s deploylog.Snapshot) ([]byte, error) {
	made := header{of, program()}
	if made.program == "" {
		return nil, errors.New("this program cannot be told from other versions")
	}
	if size := encodedSize(made, s); size > limit {
		return nil, fmt.Errorf("it has %d bytes, at most %d are possible", size, limit)
	}
	return encode(made, s), nil
}

// Decode is the snapshot that Encode made a text of; ok is false where another program did,
// or it is damaged. Whoever decodes it compares its origin.
func Decode(text []byte) (of Origin, s deploylog.Snapshot, ok bool) {
	made, s, ok := decode(text)
	if !ok || made.program == "" || made.program != program() {
		return of, deploylog.Snapshot{}, false
	}
	return made.Origin, s, true
}
