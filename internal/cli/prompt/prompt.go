// Package prompt asks people at the terminal.
package prompt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

// Prompt asks a person at the terminal. While it does, a live view stands
// still.
type Prompt struct {
	app    *app.App
	Screen output.Screen
	in     *bufio.Reader
	Plan   *runner.Plan    // shown again when it is asked for; may be nil
	Each   bool            // every action is asked for, and not whole resources
	agreed map[string]bool // resources of which all actions were agreed to
	quit   bool            // nothing that is still to begin was agreed to
}

// New asks people, while a screen is drawn; it may be nil.
func New(a *app.App, s output.Screen) *Prompt {
	return &Prompt{app: a, Screen: s, in: bufio.NewReader(a.In), agreed: map[string]bool{}}
}

// CanAsk reports whether there is somebody to ask.
func CanAsk(a *app.App) bool {
	return term.IsTerminal(int(a.In.Fd())) && term.IsTerminal(int(a.Out.Fd()))
}

// The keys of answers other than yes and no.
const (
	keyAll  = 'a'
	keyShow = 'p'
	keyQuit = 'q'
)

// choice is an answer that a question takes in addition to yes and no.
type choice struct {
	key  rune
	help string
}

// Confirm implements runner.Confirmer.
func (p *Prompt) Confirm(ctx context.Context, q runner.Question) (bool, error) {
	if p.quit {
		return false, runner.ErrQuit
	}
	if p.agreed[q.Resource] {
		return true, nil
	}
	var choices []choice
	if p.Each {
		choices = append(choices, choice{keyAll, "do it, and all further actions of this resource without a question"})
	}
	if p.Plan != nil {
		choices = append(choices, showPlan)
	}
	choices = append(choices, choice{keyQuit, "quit: decline it and begin nothing more; what is running is finished"})
	key, err := p.choose(ctx, choices, func(w io.Writer, keys string, o view.PlanOptions) error { return view.Question(w, q, keys, o) })
	switch {
	case err != nil:
		return false, err
	case key == keyQuit:
		p.quit = true
		return false, runner.ErrQuit
	case key == keyAll:
		p.agreed[q.Resource] = true
		return true, nil
	}
	return key == 'y', nil
}

var showPlan = choice{keyShow, "show the plan again, with whole values"}

// ConfirmPlan shows a plan and waits for yes or no.
func (p *Prompt) ConfirmPlan(ctx context.Context, plan *runner.Plan) (bool, error) {
	p.Plan = plan
	choices := []choice{showPlan, {keyQuit, "quit, which changes nothing either"}}
	key, err := p.choose(ctx, choices, func(w io.Writer, keys string, o view.PlanOptions) error { return view.PlanQuestion(w, plan, keys, o) })
	return key == 'y', err
}

// Ask shows a question and waits for yes or no.
func (p *Prompt) Ask(ctx context.Context, format string, args ...any) (bool, error) {
	key, err := p.choose(ctx, nil, func(w io.Writer, keys string, _ view.PlanOptions) error {
		return output.Write(w, format+" [%s] ", append(args, keys)...)
	})
	return key == 'y', err
}

// choose shows a question and waits for an answer: the key of one of the
// choices, or y or n. The end of input is no.
func (p *Prompt) choose(ctx context.Context, choices []choice, show func(w io.Writer, keys string, o view.PlanOptions) error) (rune, error) {
	if live, ok := p.Screen.(*view.Live); ok {
		live.Suspend()
		defer live.Resume()
	}
	forget(p.app.In)
	p.in.Reset(p.app.In)
	keys := "y/N"
	for _, c := range choices {
		keys += "/" + string(c.key)
	}
	if len(choices) > 0 {
		keys += "/?"
	}
	if err := show(p.app.Out, keys, p.app.PlanOptions(p.app.Out)); err != nil {
		return 'n', err
	}
	for {
		answer, err := p.read(ctx)
		if err != nil {
			fmt.Fprintln(p.app.Out)
		}
		if errors.Is(err, io.EOF) {
			return 'n', nil // the end of input is not a yes
		}
		if err != nil {
			return 'n', fmt.Errorf("waiting for an answer: %w", err)
		}
		switch key := keyOf(answer, choices); key {
		case keyShow:
			o := p.app.PlanOptions(p.app.Out)
			o.Full = true
			err = view.Plan(p.app.Out, p.Plan, o)
		case '?':
			err = p.help(choices)
		case 0:
		default:
			return key, nil
		}
		if err != nil {
			return 'n', err
		}
		if err := output.Write(p.app.Out, "Please answer [%s] ", keys); err != nil {
			return 'n', err
		}
	}
}

// keyOf is the answer that somebody typed, 0 when it is none.
func keyOf(typed string, choices []choice) rune {
	switch typed = strings.ToLower(strings.TrimSpace(typed)); typed {
	case "y", "yes":
		return 'y'
	case "", "n", "no":
		return 'n'
	}
	if typed == "?" && len(choices) > 0 {
		return '?'
	}
	for _, c := range choices {
		if typed == string(c.key) {
			return c.key
		}
	}
	return 0
}

// help explains the answers.
func (p *Prompt) help(choices []choice) error {
	text := "  y  do it\n  n  decline it, as an empty line and the end of input do\n"
	for _, c := range choices {
		text += fmt.Sprintf("  %c  %s\n", c.key, c.help)
	}
	return output.Write(p.app.Out, "%s", text)
}

// read waits for a line of input or for the context. What was typed before the
// question was there to be read is no answer to it.
func (p *Prompt) read(ctx context.Context) (string, error) {
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

// Agree asks before something irreversible is done. Where nobody can be asked, its
// error says what to pass; a no is an error.
func Agree(ctx context.Context, a *app.App, yes bool, would, format string, args ...any) error {
	if yes {
		return nil
	}
	if a.JSON() || !CanAsk(a) {
		return exit.Usage("%s, and nobody can be asked: say --yes", would)
	}
	agreed, err := New(a, nil).Ask(ctx, format, args...)
	if err == nil && !agreed {
		err = errors.New("declined: nothing was changed")
	}
	return err
}
