package output

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/internal/view/groups"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// Screen shows a run while it goes on.
//
// The zero Screen shows nothing.
type Screen struct {
	runner.Observer            // nil where nothing is shown
	lines           *view.JSON // of a report for programs; else nil
	close           func() error
}

// OpenScreen opens the screen of a command that changes things: NDJSON when asked
// for, a live tree on a terminal, lines elsewhere.
func (p *Printer) OpenScreen(command string) *Screen {
	switch {
	case p.JSON():
		lines := view.NewJSON(p.Out, command, p.Version)
		return &Screen{Observer: lines, close: lines.Close}
	case p.Terminal(p.Out):
		return p.draw(p.Out)
	}
	plain := view.NewPlain(p.Out, view.PlainOptions{Color: p.Color(p.Out), Verbose: p.Verbose, All: p.All, Now: p.Now, Tick: time.Tick(time.Second)})
	return &Screen{Observer: plain, close: plain.Close}
}

// Report opens the screen of a command that only looks, and shows a report in the
// end. How that comes about is printed for programs before it, and drawn for people
// on the terminal of their notices.
func (p *Printer) Report(command string) *Screen {
	s := &Screen{close: func() error { return nil }}
	switch {
	case p.JSON():
		s.lines = view.NewJSON(p.Out, command, p.Version)
		s.Observer = s.lines
	case p.Terminal(p.Err):
		return p.draw(p.Err)
	}
	return s
}

// draw opens a live tree.
func (p *Printer) draw(terminal *os.File) *Screen {
	p.mu.Lock()
	defer p.mu.Unlock()
	live := view.NewLive(terminal, p.liveOptions(terminal))
	p.live = live
	return &Screen{Observer: live, close: func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.live = nil
		return live.Close()
	}}
}

// Show prints a part of a report, in the form for programs or for people.
func (s *Screen) Show(document func(*view.JSON), text func() error) error {
	if s.lines == nil {
		return text()
	}
	document(s.lines)
	return s.lines.Close()
}

// Close ends what is drawn. It returns the first error of writing.
func (s *Screen) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// Suspend takes what is drawn off the terminal until resume is called.
func (p *Printer) Suspend() (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live == nil {
		return func() {}
	}
	p.live.Suspend()
	return p.live.Resume
}

// Notice prints a sentence beside the output.
func (p *Printer) Notice(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live != nil {
		p.live.Observe(report.Event{Kind: report.Waiting, Text: text})
		return
	}
	fmt.Fprintln(p.Err, text)
}

// Notices returns where notices go.
func (p *Printer) Notices() Notices { return p.Notice }

// Notices takes notices, and makes notices of what a logger writes.
type Notices func(text string)

// Write implements io.Writer.
func (n Notices) Write(p []byte) (int, error) {
	n(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// Progress writes to one line of a terminal, from the first second on; "" ends
// it. Elsewhere it writes nothing.
func (p *Printer) Progress(what string) func(string) {
	if !p.Terminal(p.Err) {
		return func(string) {}
	}
	begun, shown := p.Now(), false
	return func(text string) {
		switch {
		case text == "" && shown:
			fmt.Fprint(p.Err, "\r\x1b[K")
		case text != "" && p.Now().Sub(begun) > time.Second:
			shown = true
			fmt.Fprintf(p.Err, "\r\x1b[K%s: %s", what, text)
		}
	}
}

// Terminal reports whether a file is a terminal on which can be drawn.
func (p *Printer) Terminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && p.Getenv("TERM") != "dumb"
}

// Color reports whether a file is to be written in colour.
func (p *Printer) Color(f *os.File) bool {
	return view.ColorWanted(term.IsTerminal(int(f.Fd())), p.Getenv)
}

// size is that of a terminal, in cells; 0 where it is not known.
func size(f *os.File) (width, height int) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

// liveOptions says what a live view draws on.
func (p *Printer) liveOptions(f *os.File) view.LiveOptions {
	return view.LiveOptions{
		Width:  func() int { w, _ := size(f); return w },
		Height: func() int { _, h := size(f); return h },
		Color:  p.Color(f), Verbose: p.Verbose, All: p.All, Now: p.Now, Tick: time.Tick(100 * time.Millisecond),
	}
}

// BoardOptions says what a board of build groups draws on.
func (p *Printer) BoardOptions(f *os.File, source func() ([]query.BuildStatus, int)) groups.BoardOptions {
	o := p.liveOptions(f)
	return groups.BoardOptions{Width: o.Width, Height: o.Height, Color: o.Color, Now: o.Now, Tick: o.Tick, Source: source}
}

// PlanOptions says how a file is written.
func (p *Printer) PlanOptions(f *os.File) view.PlanOptions {
	width, height := size(f)
	if p.All {
		height = 0
	}
	return view.PlanOptions{Color: p.Color(f), Full: p.Full, All: p.All, Width: width, Height: height}
}

// RegisterFull adds the flag of commands whose output cuts long values.
func (p *Printer) RegisterFull(c *cobra.Command) {
	c.Flags().BoolVar(&p.Full, "full", false, "show values whole, however long they are")
}

// RegisterAll adds the flag of commands that show what would change.
func (p *Printer) RegisterAll(c *cobra.Command) {
	c.Flags().BoolVar(&p.All, "all", false, "list also the resources that do not change, which are only counted otherwise")
}

// RegisterWhole adds the flag of commands that show what matters of something large.
func (p *Printer) RegisterWhole(c *cobra.Command) {
	c.Flags().BoolVar(&p.All, "all", false, "show everything, however much it is")
}
