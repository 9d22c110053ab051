package deploylog

import (
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
)

// Head stands for all events of a log up to one of them. Who notes it outside
// of the log can tell later that none of these was changed or removed.
type Head struct {
	Seq  int64  // of the last of the events; 0 where only the hash is known
	Hash string // over all of them, hexadecimal
}

// String is the form that ParseHead reads.
func (h Head) String() string { return strconv.FormatInt(h.Seq, 10) + ":" + h.Hash }

// ParseHead reads a head in the form EVENT:HASH, or just its HASH.
func ParseHead(text string) (Head, error) {
	number, hash, both := strings.Cut(text, ":")
	if !both {
		number, hash = "0", text
	}
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || seq < 0 {
		return Head{}, errors.New("a head is EVENT:HASH, and the event a number")
	}
	const least = 16 // bytes: fewer are a part of a hash, or something else
	if raw, err := hex.DecodeString(hash); err != nil || len(raw) < least {
		return Head{}, errors.New("a head is EVENT:HASH as log verify prints it, and the hash hexadecimal digits")
	}
	return Head{Seq: seq, Hash: strings.ToLower(hash)}, nil
}
