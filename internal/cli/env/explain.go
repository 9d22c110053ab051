package env

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
)

func newExplainCommand(a *app.App) *cobra.Command {
	var at int64
	var path string
	c := &cobra.Command{
		Use:   "explain TARGET",
		Short: "Explain why a target of an environment is pending or blocked",
		Long: `Explain why everything at or below a target that is not in its desired state is
pending or blocked: with the event that is responsible, and what would change it.

TARGET is an environment, or a target of one as the log has it:
  shop/prod, environment/shop/prod, task/shop/prod/2/antworker001`,
		Example: "  deployster env explain shop/prod\n  deployster env explain task/shop/prod/2/antworker001",
		Args:    arguments.Named("a target"),
		RunE: func(c *cobra.Command, args []string) error {
			t := deploylog.Target(args[0])
			if _, ok := record.NameOf(t); !ok {
				t = record.Target(args[0])
			}
			return Explain(c.Context(), a, t, path, at)
		},
	}
	arguments.RegisterAt(c, &at)
	arguments.RegisterInventory(c, &path)
	a.RegisterWhole(c)
	return c
}

// Explain prints why an environment or a task is not as it is to be, as it was
// right after an event; 0 is now.
func Explain(ctx context.Context, a *app.App, t deploylog.Target, inventory string, at int64) error {
	return withEnvironments(ctx, a, nil, at, func(e *query.Environments) error {
		here := work.NewHosts(inventory)
		reasons, err := e.Explain(t, here.Identity(), at == 0)
		if err != nil {
			return err
		}
		if name, _ := record.NameOf(t); at == 0 && t == record.Target(name) {
			identify(a, e, inventory)
			if left := leftOut(e, name, here); left != nil {
				reasons = append(reasons, reason.Reason{Target: string(t), Code: reason.HostsLeftOut, Message: left.Cause, Change: freed})
			}
		}
		alike := query.AlikeTasks(reasons, a.All)
		bounded := query.Bounded{All: a.All}
		document := map[string]any{"target": t, "event": e.Head(), "reasons": query.BoundTasks(&bounded, "reasons", alike)}
		return a.Show(bounded.In(document),
			func() error { return view.EnvironmentReasons(a.Out, t, alike, a.PlanOptions(a.Out)) })
	})
}
