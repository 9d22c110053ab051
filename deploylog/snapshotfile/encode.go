package snapshotfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// The file of a snapshot begins with its form, and ends with the SHA-256 of all before it.
// In between are texts, each after its length, and numbers.
const form = "deployster-snapshot 1\n"

// Origin is of what a snapshot was made.
type Origin struct {
	Log  string // its identity
	Hash string // over the log up to the event of the snapshot
}

// header is what a file says of itself.
type header struct {
	Origin
	name string // with the version of the form of what it holds
}

// encodedSize is about how large a file is: not less than it is.
func encodedSize(made header, s deploylog.Snapshot) int {
	const text = binary.MaxVarintLen64 // before each
	size := len(form) + 3*text + len(made.Log) + len(made.Hash) + len(made.name) + binary.MaxVarintLen64 + sha256.Size
	for i := range s.Events {
		e := &s.Events[i]
		size += 3*binary.MaxVarintLen64 + 6*text + len(e.ID) + len(e.Deployment) + len(e.Target) + len(e.Revision) + len(e.Name) + len(e.Data)
	}
	return size
}

func encode(made header, s deploylog.Snapshot) []byte {
	b := append(make([]byte, 0, encodedSize(made, s)), form...)
	text := func(t string) {
		b = binary.AppendUvarint(b, uint64(len(t)))
		b = append(b, t...)
	}
	text(made.Log)
	text(made.Hash)
	text(made.name)
	b = binary.AppendVarint(b, s.Seq)
	for _, e := range s.Events {
		b = binary.AppendVarint(b, e.Seq)
		for _, t := range [...]string{e.ID, e.Deployment, string(e.Target), e.Revision, e.Name} {
			text(t)
		}
		b = binary.AppendVarint(b, int64(e.Attempt))
		b = binary.AppendVarint(b, e.CreatedAt.UnixNano())
		b = binary.AppendUvarint(b, uint64(len(e.Data)))
		b = append(b, e.Data...)
	}
	return summed(b)
}

func summed(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decode reads a file; ok is false for one that is not whole.
func decode(b []byte) (made header, s deploylog.Snapshot, ok bool) {
	end := len(b) - sha256.Size
	if end < 0 || sha256.Sum256(b[:end]) != [sha256.Size]byte(b[end:]) || !bytes.HasPrefix(b, []byte(form)) {
		return made, s, false
	}
	r := reader{rest: string(b[len(form):end])} // all texts share it
	made.Log, made.Hash, made.name = r.text(), r.text(), r.text()
	s.Seq = r.number()
	for last := int64(0); r.rest != "" && !r.bad; {
		e := deploylog.Event{
			Seq: r.number(), ID: r.text(), Deployment: r.text(), Target: deploylog.Target(r.text()), Revision: r.text(), Name: r.text(),
			Attempt: int(r.number()), CreatedAt: time.Unix(0, r.number()).UTC(),
		}
		if data := r.text(); data != "" {
			e.Data = json.RawMessage(data)
		}
		r.bad = r.bad || e.Seq <= last || e.Seq > s.Seq
		last = e.Seq
		s.Events = append(s.Events, e)
	}
	if r.bad {
		return header{}, deploylog.Snapshot{}, false
	}
	return made, s, true
}

// reader takes the parts of a snapshot one after the other, until it is bad.
type reader struct {
	rest string
	bad  bool
}

func (r *reader) take(n uint64) string {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return ""
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) number() int64 {
	// As binary.Varint, which takes no text.
	var n uint64
	for shift := 0; ; shift += 7 {
		b := r.take(1)
		if r.bad || shift > 63 {
			r.bad = true
			return 0
		}
		n |= uint64(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			return int64(n>>1) ^ -int64(n&1)
		}
	}
}

func (r *reader) text() string { return r.take(r.length()) }

func (r *reader) length() uint64 {
	n, size := binary.Uvarint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)]))
	if r.bad || size <= 0 || n > math.MaxInt32 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}
