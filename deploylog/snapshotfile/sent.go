package snapshotfile

import (
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
)

// Encode is a snapshot of a name as a program decodes it that knows the version in that, on this
// machine or another.
func Encode(name string, of Origin, s deploylog.Snapshot) ([]byte, error) {
	made := header{of, name}
	if size := encodedSize(made, s); size > limit {
		return nil, fmt.Errorf("it has %d bytes, at most %d are possible", size, limit)
	}
	return encode(made, s), nil
}

// Decode is the snapshot of a name that Encode made a text of; ok is false where it is of another one,
// or damaged. Whoever decodes it compares its origin.
func Decode(name string, text []byte) (of Origin, s deploylog.Snapshot, ok bool) {
	made, s, ok := decode(text)
	if !ok || name == "" || made.name != name {
		return of, deploylog.Snapshot{}, false
	}
	return made.Origin, s, true
}
