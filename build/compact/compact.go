// Package compact writes and reads numbers and texts in few bytes, as snapshots of build groups
// are kept.
package compact

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"time"
)

// Writer writes numbers, and texts after their lengths.
type Writer struct {
	To  []byte
	Err error
}

// Number writes a number.
func (w *Writer) Number(n int64) { w.To = binary.AppendVarint(w.To, n) }

// Count writes how many there are of something.
func (w *Writer) Count(n int) { w.Number(int64(n)) }

// Text writes a text.
func (w *Writer) Text(t string) {
	w.Count(len(t))
	w.To = append(w.To, t...)
}

// Data writes the data of an event, which may be none.
func (w *Writer) Data(d []byte) {
	if d == nil {
		w.Count(0)
		return
	}
	w.Count(len(d) + 1)
	w.To = append(w.To, d...)
}

// Flags writes up to 63 of them.
func (w *Writer) Flags(all ...bool) {
	bits := int64(0)
	for i, is := range all {
		if is {
			bits |= 1 << i
		}
	}
	w.Number(bits)
}

// never is a moment that there was not.
const never = math.MinInt64

// Moment writes when something was, if it was.
func (w *Writer) Moment(t time.Time) {
	if t.IsZero() {
		w.Number(never)
		return
	}
	w.Number(t.UnixNano())
}

// JSON writes a value as JSON.
func (w *Writer) JSON(value any) {
	text, err := json.Marshal(value)
	if err != nil && w.Err == nil {
		w.Err = err
	}
	w.Text(string(text))
}

// Quoted is what was written, as a text of JSON.
func (w *Writer) Quoted() json.RawMessage {
	text := make([]byte, 0, base64.StdEncoding.EncodedLen(len(w.To))+len(`""`))
	text = base64.StdEncoding.AppendEncode(append(text, '"'), w.To)
	return append(text, '"')
}

// Reader reads what a Writer wrote. Of something else it is Bad, and gives zero values.
type Reader struct {
	Rest string
	Bad  bool
}

// NewReader reads what was Quoted. All texts share one piece of memory.
func NewReader(quoted json.RawMessage) (*Reader, error) {
	if len(quoted) < len(`""`) || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
		return nil, errors.New("it is no text")
	}
	coded := quoted[1 : len(quoted)-1]
	var text strings.Builder
	text.Grow(base64.StdEncoding.DecodedLen(len(coded)))
	if _, err := io.Copy(&text, base64.NewDecoder(base64.StdEncoding, bytes.NewReader(coded))); err != nil {
		return nil, err
	}
	return &Reader{Rest: text.String()}, nil
}

// Require notes what has to be so.
func (r *Reader) Require(is bool) bool {
	r.Bad = r.Bad || !is
	return !r.Bad
}

// Number reads a number.
func (r *Reader) Number() int64 {
	var n uint64
	for i := 0; i < len(r.Rest) && i < binary.MaxVarintLen64; i++ {
		c := r.Rest[i]
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.Rest = r.Rest[i+1:]
			return int64(n>>1) ^ -int64(n&1)
		}
	}
	r.Bad = true
	return 0
}

// Count is how many there are of something, each of which takes a byte at least.
func (r *Reader) Count() int {
	n := r.Number()
	if !r.Require(n >= 0 && n <= int64(len(r.Rest))) {
		return 0
	}
	return int(n)
}

// Text reads a text, which shares its memory with all others.
func (r *Reader) Text() (t string) {
	n := r.Count()
	t, r.Rest = r.Rest[:n], r.Rest[n:]
	return t
}

// Data reads the data of an event.
func (r *Reader) Data() []byte {
	n := r.Number()
	if n == 0 || !r.Require(n > 0 && n-1 <= int64(len(r.Rest))) {
		return nil
	}
	d := []byte(r.Rest[:n-1])
	r.Rest = r.Rest[n-1:]
	return d
}

// Flags returns a function that returns one flag after the other.
func (r *Reader) Flags() func() bool {
	bits := r.Number()
	return func() bool {
		is := bits&1 != 0
		bits >>= 1
		return is
	}
}

// Moment reads when something was.
func (r *Reader) Moment() time.Time {
	n := r.Number()
	if n == never || r.Bad {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// JSON reads a value.
func (r *Reader) JSON(value any) { r.Require(json.Unmarshal([]byte(r.Text()), value) == nil) }

// Moment is a time without pointers, in nanoseconds since 1970; 0 is none.
type Moment int64

// MomentOf is that of a time.
func MomentOf(t time.Time) Moment {
	if t.IsZero() {
		return 0
	}
	return Moment(t.UnixNano())
}

// Time is when it was.
func (m Moment) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(m)).UTC()
}
