package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
)

// helpCommand is that of cobra, but that what is no command is wrong usage.
func helpCommand(a *app.App, root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND…]",
		Short:   "Show the help of a command",
		Example: "  deployster help pipeline apply",
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if c == nil {
				c, rest = root, args
			}
			if err != nil || len(rest) > 0 {
				typed := args[len(args)-max(len(rest), 1)]
				return exit.Usage("there is no command %q%s", strings.Join(args, " "), arguments.Suggestion(c, typed))
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			c, _, err := root.Find(args)
			if err != nil || c == nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, below := range c.Commands() {
				if below.IsAvailableCommand() && strings.HasPrefix(below.Name(), typed) {
					names = append(names, cobra.CompletionWithDesc(below.Name(), below.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// flagText is what is wrong with a flag, in words for those who do not know the
// language that the program is written in.
func flagText(err error) string {
	var number *strconv.NumError
	cause, words := errors.Unwrap(err), ""
	switch {
	case errors.As(err, &number) && errors.Is(err, strconv.ErrRange):
		words = "the number is too large"
	case errors.As(err, &number) && number.Func == "ParseBool":
		words = "it must be true or false"
	case errors.As(err, &number) && number.Func == "ParseFloat":
		words = "it must be a number"
	case errors.As(err, &number):
		words = "it must be a whole number"
	case cause != nil && strings.HasPrefix(cause.Error(), "time: "):
		words = "it must be a duration, such as 30s, 5m or 1h30m"
	default:
		return err.Error()
	}
	return strings.TrimSuffix(err.Error(), cause.Error()) + words
}
