package env

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
)

type confirmOptions struct {
	name, inventory, reason string
}

func newConfirmCommand(a *app.App) *cobra.Command {
	var o confirmOptions
	c := &cobra.Command{
		Use:   "confirm NAME",
		Short: "Confirm that an environment loses the hosts that its query no longer selects",
		Long: `Confirm that an environment loses the hosts that its query no longer selects.

When more hosts would leave at once than its max_leaving, an environment keeps them
and their tasks, until the query selects them again or this command confirms that
they are to leave. "env status" shows which they are; where the inventory is another
by now and others would leave, so many that it would keep them, too, it is refused.`,
		Example: "  deployster env confirm shop/prod --reason 'rack 3 is decommissioned'",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = args[0]
			return runConfirm(c.Context(), a, o)
		},
	}
	arguments.RegisterInventory(c, &o.inventory)
	arguments.RegisterReason(c, &o.reason)
	return c
}

func runConfirm(ctx context.Context, a *app.App, o confirmOptions) error {
	return withEnvironment(ctx, a, o.name, func(e *query.Environments) error {
		selects, err := reconcile.Get(e.Fold, o.name, (*environment.State).Query)
		if err != nil {
			return err
		}
		inventory := session.Hosts(ctx, a, o.inventory)
		hosts, err := inventory.Selected(selects)
		if err != nil {
			return exit.Invalid(err)
		}
		things, err := session.Things(ctx, a, session.WorkerFlags{Inventory: o.inventory}, nil)
		if err != nil {
			return err
		}
		e.Identify(things, nil)
		events, err := e.Command(ctx, o.name, environment.ConfirmHosts{Hosts: hosts, Known: inventory.Known, Inventory: inventory.Identity(), By: app.Whoami(), Reason: o.reason})
		if err != nil {
			return err
		}
		defer noticeIdle(a, e, o.name)
		return a.Recorded(map[string]any{"environment": o.name, "hosts": len(hosts)}, events,
			fmt.Sprintf("environment %s goes on with %s", o.name, phrase.Count(len(hosts), "host")), "")
	})
}

// noticeHeld says that an environment keeps hosts that its query does not select.
func noticeHeld(a *app.App, e *query.Environments, name string) {
	held, err := reconcile.Get(e.Fold, name, func(s *environment.State) *report.HeldInfo { return s.Report().Held })
	if err == nil && held != nil {
		fmt.Fprintf(a.Err, "note: the environment keeps its hosts: %s: deployster env confirm %s\n", view.Clean(held.Reason), name)
	}
}
