// Package arguments holds the flags and the checks of arguments that commands of
// several nouns share.
package arguments

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/suggest"
)

// Manifests checks that a command has manifests.
func Manifests(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return exit.Usage("which manifest? usage: %s (see %q)", c.UseLine(), c.CommandPath()+" --help")
	}
	return nil
}

// Suggestion is the command that was meant, or where to look.
func Suggestion(c *cobra.Command, typed string) string {
	var names, begun []string
	for _, below := range c.Commands() {
		if !below.IsAvailableCommand() {
			continue
		}
		names = append(append(names, below.Name()), below.Aliases...)
		if typed != "" && strings.HasPrefix(below.Name(), typed) {
			begun = append(begun, below.Name())
		}
	}
	meant := suggest.Closest(typed, names)
	if meant == "" && len(begun) == 1 {
		meant = begun[0]
	}
	if meant == "" {
		return fmt.Sprintf("; see %q", c.CommandPath()+" --help")
	}
	return fmt.Sprintf("; did you mean %q?", meant)
}

// NoSuchSubcommand refuses arguments of a command that only groups others.
func NoSuchSubcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return exit.Usage("%q is not a command of %q%s", args[0], c.CommandPath(), Suggestion(c, args[0]))
}

// Named checks that the arguments are there that a command names.
func Named(what ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != len(what) {
			return exit.Usage("%s takes %s, in this order: %s", c.CommandPath(), strings.Join(what, ", "), c.UseLine())
		}
		for i, arg := range args {
			if err := OneLine(what[i], arg); err != nil {
				return err
			}
		}
		return nil
	}
}

// longestText is how long a name, reason or reference may be, in bytes.
const longestText = 1000

// OneLine refuses a text that must not enter the log as a name, reason or reference.
func OneLine(what, text string) error {
	switch {
	case text == "":
		return exit.Usage("%s must not be empty", what)
	case len(text) > longestText:
		return exit.Usage("%s has %d bytes; at most %d are possible", what, len(text), longestText)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return exit.Usage("%s %q must be one line of UTF-8 text", what, text)
	}
	return nil
}
