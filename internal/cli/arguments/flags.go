package arguments

import "github.com/spf13/cobra"

// CheckReason checks a reason, which may be empty.
func CheckReason(reason string) error {
	if reason == "" {
		return nil
	}
	return OneLine("--reason", reason)
}

func RegisterReason(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "reason", "", "why, for those who read the log")
}

func RegisterInventory(c *cobra.Command, into *string) {
	c.Flags().StringVarP(into, "inventory", "i", "inventory.yaml", "file that lists the hosts")
}

func RegisterAt(c *cobra.Command, into *int64) {
	c.Flags().Int64Var(into, "at", 0, "as it was right after this event")
}

// RegisterYes adds the flag that answers all questions of a command with yes.
func RegisterYes(c *cobra.Command, into *bool) {
	c.Flags().BoolVar(into, "yes", false, "ask no questions")
}
