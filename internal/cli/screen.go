package cli

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

// screen is what a run is shown on.
type screen interface {
	runner.Observer
	Close() error
}

// screen opens the view that fits the output: NDJSON when asked for, a live
// tree on a terminal, lines elsewhere. close stops its clock.
func (a *app) screen(out *os.File, command string, asJSON bool) (s screen, close func() error) {
	if asJSON {
		s = view.NewJSON(out, command, version())
		return s, s.Close
	}
	if a.terminal(out) {
		o, tick := a.live(out)
		s = view.NewLive(out, o)
		return s, func() error { defer tick.Stop(); return s.Close() }
	}
	tick := time.NewTicker(time.Second)
	s = view.NewPlain(out, view.PlainOptions{Color: a.color(out), Verbose: a.global.verbose, Now: a.now, Tick: tick.C})
	return s, func() error { defer tick.Stop(); return s.Close() }
}

// live says what a live view draws on, with the clock that is to be stopped when
// it is closed.
func (a *app) live(out *os.File) (view.LiveOptions, *time.Ticker) {
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
		Color:  a.color(out), Verbose: a.global.verbose, All: a.all, Now: a.now, Tick: tick.C,
	}, tick
}

func (a *app) terminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && a.getenv("TERM") != "dumb"
}

func (a *app) color(f *os.File) bool {
	return view.ColorWanted(term.IsTerminal(int(f.Fd())), a.getenv)
}

func (a *app) planOptions(f *os.File) view.PlanOptions {
	opts := view.PlanOptions{Color: a.color(f), Full: a.full, All: a.all}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil {
		opts.Width = w
	}
	return opts
}

// registerFull adds the flag of commands whose output cuts long values.
func (a *app) registerFull(c *cobra.Command) {
	c.Flags().BoolVar(&a.full, "full", false, "show values whole, however long they are")
}

// registerAll adds the flag of commands that show what would change.
func (a *app) registerAll(c *cobra.Command) {
	c.Flags().BoolVar(&a.all, "all", false, "list also the resources that do not change")
}
