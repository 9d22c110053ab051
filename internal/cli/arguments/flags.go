package arguments

import (
	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/exit"
)

// CheckReason checks a reason, which may be empty.
func CheckReason(reason string) error {
	if reason == "" {
		return nil
	}
	return OneLine("--reason", reason)
}

// RegisterReason adds the flag that says why something is done.
func RegisterReason(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "reason", "", "why, for those who read the log")
}

// RegisterInventory adds the flag that names the inventory.
func RegisterInventory(c *cobra.Command, into *string) {
	c.Flags().StringVarP(into, "inventory", "i", "inventory.yaml", "file that lists the hosts")
}

// RegisterYes adds the flag that answers all questions of a command with yes.
func RegisterYes(c *cobra.Command, into *bool) {
	c.Flags().BoolVar(into, "yes", false, "ask no questions")
}

// RegisterLast adds the flag that bounds a list to its newest entries.
func RegisterLast(c *cobra.Command, into *int) {
	c.Flags().IntVar(into, "last", 0, "only the newest N (0 is all)")
}

// CheckLast refuses a wrong value of that flag.
func CheckLast(last int) error {
	if last < 0 {
		return exit.Usage("--last %d: it must not be negative", last)
	}
	return nil
}

// Last is a copy of the newest entries of a list; 0 is all of them.
func Last[T any](list []T, last int) []T {
	if last == 0 || last > len(list) {
		last = len(list)
	}
	return append([]T{}, list[len(list)-last:]...)
}
