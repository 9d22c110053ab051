package invoke

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/deployster-go/deployster/protocol"
)

const (
	maxAnswer = protocol.MaxAnswer // bytes of stdout that an init or state answer may have
	maxLine   = 64 << 10           // bytes after which a line is shown though it has not ended
)

var errTooMuch = fmt.Errorf("more than %d MiB on stdout", maxAnswer>>20)

// answer collects the stdout of an init or state action, up to maxAnswer.
type answer struct{ bytes.Buffer }

func (a *answer) Write(p []byte) (int, error) {
	if a.Len()+len(p) > maxAnswer {
		n, _ := a.Buffer.Write(p[:maxAnswer-a.Len()])
		return n, errTooMuch
	}
	return a.Buffer.Write(p)
}

// lines cuts a stream into lines, hides secrets in them, and hands them on. A
// line that goes on for longer than maxLine is handed on in parts, which put
// together are the line with its secrets hidden. What it keeps is bounded by
// maxLine and the length of the longest secret, whatever is written. What is
// handed on is forgotten before that, so that it is not handed on again when each
// panics.
type lines struct {
	secrets *Secrets
	each    func(string)
	pending []byte // the end of a line that has not ended, as it was written
	shown   int    // bytes of pending that were handed on; a secret that began in them may go on
	parted  bool   // a part of that line was handed on
}

func (l *lines) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		some := rest[:min(len(rest), maxLine)]
		end := bytes.IndexByte(some, '\n')
		if end >= 0 {
			some = some[:end]
		}
		l.pending = append(l.pending, some...)
		l.part()
		rest = rest[len(some):]
		if end >= 0 {
			l.end()
			rest = rest[1:]
		}
	}
	return len(p), nil
}

// part hands on the beginning of a long line, as far as nothing that comes can
// change what is hidden in it.
func (l *lines) part() {
	held := max(l.secrets.held(), utf8.UTFMax)            // the last character may be unfinished
	if len(l.pending)-l.shown-held < max(maxLine, held) { // so that each byte is looked at, and moved, a few times at most
		return
	}
	covers, resolved := l.secrets.covers(l.pending)
	cut := resolved.boundary(len(l.pending) - held)
	for back := range utf8.UTFMax { // a character is not parted, where the text is UTF-8
		if at := resolved.boundary(cut - back); at > l.shown && utf8.RuneStart(l.pending[at]) {
			cut = at
			break
		}
	}
	if cut <= l.shown {
		return
	}
	text := render(l.pending, covers, span{l.shown, cut}, Masked)
	keep := resolved.boundary(cut - held)
	l.pending = append(l.pending[:0], l.pending[keep:]...)
	l.shown, l.parted = cut-keep, true
	l.each(text)
}

// end hands on what there is of a line that has ended.
func (l *lines) end() {
	ended := bytes.TrimRight(l.pending, "\r")
	covers, _ := l.secrets.covers(ended)
	text := render(ended, covers, span{min(l.shown, len(ended)), len(ended)}, Masked)
	more := len(ended) > l.shown || !l.parted
	if l.pending, l.shown, l.parted = l.pending[:0], 0, false; cap(l.pending) > 2*maxLine {
		l.pending = nil
	}
	if more {
		l.each(text)
	}
}

// flush hands on what was not ended by a newline.
func (l *lines) flush() {
	if len(l.pending) > 0 {
		l.end()
	}
}
