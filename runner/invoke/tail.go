package invoke

import (
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/pattern"
)

const (
	tailLines   = 20      // last lines of a failed action that go into its event
	excerptMost = 5       // of them, those that go into an error
	maxTailLine = 4 << 10 // bytes that each of them keeps
)

// Tail remembers the last lines of output it was given, and of a crash the line that says
// what happened: in most languages that is the first, and a stack follows that
// would push it out.
type Tail struct {
	last    []string
	crash   string // its first line, "" where none is known
	stream  string // that the crash was printed on
	since   int    // lines after it
	doubted bool   // the last of them on its stream are of no stack: what said it went on
}

var (
	// crashed recognizes the first line of a crash, as Go, Rust, Java, JavaScript and
	// Ruby print it. Python prints it last.
	crashed = pattern.Lazy(`^(panic: |fatal error: |thread '.*' panicked at|Exception in thread |Unhandled |Uncaught |[A-Za-z_.]+(Error|Exception): )`)

	// framed recognizes what only a stack has: so whatever stands between it and the
	// first line is of the message.
	framed = pattern.Lazy(`^(goroutine \d+ \[|stack backtrace:|note: run with .RUST_BACKTRACE|\s+at |\s+from )`)

	// stacked recognizes what else follows the first line of a crash: what is empty or
	// indented, functions of Go, and what runtimes add.
	stacked = pattern.Lazy(`^(\s|$|[^\s(]\S*\(.*\)$|at |created by |exit status |exit code |\[signal |note: |Caused by: |\.\.\. \d+ more|Node\.js v)`)
)

func (t *Tail) add(stream, line string) {
	if len(line) > maxTailLine {
		line = strings.ToValidUTF8(line[:maxTailLine], "") + "…"
	}
	t.since++
	switch {
	case crashed().MatchString(line):
		t.crash, t.stream, t.since, t.doubted = line, stream, 0, false
	case t.crash == "" || stream != t.stream:
	case framed().MatchString(line):
		t.doubted = false
	case !stacked().MatchString(line):
		t.doubted = true
	}
	if len(t.last) == tailLines {
		t.last = append(t.last[:0], t.last[1:]...)
	}
	t.last = append(t.last, line)
}

// cause is the line that says what happened, "" where no crash was the end.
func (t *Tail) cause() string {
	if t.doubted {
		return ""
	}
	return t.crash
}

// Lines returns the last lines; those of a crash begin with its cause.
func (t *Tail) Lines() []string { return t.lines(tailLines) }

// lines returns the last lines, n at most; those of a crash begin with its cause.
func (t *Tail) lines(n int) []string {
	last := t.last[max(0, len(t.last)-n):]
	if t.cause() == "" || t.since < len(last) {
		return slices.Clone(last)
	}
	return append([]string{t.cause(), "…"}, last[min(2, len(last)):]...)
}

// Reason is the one line that says best what happened.
func (t *Tail) Reason() string {
	switch {
	case t.cause() != "":
		return t.cause()
	case len(t.last) > 0:
		return t.last[len(t.last)-1]
	default:
		return ""
	}
}

// Excerpt is what fits into an error.
func (t *Tail) Excerpt() string { return strings.Join(t.lines(excerptMost), "\n") }
