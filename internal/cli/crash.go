package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/version"
)

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
	return fmt.Sprintf("deployster: %s\ncommand: %s\n", version.Current(), strings.Join(words, " "))
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
