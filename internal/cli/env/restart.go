package env

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/query"
)

func newRestartCommand(a *app.App) *cobra.Command {
	o := deployOptions{active: true}
	c := &cobra.Command{
		Use:   "restart NAME [HOST…]",
		Short: "Start the tasks of the active revision anew",
		Long: `Start the tasks of the active revision anew, on all hosts or on those that are
named: each is terminated and started again, as in a deployment of the revision, with
its minimum and deadlines. With the method Surge, too, one is terminated before it is
started, for two tasks of one revision cannot be on a host: where the minimum is all
hosts, say --min-healthy-percent or --max-unavailable. Cordoned hosts are passed over.
Hosts that are named are restarted without the steps of the configuration.

The command sets the desired state; see "env deploy", also for --wait.`,
		Example: `  deployster env restart shop/prod --reason 'it leaks' --wait
  deployster env restart shop/prod web7 --max-unavailable 1`,
	}
	o.register(c)
	c.Args = func(c *cobra.Command, args []string) error {
		what := []string{"an environment"}
		for range len(args) - 1 {
			what = append(what, "a host")
		}
		return arguments.Named(what...)(c, args)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := o.complete(c, args[0]); err != nil {
			return err
		}
		return runDeploy(c.Context(), a, o, func(o deployOptions, hosts []string) environment.Command {
			return environment.Restart{Only: args[1:], Change: o.change, Hosts: hosts, Inventory: o.selectedIn, By: app.Whoami(), Reason: o.reason}
		})
	}
	return c
}

// activeRevision is the revision that is deployed.
func activeRevision(e *query.Environments, name string) (int, error) {
	d, err := reconcile.Get(e.Fold, name, func(s *environment.State) report.Deployment {
		d, _ := s.ActiveDeployment()
		return d
	})
	if err == nil && d.Revision == 0 {
		err = fmt.Errorf("nothing of environment %s is deployed: there is nothing to restart", name)
	}
	return d.Revision, err
}
