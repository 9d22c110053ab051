// Package logs is the commands of the deployment log.
package logs

import (
	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
)

// NewCommand returns the commands of the deployment log.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "log",
		Short: "Query the deployment log",
		Long: `Query the deployment log. It is append-only and the only source
of truth: every run of every process on this workspace is in it.`,
		Example: `  deployster log list --deployment 01JD3K…
  deployster log runs --last 10
  deployster log latest resource/db
  deployster log follow --target resource/
  deployster log verify`,
	}
	c.AddCommand(newListCommand(a), newRunsCommand(a), newLatestCommand(a), newFollowCommand(a), newVerifyCommand(a), newExportCommand(a))
	return c
}
