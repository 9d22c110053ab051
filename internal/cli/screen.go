package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

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
	s = view.NewPlain(out, view.PlainOptions{Color: a.color(out), Now: a.now, Tick: tick.C})
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
		Color:  a.color(out), Verbose: a.global.verbose, Now: a.now, Tick: tick.C,
	}, tick
}

func (a *app) terminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && a.getenv("TERM") != "dumb"
}

func (a *app) color(f *os.File) bool {
	return view.ColorWanted(term.IsTerminal(int(f.Fd())), a.getenv)
}

func (a *app) planOptions(f *os.File) view.PlanOptions {
	opts := view.PlanOptions{Color: a.color(f)}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil {
		opts.Width = w
	}
	return opts
}

// prompt asks a person at the terminal. While it does, a live view stands
// still.
type prompt struct {
	app    *app
	screen screen
	in     *bufio.Reader
}

func (a *app) prompt(s screen) *prompt { return &prompt{app: a, screen: s, in: bufio.NewReader(a.in)} }

// canAsk tells whether there is somebody to ask.
func (a *app) canAsk() bool {
	return term.IsTerminal(int(a.in.Fd())) && term.IsTerminal(int(a.out.Fd()))
}

// Confirm shows a question and waits for yes or no.
func (p *prompt) Confirm(ctx context.Context, q runner.Question) (bool, error) {
	return p.ask(ctx, func(w io.Writer, o view.PlanOptions) error { return view.Question(w, q, o) })
}

// ConfirmPlan shows a plan and waits for yes or no.
func (p *prompt) ConfirmPlan(ctx context.Context, plan *runner.Plan) (bool, error) {
	return p.ask(ctx, func(w io.Writer, o view.PlanOptions) error { return view.PlanQuestion(w, plan, o) })
}

func (p *prompt) ask(ctx context.Context, show func(io.Writer, view.PlanOptions) error) (bool, error) {
	if live, ok := p.screen.(*view.Live); ok {
		live.Suspend()
		defer live.Resume()
	}
	forget(p.app.in)
	p.in.Reset(p.app.in)
	if err := show(p.app.out, p.app.planOptions(p.app.out)); err != nil {
		return false, err
	}
	for {
		answer, err := p.read(ctx)
		if err != nil {
			fmt.Fprintln(p.app.out)
		}
		if errors.Is(err, io.EOF) {
			return false, nil // the end of input is not a yes
		}
		if err != nil {
			return false, fmt.Errorf("waiting for an answer: %w", err)
		}
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return true, nil
		case "", "n", "no":
			return false, nil
		}
		if err := write(p.app.out, "Please answer yes or no [y/N] "); err != nil {
			return false, err
		}
	}
}

// read waits for a line of input or for the context. What was typed before the
// question was there to be read is no answer to it.
func (p *prompt) read(ctx context.Context) (string, error) {
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := p.in.ReadString('\n')
		read <- line{text, err}
	}()
	select {
	case l := <-read:
		return l.text, l.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
