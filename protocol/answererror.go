package protocol

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// excerptBytes bounds the printed excerpt of an AnswerError.
const excerptBytes = 200

// AnswerError says that what a container wrote on stdout is not the answer
// that was expected: a mistake of the image, not of the user or the engine.
type AnswerError struct {
	Message string // what is wrong and what was expected
	Path    string // the value in the document that is wrong, such as "actions[0].name"; "" for the document as a whole
	Excerpt string // the first offending bytes, escaped to be printable, at most 200 bytes; "" when there are none
}

func (e *AnswerError) Error() string {
	s := e.Message
	if e.Path != "" {
		s = excerpt([]byte(e.Path)) + ": " + s
	}
	if e.Excerpt != "" {
		received := e.Excerpt
		if !strings.HasPrefix(received, `"`) { // what is JSON text has quotes of its own
			received = `"` + received + `"`
		}
		s += fmt.Sprintf(" (received %s)", received)
	}
	return s
}

// excerpt shows the beginning of data, safe to print on a terminal.
func excerpt(data []byte) string {
	out := make([]byte, 0, excerptBytes)
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		var next []byte
		if r == utf8.RuneError && size == 1 {
			next = fmt.Appendf(nil, `\x%02x`, data[0])
		} else {
			quoted := strconv.Quote(string(r))
			next = []byte(quoted[1 : len(quoted)-1])
			if r == '"' {
				next = []byte{'"'}
			}
		}
		data = data[size:]
		if len(out)+len(next)+len("…") > excerptBytes {
			return string(out) + "…"
		}
		out = append(out, next...)
	}
	return string(out)
}
