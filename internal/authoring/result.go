package authoring

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/deployster-go/deployster/protocol"
)

// Result is the outcome of one check.
type Result struct {
	Name    string  `json:"check"` // a short sentence that does not change, such as "init exits with 0"
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail,omitempty"` // what was found; for a failure what was received and how to fix it; for a skipped one why
}

// Outcome is how a check ended.
type Outcome string

// The outcomes. A warning is about something that is allowed and often a
// mistake.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Warning Outcome = "warning"
	Skipped Outcome = "skipped"
)

// ErrFailed is returned by Check when at least one check failed.
var ErrFailed = errors.New("the resource type does not keep to the protocol")

// verdict is a Result without its name.
type verdict struct {
	outcome Outcome
	detail  string
}

func pass(format string, args ...any) verdict {
	return verdict{Passed, fmt.Sprintf(format, args...)}
}

func fail(format string, args ...any) verdict {
	return verdict{Failed, fmt.Sprintf(format, args...)}
}

func warn(format string, args ...any) verdict {
	return verdict{Warning, fmt.Sprintf(format, args...)}
}

func skip(format string, args ...any) verdict {
	return verdict{Skipped, fmt.Sprintf(format, args...)}
}

// excerptBytes bounds what a failure shows of what was received.
const excerptBytes = 200

// received describes what came, by its beginning.
func received(data []byte) string {
	text, rest := "", printable(data)
	for len(rest) > 0 && len(text)+len(rest[0])+len("…") <= excerptBytes {
		text, rest = text+rest[0], rest[1:]
	}
	if len(rest) > 0 {
		text += "…"
	}
	return quoted(text)
}

// receivedEnd describes what came, by its end.
func receivedEnd(data []byte) string {
	text, rest := "", printable(data)
	for len(rest) > 0 && len(text)+len(rest[len(rest)-1])+len("…") <= excerptBytes {
		text, rest = rest[len(rest)-1]+text, rest[:len(rest)-1]
	}
	if len(rest) > 0 {
		text = "…" + text
	}
	return quoted(text)
}

func quoted(text string) string {
	if text == "" {
		return "nothing"
	}
	if strings.HasPrefix(text, `"`) { // what is JSON text has quotes of its own
		return text
	}
	return `"` + text + `"`
}

// printable returns data character by character, safe to print on a terminal.
func printable(data []byte) []string {
	var characters []string
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			characters = append(characters, fmt.Sprintf(`\x%02x`, data[0]))
		case strconv.IsPrint(r):
			characters = append(characters, string(r))
		default:
			escaped := strconv.Quote(string(r))
			characters = append(characters, escaped[1:len(escaped)-1])
		}
		data = data[size:]
	}
	return characters
}

// mostPrinted is how much an action may print for people, in bytes.
const mostPrinted = 16 << 20

// errFlood ends an action that prints without end.
var errFlood = fmt.Errorf("more than %d bytes", mostPrinted)

// bound counts what an action prints on both streams, and ends what prints too much.
type bound struct {
	mu    sync.Mutex
	total int
}

func (b *bound) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total += len(p); b.total > mostPrinted {
		return 0, errFlood
	}
	return len(p), nil
}

// errTooMuch ends a container that answers without end.
var errTooMuch = fmt.Errorf("an answer of more than %d bytes", protocol.MaxAnswer)

// answerBuffer keeps an answer and refuses to keep too much.
type answerBuffer struct{ data []byte }

func (b *answerBuffer) Write(p []byte) (int, error) {
	if len(b.data)+len(p) > protocol.MaxAnswer {
		return 0, errTooMuch
	}
	b.data = append(b.data, p...)
	return len(p), nil
}

// tailBytes is how much a tailBuffer keeps that says nothing else: more than is shown.
const tailBytes = 4 << 10

// tailBuffer keeps the end of what is written, by several at once.
type tailBuffer struct {
	most  int // bytes that are kept; 0 is tailBytes
	mu    sync.Mutex
	data  []byte
	total int // bytes that were written
}

var _ io.Writer = (*tailBuffer)(nil)

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, most := len(p), cmp.Or(b.most, tailBytes)
	b.total += n
	p = p[max(0, n-most):]
	b.data = append(b.data[max(0, min(len(b.data), len(b.data)+len(p)-most)):], p...)
	return n, nil
}
