// Package arguments holds the flags and the checks of arguments that commands of
// several nouns share.
package arguments

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/exit"
)

// Manifests checks that a command has manifests.
func Manifests(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return exit.Usage("which manifest? usage: %s (see %q)", c.UseLine(), c.CommandPath()+" --help")
	}
	return nil
}

// Named checks that the arguments are there that a command names.
func Named(what ...string) cobra.PositionalArgs { return NamedAtLeast(len(what), what...) }

// NamedAtLeast is Named where only so many of them must be there.
func NamedAtLeast(least int, what ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > len(what) {
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

// RegisterReason adds the flag that says why something is done, which is checked
// before the command runs.
func RegisterReason(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "reason", "", "why, for those who read the log")
	c.PreRunE = func(*cobra.Command, []string) error {
		if *into == "" {
			return nil
		}
		return OneLine("--reason", *into)
	}
}

// RegisterInventory adds the flag that names the inventory.
func RegisterInventory(c *cobra.Command, into *string) {
	c.Flags().StringVarP(into, "inventory", "i", "inventory.yaml", "file that lists the hosts")
}

// RegisterYes adds the flag that answers all questions of a command with yes.
func RegisterYes(c *cobra.Command, into *bool) {
	c.Flags().BoolVar(into, "yes", false, "ask no questions")
}

// RegisterLast adds the flag that bounds a list to its newest entries, which is
// checked before the command runs.
func RegisterLast(c *cobra.Command, into *int) {
	c.Flags().IntVar(into, "last", 0, "only the newest N (0 is all)")
	c.PreRunE = func(*cobra.Command, []string) error {
		if *into < 0 {
			return exit.Usage("--last %d: it must not be negative", *into)
		}
		return nil
	}
}

// Last is a copy of the newest entries of a list; 0 is all of them.
func Last[T any](list []T, last int) []T {
	if last == 0 || last > len(list) {
		last = len(list)
	}
	return append([]T{}, list[len(list)-last:]...)
}

// RegisterAt adds the flag that asks for the past.
func RegisterAt(c *cobra.Command, into *int64) {
	c.Flags().Int64Var(into, "at", 0, "as it was right after this event")
}
