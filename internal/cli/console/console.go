// Package console is the command console: it evaluates expressions over what manifests
// declare, as runs saw it last.
package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/deployster-go/deployster/control/observed"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/invoke"
)

type options struct {
	files       []string
	expressions []string
	input       session.Flags
}

// NewCommand returns the command.
func NewCommand(a *app.App) *cobra.Command {
	o := options{input: session.Flags{Static: true}}
	c := &cobra.Command{
		Use:   "console [MANIFEST…]",
		Short: "Evaluate expressions over variables, states and outputs",
		Long: `Evaluate expressions, one a line, over the variables and resources of manifests,
and print their values as JSON. Nothing is run or changed.

A resource is known by its name, with dashes as underscores, and one with
for_each is a mapping by key: it has name, type and state, as the last run saw it
that found it well. A module is known by its name, and has its outputs. The outputs of what was applied last are in "outputs". What
is secret is masked. A line that has {{ or {% is taken as it would stand in a
manifest, any other one as what stands between {{ and }}.

On a terminal Ctrl-D ends it, and Ctrl-C clears the line. Elsewhere the first
expression that has no value ends it, with exit code 1.`,
		Example: `  deployster console web.yaml
  echo 'index.state.path' | deployster console web.yaml
  deployster console web.yaml -e 'index.state.size > 100' -e 'outputs.url'`,
		RunE: func(c *cobra.Command, args []string) error {
			o.files = args
			return run(c.Context(), a, o)
		},
	}
	c.Args = cobra.ArbitraryArgs
	o.input.RegisterValues(c)
	c.Flags().StringArrayVarP(&o.expressions, "expression", "e", nil, "evaluate this, and read no lines (repeatable)")
	return c
}

func run(ctx context.Context, a *app.App, o options) error {
	if err := a.Local(); err != nil {
		return err
	}
	var in *work.Input
	var err error
	if len(o.files) > 0 {
		in, err = session.LoadAndWarn(a, o.files, o.input, runner.ConfirmAction)
	} else {
		in, err = session.Variables(a, o.input, runner.ConfirmAction)
	}
	if err != nil {
		return err
	}
	err = a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		return converse(ctx, a, o, newScope(in, recorded(a, log, in, o.files)))
	})
	if errors.Is(err, app.ErrNoLog) {
		return converse(ctx, a, o, newScope(in, without(a, err)))
	}
	return err
}

// recorded are the sources of a workspace in whose log runs have recorded something.
func recorded(a *app.App, log deploylog.Log, in *work.Input, files []string) sources {
	target := deploylog.Target("run/")
	if len(files) > 0 {
		target = runs.RunTarget(a.Workspace, files)
	}
	states := observed.States{Log: log, Work: filepath.Join(a.Workspace, engine.StateDir, "work")}
	if len(files) > 0 {
		of := in.Owner()
		states.Of = &of
	}
	return sources{state: states.Last, note: note(a), outputs: func(ctx context.Context) (map[string]any, error) {
		all, err := query.LastOutputs(ctx, log, target)
		if err != nil {
			return nil, err
		}
		values := make(map[string]any, len(all.Outputs))
		for name, one := range all.Outputs {
			if values[name] = one.Value; one.Secret {
				values[name] = invoke.Masked
			}
		}
		return values, nil
	}}
}

// without are the sources of a workspace without a log.
func without(a *app.App, why error) sources {
	return sources{
		note: note(a),
		state: func(_ context.Context, resource string) (map[string]any, error) {
			return nil, fmt.Errorf("%s: %w: %w", resource, observed.ErrUnknown, why)
		},
		outputs: func(context.Context) (map[string]any, error) { return nil, why },
	}
}

func note(a *app.App) func(string) {
	return func(text string) { fmt.Fprintf(a.Err, "note: %s\n", view.Clean(text)) }
}

// errNoValue is how the command says that an expression has no value, which is said already.
var errNoValue = errors.New("an expression has no value")

// converse evaluates what is asked.
func converse(ctx context.Context, a *app.App, o options, s *scope) error {
	if len(o.expressions) > 0 {
		for _, text := range o.expressions {
			err := answer(ctx, a, s, text)
			switch {
			case errors.Is(err, errNoValue):
				return exit.Reported(err)
			case err != nil:
				return err
			}
		}
		return nil
	}
	lines := newLines(a.In)
	interactive := term.IsTerminal(int(a.In.Fd())) && term.IsTerminal(int(a.Out.Fd()))
	if interactive {
		defer lines.prompt(a.Out)()
	}
	for {
		text, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = answer(ctx, a, s, text)
		} else if errors.Is(err, errTooLong) {
			fmt.Fprintf(a.Err, "error: %s\n", err)
			err = errNoValue
		}
		switch {
		case errors.Is(err, errNoValue) && !interactive:
			return exit.Reported(err)
		case err != nil && !errors.Is(err, errNoValue):
			return err
		}
	}
}

// answer evaluates a line, and prints its value, or why it has none.
func answer(ctx context.Context, a *app.App, s *scope, text string) error {
	text = strings.TrimRight(text, " \t\r")
	if strings.TrimSpace(text) == "" {
		return nil
	}
	template, before := text, 0
	if !expression.IsTemplate(text) {
		const opening = "{{ "
		template, before = opening+text+" }}", len(opening)
	}
	value, err := s.evaluate(ctx, template)
	if err != nil {
		f := faultOf(err, text, before)
		fmt.Fprintf(a.Err, "error: %s%s\n%s", f.where(), view.Clean(s.secrets.Mask(f.message)), f.point(text))
		return errNoValue
	}
	if a.JSON() {
		return a.Line(map[string]any{"value": value})
	}
	shown, err := written(value)
	if err != nil {
		return err
	}
	return output.Write(a.Out, "%s\n", shown)
}

// written is a value as JSON in lines, safe to print.
func written(value any) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return "", fmt.Errorf("writing the value: %w", err)
	}
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	for i, line := range lines {
		lines[i] = terminal.Scrub(line)
	}
	return strings.Join(lines, "\n"), nil
}
