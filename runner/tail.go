package runner

import (
	"regexp"
	"slices"
	"strings"
)

const (
	tailLines   = 20      // last lines of a failed action that go into its event
	excerptMost = 5       // of them, those that go into an error
	maxTailLine = 4 << 10 // bytes that each of them keeps
)

// tail remembers the last lines it was given, and of a crash the line that says
// what happened: in most languages that is the first, and a stack follows that
// would push it out.
type tail struct {
	last  []string
	cause string // "" where none is known
	since int    // lines after it
}

// crashed recognizes the first line of a crash, as Go, Rust, Java, JavaScript and
// Ruby tell of it. Python tells it last.
var crashed = regexp.MustCompile(`^(panic: |fatal error: |thread '.*' panicked at|Exception in thread |Unhandled |Uncaught |[A-Za-z_.]+(Error|Exception): )`)

func (t *tail) add(line string) {
	if len(line) > maxTailLine {
		line = strings.ToValidUTF8(line[:maxTailLine], "") + "…"
	}
	if t.since++; crashed.MatchString(line) {
		t.cause, t.since = line, 0
	}
	if len(t.last) == tailLines {
		t.last = append(t.last[:0], t.last[1:]...)
	}
	t.last = append(t.last, line)
}

// lines returns the last lines, n at most; those of a crash begin with its cause.
func (t *tail) lines(n int) []string {
	last := t.last[max(0, len(t.last)-n):]
	if t.cause == "" || t.since < len(last) {
		return slices.Clone(last)
	}
	return append([]string{t.cause, "…"}, last[min(2, len(last)):]...)
}

// reason is the one line that says best what happened.
func (t *tail) reason() string {
	switch {
	case t.cause != "":
		return t.cause
	case len(t.last) > 0:
		return t.last[len(t.last)-1]
	default:
		return ""
	}
}

// excerpt is what fits into an error.
func (t *tail) excerpt() string { return strings.Join(t.lines(excerptMost), "\n") }
