package view

import (
	"io"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/terminal/pane"
	"github.com/deployster-go/deployster/runner/report"
)

// LiveOptions says what a live view draws on.
type LiveOptions struct {
	Width   func() int       // of the terminal, in cells; 0 when it is unknown
	Height  func() int       // in lines
	Color   bool             // see ColorWanted
	Verbose bool             // print every line of output above the tree
	All     bool             // leave in the end also the resources on the screen that did not change
	Now     func() time.Time // for elapsed times
	Tick    <-chan time.Time // when to redraw, such as ten times a second
}

// Live draws a run as a tree that changes in place. Lines that are final
// scroll out above the region that is redrawn; when the resources do not fit
// the terminal, only those at work are redrawn, and each one that ends scrolls
// out on its own.
//
// The region is redrawn on ticks, never per event, in one write, with only
// the lines that differ: a container that prints a million lines costs no
// more than one that prints ten, and nothing flickers.
type Live struct {
	opts LiveOptions
	pane.Ticks

	mu sync.Mutex
	pane.Pane
	board     *board
	flushed   int  // scrolling: how many of board.over are written
	scrolling bool // the tree did not fit
	finished  bool // the last that there is to say is written
	suspended bool
	closed    bool
}

// NewLive returns a Live that draws on w until Close.
func NewLive(w io.Writer, opts LiveOptions) *Live {
	l := &Live{
		opts: opts, Pane: pane.New(w, opts.Width), board: newBoard(),
	}
	l.Ticks = pane.NewTicks(opts.Tick, l.redraw)
	return l
}

// Observe folds in an event; the next tick shows it.
func (l *Live) Observe(e report.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.board.fold(e) {
		return
	}
	switch e.Kind {
	case report.RunStarted:
		l.Above = append(l.Above, fold(terminal.Style(l.opts.Color).Bold(l.board.header()), l.Cells())...)
		l.draw()
	case report.Warning, report.Leftover:
		l.Above = append(l.Above, l.note("!", e.Resource, e.Text)...)
	case report.Line:
		if l.opts.Verbose {
			l.Above = append(l.Above, l.note("│", e.Resource, e.Text)...)
		}
	case report.Waiting:
		if e.Resource == "" {
			l.Above = append(l.Above, l.note("…", "", e.Text)...)
		}
	case report.RunFinished, report.RunFailed:
		l.draw()
	default: // the next tick is soon enough
	}
}

// Suspend takes the tree off the terminal and gives it to someone else, such as a
// prompt. Events are still folded in.
func (l *Live) Suspend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.suspended || l.closed {
		return
	}
	l.Emit(nil)
	l.ShowCursor()
	l.suspended = true
}

// Resume puts the tree back, at the line where the cursor is; it must be at
// the start of it.
func (l *Live) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.suspended {
		return
	}
	l.suspended = false
	l.draw()
}

// Close draws the tree a last time and restores the cursor. It returns the
// first error of writing.
func (l *Live) Close() error {
	l.mu.Lock()
	if l.closed {
		defer l.mu.Unlock()
		return l.Err()
	}
	l.suspended = false
	l.finish()
	l.closed = true
	l.mu.Unlock()
	l.End()
	l.Wait()
	return l.Err()
}

func (l *Live) redraw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draw()
}

// draw updates the terminal.
func (l *Live) draw() {
	if l.suspended || l.finished || l.board.started.IsZero() {
		return
	}
	if l.board.ended != nil {
		l.finish()
		return
	}
	f := l.frame()
	height := l.opts.Height()
	if height <= 0 {
		height = 24
	}
	height = max(height-1, 1) // the cursor stands below the region

	if !l.scrolling {
		tree := f.tree()
		if len(tree) <= height {
			l.Emit(tree)
			return
		}
		l.scrolling = true
	}
	l.flush(f)
	l.Emit(f.activeWindow(height))
}

// flush makes the rows that ended since the last time permanent.
func (l *Live) flush(f frame) {
	c := f.columns()
	for _, r := range l.board.endedRows[l.flushed:] {
		if l.omits(r) {
			continue
		}
		l.Above = append(l.Above, f.row(r, c, true)...)
	}
	l.flushed = len(l.board.endedRows)
}

// omits reports whether a resource was as it is to be: the verdict counts it.
func (l *Live) omits(r *row) bool { return r.phase == done && !r.changed && !l.opts.All }

// finish writes what remains, and the verdict if there was one. After it
// nothing is redrawn. The tree of a successful plan goes away: the plan itself
// says it better.
func (l *Live) finish() {
	if l.finished {
		return
	}
	l.finished = true
	f := l.frame()
	if l.board.planning() && (l.board.ended == nil || l.board.ended.Kind == report.RunFinished) {
		l.Emit(nil)
		l.ShowCursor()
		return
	}
	if l.scrolling {
		l.flush(f)
	}
	c := f.columns()
	for _, r := range l.board.rows {
		if l.scrolling && r.phase.ended() || l.omits(r) {
			continue
		}
		l.Above = append(l.Above, f.row(r, c, true)...)
	}
	l.Above = append(l.Above, l.board.verdict(f.width, f.style)...)
	l.Emit(nil)
	l.ShowCursor()
}

func (l *Live) frame() frame {
	return frame{board: l.board, now: l.opts.Now(), width: l.Cells(), style: terminal.Style(l.opts.Color)}
}

// note is a permanent line that is not about the state of a resource.
func (l *Live) note(mark, resource, text string) []string {
	s := terminal.Style(l.opts.Color)
	prefix := "  " + s.Yellow(mark) + " "
	if mark == "│" {
		prefix = "  " + s.Dim(mark) + " "
	}
	if resource != "" {
		prefix += clean(resource) + ": "
	}
	lines := fold(prefix+clean(strings.ReplaceAll(text, "\n", "; ")), l.Cells())
	for i := 1; i < len(lines); i++ {
		lines[i] = ansi.Truncate("    "+lines[i], l.Cells(), "…")
	}
	return lines
}
