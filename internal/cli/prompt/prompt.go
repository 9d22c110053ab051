// Package prompt asks people at the terminal.
package prompt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/report"
)

// Prompt asks a person at the terminal. While it does, a live view stands
// still.
type Prompt struct {
	app    *app.App
	in     *bufio.Reader
	Plan   *report.Plan    // shown again when it is asked for; may be nil
	Each   bool            // every action is asked for, and not whole resources
	agreed map[string]bool // resources of which all actions were agreed to
	quit   bool            // nothing that is still to begin was agreed to
}

// New asks people.
func New(a *app.App) *Prompt {
	return &Prompt{app: a, in: bufio.NewReader(a.In), agreed: map[string]bool{}}
}

// canAsk reports whether there is somebody to ask.
func canAsk(a *app.App) bool {
	return term.IsTerminal(int(a.In.Fd())) && term.IsTerminal(int(a.Out.Fd()))
}

// choice is an answer that a question takes.
type choice struct{ key, help string }

// yesOrNo are the answers that every question takes, also in these words; showPlan is
// one of some.
var (
	words    = map[string]string{"yes": "y", "no": "n", "": "n"}
	yesOrNo  = []choice{{"y", "do it"}, {"n", "decline it, as an empty line and the end of input do"}}
	showPlan = choice{"p", "show the plan again, with whole values"}
)

// Confirm implements runner.Confirmer.
func (p *Prompt) Confirm(ctx context.Context, q runner.Question) (bool, error) {
	if p.quit {
		return false, failure.ErrQuit
	}
	if p.agreed[q.Resource] {
		return true, nil
	}
	var choices []choice
	if p.Each {
		choices = append(choices, choice{"a", "do it, and all further actions of this resource without a question"})
	}
	if p.Plan != nil {
		choices = append(choices, showPlan)
	}
	choices = append(choices, choice{"q", "quit: decline it and begin nothing more; what is running is finished"})
	key, err := p.choose(ctx, choices, func(w io.Writer, keys string, o view.PlanOptions) error { return view.Question(w, q, keys, o) })
	switch {
	case err != nil:
		return false, err
	case key == "q":
		p.quit = true
		return false, failure.ErrQuit
	case key == "a":
		p.agreed[q.Resource] = true
		return true, nil
	}
	return key == "y", nil
}

// ConfirmPlan shows the plan and waits for yes or no.
func (p *Prompt) ConfirmPlan(ctx context.Context) (bool, error) {
	choices := []choice{showPlan, {"q", "quit, which changes nothing either"}}
	key, err := p.choose(ctx, choices, func(w io.Writer, keys string, o view.PlanOptions) error { return view.PlanQuestion(w, p.Plan, keys, o) })
	return key == "y", err
}

// choose shows a question and waits for an answer: y or n, or the key of one of more
// choices. The end of input is no.
func (p *Prompt) choose(ctx context.Context, more []choice, show func(w io.Writer, keys string, o view.PlanOptions) error) (string, error) {
	defer p.app.Suspend()()
	forget(p.app.In)
	p.in.Reset(p.app.In)
	keys := "y/N"
	for _, c := range more {
		keys += "/" + c.key
	}
	if len(more) > 0 {
		keys += "/?"
	}
	choices := slices.Concat(yesOrNo, more)
	if err := show(p.app.Out, keys, p.app.PlanOptions(p.app.Out)); err != nil {
		return "n", err
	}
	for {
		answer, err := p.read(ctx)
		if err != nil {
			fmt.Fprintln(p.app.Out)
		}
		if errors.Is(err, io.EOF) {
			return "n", nil // the end of input is not a yes
		}
		if err != nil {
			return "n", fmt.Errorf("waiting for an answer: %w", err)
		}
		key := strings.ToLower(strings.TrimSpace(answer))
		if letter, word := words[key]; word {
			key = letter
		}
		switch {
		case key == "?" && len(more) > 0:
			for _, c := range choices {
				err = errors.Join(err, output.Write(p.app.Out, "  %s  %s\n", c.key, c.help))
			}
		case !slices.ContainsFunc(choices, func(c choice) bool { return c.key == key }):
		case key == showPlan.key:
			o := p.app.PlanOptions(p.app.Out)
			o.Full = true
			err = view.Plan(p.app.Out, p.Plan, o)
		default:
			return key, nil
		}
		if err != nil {
			return "n", err
		}
		if err := output.Write(p.app.Out, "Please answer [%s] ", keys); err != nil {
			return "n", err
		}
	}
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
	return Ask(ctx, a, would, "say --yes", format, args...)
}

// Ask is Agree with a remedy of its own if nobody can be asked.
func Ask(ctx context.Context, a *app.App, would, remedy, format string, args ...any) error {
	if a.JSON() || !canAsk(a) {
		return exit.Usage("%s, and nobody can be asked: %s", would, remedy)
	}
	key, err := New(a).choose(ctx, nil, func(w io.Writer, keys string, _ view.PlanOptions) error {
		return output.Write(w, format+" [%s] ", append(args, keys)...)
	})
	if err == nil && key != "y" {
		err = errors.New("declined: nothing was changed")
	}
	return err
}

// ConfirmFlags say how often somebody is asked.
type ConfirmFlags struct {
	mode  string
	given func() bool // --confirm was
	yes   bool
}

// Register adds the flags.
func (f *ConfirmFlags) Register(c *cobra.Command) {
	c.Flags().StringVarP(&f.mode, "confirm", "c", string(runner.ConfirmAction), "when to ask: NO, ONCE, RESOURCE or ACTION")
	c.Flags().BoolVar(&f.yes, "yes", false, "ask no questions: --confirm NO")
	f.given = func() bool { return c.Flags().Changed("confirm") }
	_ = c.RegisterFlagCompletionFunc("confirm", cobra.FixedCompletions([]string{"NO", "ONCE", "RESOURCE", "ACTION"}, cobra.ShellCompDirectiveNoFileComp))
}

// Whole are the flags where a server carries out what is confirmed: unless somebody says
// otherwise it is asked for once, as a whole.
func (f ConfirmFlags) Whole() ConfirmFlags {
	if !f.given() {
		f.mode = string(runner.ConfirmOnce)
	}
	return f
}

// Parse reads the flags, of which --yes is another word for --confirm NO.
func (f *ConfirmFlags) Parse() (runner.ConfirmMode, error) {
	switch mode := runner.ConfirmMode(strings.ToUpper(f.mode)); mode {
	case runner.ConfirmNo, runner.ConfirmOnce, runner.ConfirmResource, runner.ConfirmAction:
		if f.yes && f.given() && mode != runner.ConfirmNo {
			return "", exit.Usage("--yes asks no questions and --confirm %s asks some: say one of them", mode)
		}
		if f.yes {
			return runner.ConfirmNo, nil
		}
		return mode, nil
	default:
		return "", exit.Usage("--confirm %s: it must be NO, ONCE, RESOURCE or ACTION", f.mode)
	}
}

// ConfirmMode is how often somebody is asked, where there is anybody.
func ConfirmMode(a *app.App, f ConfirmFlags) (runner.ConfirmMode, error) {
	mode, err := f.Parse()
	if err != nil || mode == runner.ConfirmNo {
		return mode, err
	}
	if a.JSON() {
		return "", exit.Usage("--output json asks no questions: say --yes (or --confirm NO) to go on without them")
	}
	if !canAsk(a) {
		return "", exit.Usage("there is no terminal to ask for confirmation (--confirm %s): say --yes (or --confirm NO) to go on without questions", mode)
	}
	return mode, nil
}
