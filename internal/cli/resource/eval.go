package resource

import (
	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/runner"
)

// NewEvalCommand returns the command eval.
func NewEvalCommand(a *app.App) *cobra.Command {
	var flags session.Flags
	c := &cobra.Command{
		Use:   "eval VALUE",
		Short: "Evaluate a value as it would stand in a manifest",
		Long: `Evaluate a value as it would stand in a manifest, with the variables that an
apply would have, and print the result as JSON. A value that is one single
{{ … }} keeps its native type; anything else is text.`,
		Example: `  deployster eval '{{ a + b }}' --var a=1 --var b=2
  deployster eval '{% if _verbose %}loud{% else %}quiet{% endif %}'`,
		Args: cobra.MatchAll(func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usage("eval takes one value, in quotes, such as '{{ a + b }}'; it got %d", len(args))
			}
			return nil
		}),
		RunE: func(_ *cobra.Command, args []string) error {
			in, err := session.Variables(a, flags, runner.ConfirmAction)
			if err != nil {
				return err
			}
			value, err := in.Expressions.Evaluate(args[0], in.Variables)
			if err != nil {
				return exit.Usage("%w", err)
			}
			in.Usage.Examine(in.Expressions, args[0])
			if err := session.WarnUnread(a, in.Usage.Unread(), flags.Strict); err != nil {
				return err
			}
			return a.Line(value)
		},
	}
	flags.RegisterVariables(c)
	return c
}
