package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Hash tells one hash or digest from another, as their texts do. A map by it has no pointers,
// which the collector of garbage would follow.
type Hash struct {
	form hashForm
	sum  [sha256.Size]byte
}

type hashForm uint8

const (
	noText    hashForm = iota
	digest             // the sum is written in it
	otherText          // the sum is that of the text
)

const digestPrefix = "sha256:"

// HashOf is that of a text; that of "" is the zero Hash.
func HashOf[T string | []byte](text T) (h Hash) {
	if len(text) == 0 {
		return h
	}
	if len(text) == len(digestPrefix)+2*len(h.sum) && string(text[:len(digestPrefix)]) == digestPrefix && decodeHex(&h.sum, text[len(digestPrefix):]) {
		h.form = digest
		return h
	}
	return Hash{otherText, sha256.Sum256([]byte(text))}
}

// Short is a number that two hashes hardly have in common.
func (h Hash) Short() uint64 { return binary.LittleEndian.Uint64(h.sum[:]) }

// Bytes are those of which HashFrom makes it again.
func (h Hash) Bytes() []byte { return append([]byte{byte(h.form)}, h.sum[:]...) }

// HashFrom is the hash that Bytes were made of; ok is false of others.
func HashFrom(b string) (h Hash, ok bool) {
	if len(b) != 1+len(h.sum) || hashForm(b[0]) > otherText {
		return h, false
	}
	h.form = hashForm(b[0])
	copy(h.sum[:], b[1:])
	return h, true
}

// Compare orders hashes.
func (h Hash) Compare(o Hash) int { return bytes.Compare(h.Bytes(), o.Bytes()) }

// String is the text of a digest; of another text it is one that only stands for it.
func (h Hash) String() string {
	switch h.form {
	case noText:
		return ""
	case digest:
		return digestPrefix + hex.EncodeToString(h.sum[:])
	default:
		return "text:" + hex.EncodeToString(h.sum[:])
	}
}

// decodeHex reads digits of a sum, which are lower case: in upper case they are another text.
func decodeHex[T string | []byte](to *[sha256.Size]byte, text T) bool {
	bad := byte(0)
	for i := range to {
		high, low := digits[text[2*i]], digits[text[2*i+1]]
		bad |= high | low
		to[i] = high<<4 | low
	}
	return bad < noDigit
}

// noDigit is more than any digit.
const noDigit = 16

// digits are the values of lower case digits, noDigit of all that is none.
var digits = func() (all [256]byte) {
	for c := range all {
		all[c] = noDigit
	}
	for value, c := range []byte("0123456789abcdef") {
		all[c] = byte(value)
	}
	return all
}()
