package output

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/deployster-go/deployster/internal/cli/version"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

// Screen is what a run is shown on.
type Screen interface {
	runner.Observer
	Close() error
}

// OpenScreen opens the view that fits the output: NDJSON when asked for, a live
// tree on a terminal, lines elsewhere. close stops its clock.
func (p *Printer) OpenScreen(out *os.File, command string) (s Screen, close func() error) {
	if p.JSON() && out == p.Out {
		s = view.NewJSON(out, command, version.Current())
		return s, s.Close
	}
	if p.Terminal(out) {
		o, tick := p.Live(out)
		s = view.NewLive(out, o)
		return s, func() error { defer tick.Stop(); return s.Close() }
	}
	tick := time.NewTicker(time.Second)
	s = view.NewPlain(out, view.PlainOptions{Color: p.Color(out), Verbose: p.Verbose, Now: p.Now, Tick: tick.C})
	return s, func() error { defer tick.Stop(); return s.Close() }
}

// Live says what a live view draws on, with the clock that is to be stopped when
// it is closed.
func (p *Printer) Live(out *os.File) (view.LiveOptions, *time.Ticker) {
	tick := time.NewTicker(100 * time.Millisecond)
	size := func() (int, int) {
		w, h, err := term.GetSize(int(out.Fd()))
		if err != nil {
			return 0, 0
		}
		return w, h
	}
	return view.LiveOptions{
		Width:  func() int { w, _ := size(); return w },
		Height: func() int { _, h := size(); return h },
		Color:  p.Color(out), Verbose: p.Verbose, All: p.All, Now: p.Now, Tick: tick.C,
	}, tick
}

// Terminal reports whether a file is a terminal on which can be drawn.
func (p *Printer) Terminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && p.Getenv("TERM") != "dumb"
}

// Color reports whether a file is to be written in colour.
func (p *Printer) Color(f *os.File) bool {
	return view.ColorWanted(term.IsTerminal(int(f.Fd())), p.Getenv)
}

// PlanOptions says how a file is written.
func (p *Printer) PlanOptions(f *os.File) view.PlanOptions {
	opts := view.PlanOptions{Color: p.Color(f), Full: p.Full, All: p.All}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil {
		opts.Width = w
	}
	return opts
}

// RegisterFull adds the flag of commands whose output cuts long values.
func (p *Printer) RegisterFull(c *cobra.Command) {
	c.Flags().BoolVar(&p.Full, "full", false, "show values whole, however long they are")
}

// RegisterAll adds the flag of commands that show what would change.
func (p *Printer) RegisterAll(c *cobra.Command) {
	c.Flags().BoolVar(&p.All, "all", false, "list also the resources that do not change")
}
