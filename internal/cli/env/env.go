// Package env is the commands of environments.
package env

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/query"
)

// NewCommand returns the commands of environments.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "env",
		Aliases: []string{"environment"},
		Short:   "Manage environments and roll out revisions",
		Long: `Manage environments and roll out revisions.

An environment is a task, a query that selects hosts, and a way to deploy. Each
change of it is a revision, which does nothing until it is deployed: that starts
one task per host, at the pace that the deployment configuration allows. "env run"
runs the controller that does so, and that keeps the desired state afterwards:
hosts come and go, tasks die and drift.`,
		Example: `  deployster env create -f prod.yaml
  deployster env deploy shop/prod --revision 1 --wait
  deployster env update shop/prod --base 1 --set task.vars.image=shop:2
  deployster env rollback shop/prod --revision 1 --reason 'drops sessions'
  deployster env status shop/prod
  deployster env run`,
	}
	c.AddCommand(
		newCreateCommand(a), newUpdateCommand(a), newAcceptCommand(a), newDeclineCommand(a), newDeployCommand(a), newRollbackCommand(a), newRestartCommand(a),
		newPauseCommand(a), newResumeCommand(a), newConfirmCommand(a), newPromoteCommand(a), newCordonCommand(a), newUncordonCommand(a), newDrainCommand(a),
		newDeleteCommand(a), newCleanCommand(a), newAdoptCommand(a), newRunCommand(a),
		newStatusCommand(a), newListCommand(a), newRevisionsCommand(a), newShowCommand(a),
		newDiffCommand(a), newHistoryCommand(a), newExplainCommand(a),
	)
	return c
}

// withEnvironments has something done with the environments of the log, see session.AsOf.
func withEnvironments(ctx context.Context, a *app.App, names []string, at int64, do func(*query.Environments) error) error {
	return session.AsOf(ctx, a, query.NewEnvironments, names, at, do)
}

// withEnvironment has something done with one that is not deleted.
func withEnvironment(ctx context.Context, a *app.App, name string, do func(*query.Environments) error) error {
	return withEnvironments(ctx, a, []string{name}, 0, func(e *query.Environments) error {
		if exists, _ := reconcile.Get(e.Fold, name, (*environment.State).Exists); !exists {
			return exit.Usage("environment %s was deleted: deployster env create makes it anew", name)
		}
		return do(e)
	})
}

func newPauseCommand(a *app.App) *cobra.Command {
	return proposing(a, &cobra.Command{
		Use:   "pause NAME",
		Short: "Pause an environment: nothing new begins in it",
		Long: `Pause an environment: nothing new begins in it, until it is resumed or something
is deployed to it. What is being done at the moment is finished.`,
		Example: "  deployster env pause shop/prod --reason 'checkout fails'",
	}, "environment %s is paused", func(reason string) environment.Command {
		return environment.Pause{By: app.Whoami(), Reason: reason}
	})
}

func newResumeCommand(a *app.App) *cobra.Command {
	return proposing(a, &cobra.Command{
		Use:     "resume NAME",
		Short:   "Resume an environment that was paused",
		Example: "  deployster env resume shop/prod",
	}, "environment %s goes on", func(reason string) environment.Command {
		return environment.Resume{By: app.Whoami(), Reason: reason}
	})
}

// proposing makes a command one that has something recorded for a reason, unless the
// environment refuses it.
func proposing(a *app.App, c *cobra.Command, done string, wanted func(reason string) environment.Command) *cobra.Command {
	var reason string
	c.Args = arguments.Named("an environment")
	c.RunE = func(c *cobra.Command, args []string) error {
		return runPropose(c.Context(), a, args[0], wanted(reason), fmt.Sprintf(done, args[0]))
	}
	arguments.RegisterReason(c, &reason)
	return c
}

func runPropose(ctx context.Context, a *app.App, name string, wanted environment.Command, done string) error {
	return withEnvironments(ctx, a, []string{name}, 0, func(e *query.Environments) error {
		events, err := e.Command(ctx, name, wanted)
		if err != nil {
			return err
		}
		return a.Recorded(map[string]any{"environment": name}, events, done, "")
	})
}
