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

// actionOutput sends what one action prints, on both streams in one order.
type actionOutput struct {
	mu      sync.Mutex
	id      int64
	answers *answerWriter
	ended   bool
}

// end is called before the last answer. What is printed after it is refused.
func (p *actionOutput) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// stream is stdout or stderr of an action: it sends whole lines, and a line
// without an end in parts.
type stream struct {
	*actionOutput
	stderr  bool
	pending []byte         // a line that has not ended yet
	keep    map[string]any // what the action has kept; goes with the last answer
}

func (p *stream) Write(text []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return 0, io.ErrClosedPipe
	}
	for n < len(text) {
		room := min(len(text)-n, maxText-len(p.pending))
		p.pending = append(p.pending, text[n:n+room]...)
		n += room
		whole := bytes.LastIndexByte(p.pending, '\n') + 1
		if whole == 0 && len(p.pending) == maxText {
			whole = wholeCharacters(p.pending)
		}
		if whole > 0 {
			p.send(p.pending[:whole])
			p.pending = append(p.pending[:0], p.pending[whole:]...)
		}
	}
	return n, nil
}

func (p *stream) send(text []byte) {
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

// tail keeps the end of what init and state print for people.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (e *tail) Write(text []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	const kept = maxText + 1 // the one shows that something was cut off
	e.text = append(e.text, text[max(0, len(text)-kept):]...)
	if len(e.text) > 2*kept {
		e.text = append(e.text[:0], e.text[len(e.text)-kept:]...)
	}
	return len(text), nil
}

func (e *tail) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	from := max(0, len(e.text)-maxText)
	for from > 0 && from < len(e.text) && !utf8.RuneStart(e.text[from]) {
		from++
	}
	return string(e.text[from:])
}
