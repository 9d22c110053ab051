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
	maxHeld   = 1 << 20            // bytes that it may go on for after the beginning of a secret, besides what a secret has
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
// maxHeld and the length of the longest secret, whatever is written. What is
// handed on is forgotten before that, so that it is not handed on again when each
// panics.
type lines struct {
	secrets *Secrets
	each    func(string)
	pending []byte // the end of a line that has not ended, as it was written
	inside  int    // bytes of pending that are of a secret that began before
	wait    int    // bytes that pending is to have before more of it is handed on, besides maxLine
	parted  bool   // a part of that line was handed on
	lost    bool   // the rest of the line is hidden: a secret began in it and did not end
}

func (l *lines) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		some := rest[:min(len(rest), maxLine)]
		end := bytes.IndexByte(some, '\n')
		if end >= 0 {
			some = some[:end]
		}
		if !l.lost {
			l.pending = append(l.pending, some...)
			l.part()
		}
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
	if len(l.pending) < maxLine+max(utf8.UTFMax, l.wait) { // so that each byte is looked at, and moved, a few times at most
		return
	}
	most := len(l.pending) - utf8.UTFMax // the last character may be unfinished
	for back := range utf8.UTFMax {      // a character is not parted, where the text is UTF-8
		if utf8.RuneStart(l.pending[most-back]) {
			most -= back
			break
		}
	}
	covers, cut := l.secrets.covers(l.pending, most, l.inside)
	l.wait = 2 * (len(l.pending) - cut)
	if cut == 0 {
		if l.lost = len(l.pending) > maxHeld+l.secrets.longest(); l.lost {
			l.forget()
		}
		return
	}
	text := render(l.pending, covers, cut, Masked)
	l.inside = 0
	for _, s := range covers {
		if s.start < cut && cut < s.end {
			l.inside = s.end - cut
		}
	}
	l.pending, l.parted = append(l.pending[:0], l.pending[cut:]...), true
	l.each(text)
}

// forget forgets what is pending.
func (l *lines) forget() {
	if l.pending, l.inside, l.wait = l.pending[:0], 0, 0; cap(l.pending) > 2*maxLine {
		l.pending = nil
	}
}

// end hands on what there is of a line that has ended.
func (l *lines) end() {
	ended := bytes.TrimRight(l.pending, "\r")
	covers, _ := l.secrets.covers(ended, unbounded, min(l.inside, len(ended)))
	text := render(ended, covers, len(ended), Masked)
	more := len(ended) > 0 || !l.parted
	if l.lost {
		text, more = Masked, true
	}
	l.parted, l.lost = false, false
	l.forget()
	if more {
		l.each(text)
	}
}

// flush hands on what was not ended by a newline.
func (l *lines) flush() {
	if len(l.pending) > 0 || l.lost {
		l.end()
	}
}
