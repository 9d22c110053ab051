package view

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/terminal/pane"
	"github.com/deployster-go/deployster/runner/report"
)

// How often Plain speaks of the same thing again.
const (
	pullEvery  = 5 * time.Second
	stillEvery = 10 * time.Second
)

// PlainOptions says how a plain view writes.
type PlainOptions struct {
	Color   bool             // see ColorWanted
	Verbose bool             // every line of output, however many there are
	All     bool             // also what was as configured, or gone already; else it is only counted
	Now     func() time.Time // for "still …" lines
	Tick    <-chan time.Time // when to look for silence, such as once a second
}

// Plain writes a run as one line per event, for pipes and logs of CI systems.
// What is as configured has no line, unless all is to be shown, but counts. What
// takes long is mentioned again from time to time, so that a watchdog does not take
// silence for death.
type Plain struct {
	opts PlainOptions
	pane.Ticks

	mu     sync.Mutex
	out    output
	board  *board
	pulled map[string]time.Time // image: when its progress was last shown
	still  map[*row]time.Time   // when a silent resource was last mentioned
	closed bool

	calls      map[string]*callOutput // by resource: its last call with output
	lastSource string                 // the resource whose output was shown last

	measured  int // rows whose widths are part of name and typ
	name, typ int // how wide the columns are

	unshown int       // resources that ended since a line was written, and of which none was
	written time.Time // when the last line was
}

// NewPlain returns a Plain that writes to w until Close.
func NewPlain(w io.Writer, opts PlainOptions) *Plain {
	p := &Plain{
		opts: opts, out: output{w: w}, board: newBoard(),
		pulled: map[string]time.Time{}, still: map[*row]time.Time{}, calls: map[string]*callOutput{},
	}
	p.Ticks = pane.NewTicks(opts.Tick, p.reportStillBusy)
	return p
}

// Close ends the mentioning of what takes long. It returns the first error of
// writing.
func (p *Plain) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if !closed {
		p.End()
		p.Wait()
	}
	return p.out.err
}

// Observe writes what happened.
func (p *Plain) Observe(e report.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !p.board.fold(e) {
		return
	}
	var lines []string
	if ofCall(e.Kind) {
		lines = p.flushCall(e)
	}
	lines = append(lines, p.lines(e)...)
	for _, line := range lines {
		p.out.write(line + "\n")
	}
	switch {
	case len(lines) > 0:
		p.unshown, p.written = 0, e.Time
	case p.omits(e) && e.Kind == report.ResourceFinished:
		p.unshown++
	}
}

// omits reports whether an event says that a resource was as it is to be, which the verdict
// counts, or that a plan was made, which is shown.
func (p *Plain) omits(e report.Event) bool {
	if e.Kind == report.RunFinished {
		return p.board.planning()
	}
	if p.opts.All {
		return false
	}
	switch e.Kind {
	case report.ResourceResolved:
		return e.Status == report.Valid || e.Status == report.Absent && e.Data["by"] == "" // nobody asked its type
	case report.ResourceFinished:
		return !p.board.row(e.Resource).changed
	default:
		return false
	}
}

func (p *Plain) lines(e report.Event) []string {
	s := terminal.Style(p.opts.Color)
	if p.omits(e) {
		return nil
	}
	switch e.Kind {
	case report.RunStarted:
		p.measured = 0 // their types are known only now
		return []string{s.Bold(p.board.header())}
	case report.ResourceExpanded:
		p.measured = 0 // others stand in the place of one by now
		return nil
	case report.RunFinished, report.RunFailed:
		return p.board.verdict(0, s)
	case report.Warning:
		return []string{p.line(e, s.Yellow("!"), "warning: "+clean(strings.ReplaceAll(e.Text, "\n", "; ")))}
	case report.Leftover:
		return []string{"  " + s.Yellow("!") + " note: " + clean(e.Text)}
	case report.Pulling:
		if last, ok := p.pulled[e.Image]; ok && e.Time.Sub(last) < pullEvery {
			return nil
		}
		p.pulled[e.Image] = e.Time
		return []string{p.line(e, "●", pulling(clean(e.Image), e))}
	case report.Waiting:
		return []string{p.line(e, "…", clean(strings.ReplaceAll(e.Text, "\n", "; ")))}
	case report.Line:
		before, shown := p.showLine(e)
		if !shown {
			return before
		}
		return append(before, p.line(e, s.Dim("│"), clean(e.Text)))
	case report.ResourceResolved:
		return []string{p.line(e, "●", resolution(e))}
	case report.ActionStarted:
		return []string{p.line(e, s.Cyan("●"), doing(e))}
	case report.ActionFinished:
		return []string{p.line(e, "●", "done: "+clean(e.Action)+took(e.Duration))}
	case report.ActionFailed:
		// The reason follows, as that of the resource.
		return p.under(e, s.Red("✘"), actionFailed(e)+took(e.Duration), nil, p.newOutput(e))
	case report.ResourceFinished:
		r := p.board.row(e.Resource)
		return []string{p.line(e, s.Green("✔"), r.doing+took(r.duration))}
	case report.ResourceFailed:
		return p.failed(e, s.Red("✘"))
	case report.ResourceSkipped:
		return []string{p.line(e, s.Yellow("–"), skippedBecause(e))}
	default:
		// The start of a resource or container shows in what follows, or by
		// reportStillBusy when nothing does.
		return nil
	}
}

// failed says that a resource has failed, and why.
func (p *Plain) failed(e report.Event, mark string) []string {
	why := cleanLines(e.Error)
	if len(why) == 0 {
		why = []string{"no reason given"}
	}
	return p.under(e, mark, "failed"+took(p.board.row(e.Resource).duration)+": "+why[0], why[1:], cleanAll(e.Output))
}

// ofCall reports whether events of this kind say that a call has ended, or that
// another begins.
func ofCall(k report.EventKind) bool {
	switch k {
	case report.Line, report.Warning, report.Waiting, report.Pulling:
		return false
	default:
		return true
	}
}

// under is a line with others below it: more of the reason, then output.
func (p *Plain) under(e report.Event, mark, text string, more, output []string) []string {
	lines := []string{p.line(e, mark, text)}
	for _, line := range more {
		lines = append(lines, "      "+line)
	}
	for _, line := range output {
		lines = append(lines, "      │ "+line)
	}
	return lines
}

// line begins with who it is about, aligned as far as names are of usual length.
func (p *Plain) line(e report.Event, mark, text string) string {
	if e.Resource == "" {
		return "  " + mark + " " + text
	}
	return p.about(p.board.row(e.Resource), mark, text)
}

func (p *Plain) about(r *row, mark, text string) string {
	for _, r := range p.board.rows[p.measured:] {
		p.name = max(p.name, ansi.StringWidth(r.name))
		p.typ = max(p.typ, ansi.StringWidth(typeText(r.typ)))
	}
	p.measured = len(p.board.rows)
	return fmt.Sprintf("  %s %s  %s  %s", mark, pad(r.name, min(p.name, maxNames)), pad(typeText(r.typ), p.typ), text)
}

// reportStillBusy mentions active resources without a recent event.
func (p *Plain) reportStillBusy() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.board.ended != nil {
		return
	}
	now := p.opts.Now()
	for _, r := range p.board.rows {
		lastEvent := r.lastEvent
		if last, ok := p.still[r]; ok && last.After(lastEvent) {
			lastEvent = last
		}
		if r.phase != active || now.Sub(lastEvent) < stillEvery {
			continue
		}
		p.still[r] = now
		text := fmt.Sprintf("still busy after %s: %s", seconds(now.Sub(r.since)), r.doing)
		p.out.write(p.about(r, "…", text) + "\n")
		p.unshown, p.written = 0, now
	}
	if p.unshown > 0 && now.Sub(p.written) >= stillEvery {
		p.unshown, p.written = 0, now
		p.out.write(fmt.Sprintf("  … %d of %s done\n", len(p.board.endedRows), phrase.Count(len(p.board.rows), "resource")))
	}
}

func took(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return " (" + seconds(d) + ")"
}

// pad fills text up to a number of cells; longer text stays whole.
func pad(s string, cells int) string {
	return s + strings.Repeat(" ", max(0, cells-ansi.StringWidth(s)))
}
