package protocol

import (
	"bytes"
	"io"
	"sync"
	"unicode/utf8"
)

// maxText is how much text for people is kept before it is sent, or instead of
// being sent, in bytes.
const maxText = 64 << 10

// printer sends what one action prints, on both streams in one order.
type printer struct {
	mu      sync.Mutex
	id      int64
	answers *answerWriter
	ended   bool
}

// end is called before the last answer. What is printed after it is refused.
func (p *printer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// printed is one of the streams: it sends whole lines, and a line without end in
// parts.
type printed struct {
	*printer
	stderr bool
	rest   []byte // a line that has not ended yet
}

func (p *printed) Write(text []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return 0, io.ErrClosedPipe
	}
	for n < len(text) {
		room := min(len(text)-n, maxText-len(p.rest))
		p.rest = append(p.rest, text[n:n+room]...)
		n += room
		whole := bytes.LastIndexByte(p.rest, '\n') + 1
		if whole == 0 && len(p.rest) == maxText {
			whole = wholeCharacters(p.rest)
		}
		if whole > 0 {
			p.send(p.rest[:whole])
			p.rest = append(p.rest[:0], p.rest[whole:]...)
		}
	}
	return n, nil
}

func (p *printed) send(text []byte) {
	a := ServeAnswer{ID: p.id, Output: jsonText(text)}
	if p.stderr {
		a.Output, a.Stderr = nil, string(text)
	}
	p.answers.send(a)
}

// wholeCharacters is how long text is without a character that is cut off at its
// end.
func wholeCharacters(text []byte) int {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

// ending keeps the end of what init and state print for people.
type ending struct {
	mu   sync.Mutex
	text []byte
}

func (e *ending) Write(text []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	const kept = maxText + 1 // the one shows that something was cut off
	e.text = append(e.text, text[max(0, len(text)-kept):]...)
	if len(e.text) > 2*kept {
		e.text = append(e.text[:0], e.text[len(e.text)-kept:]...)
	}
	return len(text), nil
}

func (e *ending) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	from := max(0, len(e.text)-maxText)
	for from > 0 && from < len(e.text) && !utf8.RuneStart(e.text[from]) {
		from++
	}
	return string(e.text[from:])
}
