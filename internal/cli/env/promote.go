package env

import (
	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
)

func newPromoteCommand(a *app.App) *cobra.Command {
	return proposing(a, &cobra.Command{
		Use:   "promote NAME",
		Short: "Let a deployment go on that waits after one of its steps",
		Long: `Let a deployment go on that waits after one of its steps (deployment.steps), at once
also where it would wait for some time. The hosts of the step must be healthy.`,
		Example: "  deployster env promote shop/prod --reason 'no errors in an hour'",
	}, "environment %s goes on with the next step", func(reason string) environment.Command {
		return environment.Promote{By: app.Whoami(), Reason: reason}
	})
}
