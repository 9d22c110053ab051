package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/manifest"
)

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

// invalidJSON prints the problems of manifests as JSON, where programs read the
// output. It is the same record for all commands.
func invalidJSON(a *app.App, err error) error {
	var invalid *manifest.Error
	if !a.JSON() || !errors.As(err, &invalid) {
		return err
	}
	return errors.Join(exit.Reported(err), a.Show(map[string]any{"type": "problems", "valid": false, "problems": invalid.Problems}, nil))
}

// about is what a report says of a command line: no values.
func about(root *cobra.Command, args []string) string {
	words := []string{"deployster"}
	if c, _, err := root.Find(args); err == nil {
		words = []string{c.CommandPath()}
		for _, arg := range args {
			name, _, _ := strings.Cut(arg, "=")
			if long, ok := strings.CutPrefix(name, "--"); ok && c.Flags().Lookup(long) != nil {
				words = append(words, name)
			}
		}
	}
	return fmt.Sprintf("deployster: %s\ncommand: %s\n", root.Version, strings.Join(words, " "))
}

// given lists the values of variables that a command line gives.
func given(args []string) (values []any) {
	for i, arg := range args {
		rest, isVar := strings.CutPrefix(arg, "--var=")
		if arg == "--var" && i+1 < len(args) {
			rest, isVar = args[i+1], true
		}
		if _, value, ok := strings.Cut(rest, "="); isVar && ok {
			values = append(values, value)
		}
	}
	return values
}
