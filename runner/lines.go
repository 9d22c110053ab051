package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/deployster-go/deployster/protocol"
)

const (
	maxAnswer = protocol.MaxAnswer // bytes of stdout that an init or state answer may have
	maxKept   = 16 << 20           // bytes kept of each stream of an action
	maxLine   = 64 << 10           // bytes after which a line is shown though it has not ended
	tailLines = 20                 // last lines of a failed action that go into its event
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

// lines cuts a stream into lines, hides secrets in them, and hands them on.
type lines struct {
	secrets *secrets
	each    func(string)
	pending []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.pending = append(l.pending, p...)
	for {
		i := bytes.IndexByte(l.pending, '\n')
		if i < 0 {
			break
		}
		l.each(l.secrets.mask(string(bytes.TrimRight(l.pending[:i], "\r"))))
		l.pending = l.pending[i+1:]
	}
	if len(l.pending) > maxLine {
		// The end may be the beginning of a secret: it is held back, masked
		// as far as it can be, until more has come.
		text := l.secrets.mask(string(l.pending))
		cut := max(0, len(text)-l.secrets.held())
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		if cut == 0 {
			return len(p), nil
		}
		l.each(text[:cut])
		l.pending = []byte(text[cut:])
	}
	return len(p), nil
}

// flush hands on what was not ended by a newline.
func (l *lines) flush() {
	if len(l.pending) > 0 {
		l.each(l.secrets.mask(string(l.pending)))
		l.pending = nil
	}
}

// tail remembers the last lines it was given.
type tail struct{ last []string }

func (t *tail) add(line string) {
	if len(t.last) == tailLines {
		t.last = append(t.last[:0], t.last[1:]...)
	}
	t.last = append(t.last, line)
}

// transcript is a file that keeps what a stream of a container said, up to
// maxKept; a stream that said nothing has none. It is for people who look into
// a failure: when it can not be written the run goes on, and close says why.
type transcript struct {
	path string
	file *os.File
	size int
	err  error
}

func (t *transcript) write(text string) {
	if text == "" || t.err != nil || t.size > maxKept {
		return
	}
	if t.file == nil {
		if t.file, t.err = os.OpenFile(t.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); t.err != nil {
			return
		}
	}
	if t.size += len(text); t.size > maxKept {
		text = fmt.Sprintf("[cut off after %d MiB]\n", maxKept>>20)
	}
	_, t.err = t.file.WriteString(text)
}

func (t *transcript) close() error {
	if t.file == nil {
		return t.err
	}
	return errors.Join(t.err, t.file.Close())
}

// excerpt shortens what a container said to what fits into an error.
func excerpt(lines []string) string {
	const most = 5
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	return strings.Join(lines, "\n")
}
