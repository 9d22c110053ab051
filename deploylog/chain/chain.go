// Package chain has the hashes by which events of a log hold on to one another. Each
// event's is over that of the event before it and its own content, so an event that was
// edited, left out or moved is found by reading, and logs of one head are one log,
// wherever they are kept.
package chain

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/deployster-go/deployster/deploylog"
)

// Link is the hash of a log up to and including one event: sha256 over the
// previous link and the event, cut to 128 bits.
type Link [16]byte

// Genesis is the head of an empty log. It is the same for all logs.
var Genesis Link

// LinkOf is a link as it was stored. What is too short or too long is none.
func LinkOf(b []byte) Link {
	var l Link
	if len(b) == len(l) {
		copy(l[:], b)
	}
	return l
}

// Digest is the hash of an event's own content, with every field delimited.
func Digest(e deploylog.Event) [sha256.Size]byte {
	b := make([]byte, 0, 1024) // a constant keeps most events off the heap
	for _, s := range [...]string{e.ID, e.Deployment, string(e.Target), e.Revision, e.Name} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = binary.AppendUvarint(b, uint64(e.Attempt))
	b = binary.AppendVarint(b, e.CreatedAt.UnixNano())
	b = append(b, e.Data...)
	return sha256.Sum256(b)
}

// Next is the link after prev, with an event of the given digest at seq, whose deployment
// began with the event registered.
func (prev Link) Next(seq, registered int64, digest [sha256.Size]byte) Link {
	var b [len(prev) + 8 + 8 + sha256.Size]byte
	copy(b[:], prev[:])
	binary.BigEndian.PutUint64(b[16:], uint64(seq))
	binary.BigEndian.PutUint64(b[24:], uint64(registered))
	copy(b[32:], digest[:])
	sum := sha256.Sum256(b[:])
	return Link(sum[:len(prev)])
}
