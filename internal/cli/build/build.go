// Package build holds the commands of build groups: graphs of packages that are rebuilt
// together.
package build

import (
	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
)

// NewCommand returns the command build.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "build",
		Short: "Rebuild packages and all that depends on them",
		Long: `Rebuild packages and all that depends on them, in an order in which each uses
what was built before it, though packages may need each other.`,
	}
	c.AddCommand(
		newPlanCommand(a), newSubmitCommand(a), newRunCommand(a), newListCommand(a), newStatusCommand(a), newJobsCommand(a), newLogsCommand(a), newShowCommand(a),
		newExplainCommand(a), newForecastCommand(a), newCancelCommand(a), newRetryCommand(a),
	)
	return c
}
