package arguments

import (
	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/exit"
)

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
