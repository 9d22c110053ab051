package sqlite

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/deployster-go/deployster/deploylog"
)

// link is the hash of a log up to and including one event: sha256 over the
// previous link and the event, cut to 128 bits.
type link [16]byte

// genesis is the head of an empty log. It is the same for all logs, so that
// equal heads mean equal events, wherever they are kept.
var genesis link

// digest is the hash of an event's own content, with every field delimited.
func digest(e deploylog.Event) [sha256.Size]byte {
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

// next is the link after prev, with an event of the given digest at seq.
func (prev link) next(seq, registered int64, digest [sha256.Size]byte) link {
	var b [len(prev) + 8 + 8 + sha256.Size]byte
	copy(b[:], prev[:])
	binary.BigEndian.PutUint64(b[16:], uint64(seq))
	binary.BigEndian.PutUint64(b[24:], uint64(registered))
	copy(b[32:], digest[:])
	sum := sha256.Sum256(b[:])
	return link(sum[:len(prev)])
}
