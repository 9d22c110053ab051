package resource

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/picture"
	"github.com/deployster-go/deployster/runner"
)

// staticOptions are those of commands that run nothing.
type staticOptions struct {
	files []string
	input session.Flags
}

// register makes a command one of manifests, which run finds in o.
func (o *staticOptions) register(c *cobra.Command, run func(context.Context) error) {
	o.input.Register(c)
	c.Args = arguments.Manifests
	c.RunE = func(c *cobra.Command, args []string) error {
		o.files = args
		return run(c.Context())
	}
}

// NewGraphCommand returns the command graph.
func NewGraphCommand(a *app.App) *cobra.Command {
	var o staticOptions
	c := &cobra.Command{
		Use:   "graph MANIFEST…",
		Short: "Draw the dependency graph of manifests",
		Long: `Draw the dependency graph of manifests: as a text tree, as Graphviz dot, as
mermaid, as an SVG picture, or as JSON (--output).`,
		Example: `  deployster graph web.yaml
  deployster graph web.yaml --output svg > web.svg
  deployster graph web.yaml --output dot | dot -Tpng > web.png`,
	}
	o.register(c, func(context.Context) error { return runGraph(a, o) })
	return output.Pictures(c)
}

func runGraph(a *app.App, o staticOptions) error {
	in, err := session.LoadAndWarn(a, o.files, o.input, runner.ConfirmAction)
	if err != nil {
		return err
	}
	g := picture.Graph{Title: strings.Join(o.files, " + ")}
	for _, r := range in.Manifest.Resources {
		g.Nodes = append(g.Nodes, picture.Node{ID: r.Name, Label: r.Name, Detail: r.Type})
		for _, name := range in.Manifest.Dependencies(r.Name) {
			g.Edges = append(g.Edges, picture.Edge{From: r.Name, To: name})
		}
	}
	return a.Draw(g)
}

type evalOptions struct {
	value string
	input session.Flags
}

// NewEvalCommand returns the command eval.
func NewEvalCommand(a *app.App) *cobra.Command {
	var o evalOptions
	c := &cobra.Command{
		Use:   "eval VALUE",
		Short: "Evaluate a value as it would stand in a manifest",
		Long: `Evaluate a value as it would stand in a manifest, with the variables that an
apply would have, and print the result as JSON. A value that is one single
{{ … }} keeps its native type; anything else is text.`,
		Example: `  deployster eval '{{ a + b }}' --var a=1 --var b=2
  deployster eval '{% if _verbose %}loud{% else %}quiet{% endif %}'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usage("eval takes one value, in quotes, such as '{{ a + b }}'; it got %d", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			o.value = args[0]
			return runEval(a, o)
		},
	}
	o.input.RegisterVariables(c)
	return c
}

func runEval(a *app.App, o evalOptions) error {
	in, err := session.Variables(a, o.input, runner.ConfirmAction)
	if err != nil {
		return err
	}
	value, err := in.Expressions.Evaluate(o.value, in.Variables)
	if err != nil {
		return exit.Usage("%w", err)
	}
	in.Usage.Examine(in.Expressions, o.value)
	if err := session.WarnUnread(a, in.Usage.Unread(), o.input.Strict); err != nil {
		return err
	}
	return a.Line(value)
}
