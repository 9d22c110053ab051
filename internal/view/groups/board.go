package groups

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/terminal/pane"
)

// BoardOptions says what a board draws on, and what.
type BoardOptions struct {
	Width  func() int // of the terminal, in cells; 0 when it is unknown
	Height func() int // in lines
	Color  bool
	Now    func() time.Time
	Tick   <-chan time.Time // when to redraw, such as ten times a second

	// Source is the groups that are being built, and how many are queued. It is asked so
	// seldom that it takes but a small part of the time.
	Source func() (current []query.BuildStatus, queued int)
}

// Board draws the groups that are being built, in place: how far they are, what runs where,
// and since when. What failed, was lost or has ended stays above it.
type Board struct {
	opts BoardOptions
	pane.Ticks

	mu sync.Mutex
	pane.Pane
	groups []query.BuildStatus
	queued int
	asked  time.Time // when the source had answered
	took   time.Duration
	closed bool
}

// NewBoard returns a Board that draws on w until Close.
func NewBoard(w io.Writer, opts BoardOptions) *Board {
	b := &Board{opts: opts, Pane: pane.New(w, opts.Width)}
	b.Ticks = pane.NewTicks(opts.Tick, b.redraw)
	return b
}

// Note writes lines that stay.
func (b *Board) Note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range terminal.Lines(text) {
		b.Above = append(b.Above, strings.Split(ansi.Wrap("  "+terminal.Style(b.opts.Color).Yellow("!")+" "+line, b.Cells(), ""), "\n")...)
	}
}

// Event writes an event that stays, if it is one of those that people look for.
func (b *Board) Event(e deploylog.Event, name string) {
	switch e.Name {
	case record.JobFailed, record.JobDependentsFailed, record.JobLost,
		record.GroupStarted, record.GroupFinished, record.GroupFailing, record.GroupFailed, record.GroupCanceling, record.GroupCanceled, record.GroupStalled:
	default:
		return
	}
	var text strings.Builder
	_ = Event(&text, e, name, Options{Color: b.opts.Color}) // a builder never fails
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Above = append(b.Above, splitLines(text.String())...)
}

// Close draws what has become of the groups, leaves that on the screen, and restores the
// cursor. It returns the first error of writing.
func (b *Board) Close() error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		b.Emit(nil)
		b.ShowCursor()
		b.End()
	}
	b.mu.Unlock()
	b.Wait()
	return b.Err()
}

// patience is how many times as long as the source took it is not asked again.
const patience = 20

func (b *Board) redraw() {
	b.mu.Lock()
	due := !b.closed && b.opts.Now().Sub(b.asked) >= patience*b.took
	b.mu.Unlock()
	if due {
		began := b.opts.Now()
		groups, queued := b.opts.Source()
		b.mu.Lock()
		b.groups, b.queued, b.asked = groups, queued, b.opts.Now()
		b.took = b.asked.Sub(began)
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	height := b.opts.Height()
	if height <= 0 {
		height = 24
	}
	b.Emit(b.frame(max(height-1, 1))) // the cursor stands below the region
}

// frame is what is shown, in at most height lines.
func (b *Board) frame(height int) (lines []string) {
	style, now := terminal.Style(b.opts.Color), b.opts.Now()
	if len(b.groups) == 0 && b.queued == 0 {
		return nil
	}
	for _, g := range b.groups {
		lines = append(lines, b.head(g, now), b.bar(g))
		const most = 2
		said := 0
		for _, r := range g.Reasons {
			if !told(r.Code) && said < most {
				lines = append(lines, "  "+style.Yellow("!")+" "+clean(r.Message))
				said++
			}
		}
	}
	if b.queued > 0 {
		lines = append(lines, style.Dim(are(b.queued, "group")+" queued"))
	}
	rows := b.rows(now)
	room := height - len(lines)
	if len(rows) > room {
		room = max(room-1, 0)
		rows = append(rows[:room:room], style.Dim(fmt.Sprintf("  … %d more at work", len(rows)-room)))
	}
	lines = append(lines, rows...)
	if len(lines) > height {
		lines = lines[:height]
	}
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, b.Cells(), "…")
	}
	return lines
}

// head is the state of a group, since when it is being built, and for how long it will be.
func (b *Board) head(g query.BuildStatus, now time.Time) string {
	style := terminal.Style(b.opts.Color)
	text := style.Bold(clean(g.ID)) + "  " + g.State.String()
	if took := Took(g.Summary, now); took != "" {
		text += "  " + took
	}
	if f := g.Forecast; f != nil && Expected(*f) != "" && f.Measured > 0 && f.End.Sub(now) >= time.Second {
		text += style.Dim("  expected to end in " + phrase.Took(f.End.Sub(now)))
	}
	return text
}

// barCells leaves room for the numbers on a terminal of 80 columns.
const barCells = 14

// bar is how much of a group is done, as a bar and in numbers.
func (b *Board) bar(g query.BuildStatus) string {
	style, t := terminal.Style(b.opts.Color), TallyOf(g.Summary)
	share := func(n int) int { return min(barCells, n*barCells/max(g.Jobs, 1)) }
	built, lost := share(t.Built), share(t.Failed+t.NotBuilt+t.Canceled)
	text := "  " + style.Green(strings.Repeat("█", built)) + style.Red(strings.Repeat("█", lost)) + style.Dim(strings.Repeat("░", max(0, barCells-built-lost)))
	text += fmt.Sprintf("  %d/%d built", t.Built, g.Jobs)
	for _, c := range []struct {
		n    int
		what string
	}{{t.Running, "running"}, {t.Failed, "failed"}, {t.NotBuilt, "not built"}, {t.Canceled, "canceled"}, {t.Waiting, "waiting"}} {
		if c.n > 0 {
			text += fmt.Sprintf("  %d %s", c.n, c.what)
		}
	}
	return text
}

// rows are the jobs that run, each with its worker and since when.
func (b *Board) rows(now time.Time) (rows []string) {
	style, name, worker := terminal.Style(b.opts.Color), 0, 0
	for _, g := range b.groups {
		for _, j := range g.Running {
			name, worker = max(name, ansi.StringWidth(Name(j))), max(worker, ansi.StringWidth(clean(j.Worker)))
		}
	}
	name, worker = min(name, 40), min(worker, 20)
	for _, g := range b.groups {
		for _, j := range g.Running {
			text := fmt.Sprintf("  %s %s  %s  %s", style.Cyan("●"), fit(Name(j), name), style.Dim(fit(clean(j.Worker), worker)), phrase.Took(now.Sub(j.Began)))
			if j.State == transition.CancelPending {
				text += style.Yellow("  being stopped")
			}
			rows = append(rows, text)
		}
	}
	return rows
}

// fit cuts text to a number of cells and fills it up with spaces.
func fit(text string, cells int) string {
	text = ansi.Truncate(text, cells, "…")
	return text + strings.Repeat(" ", max(0, cells-ansi.StringWidth(text)))
}
