package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/runner"
)

func (a *app) evalCommand() *cobra.Command {
	var flags inputFlags
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
				return usage("eval takes one value, in quotes, such as '{{ a + b }}'; it got %d", len(args))
			}
			return nil
		}),
		RunE: func(_ *cobra.Command, args []string) error {
			in, err := a.variables(flags, runner.ConfirmAction)
			if err != nil {
				return err
			}
			value, err := in.Expressions.Evaluate(args[0], in.Variables)
			if err != nil {
				return usage("%w", err)
			}
			in.Usage.Examine(in.Expressions, args[0])
			if err := a.heed(in.Usage.Unread(), flags.strict); err != nil {
				return err
			}
			text, err := json.Marshal(value)
			if err != nil {
				return fmt.Errorf("encoding the result: %w", err)
			}
			return write(a.out, "%s\n", text)
		},
	}
	flags.registerVariables(c)
	return c
}
