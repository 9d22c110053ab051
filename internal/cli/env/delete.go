package env

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
)

type deleteOptions struct {
	name                 string
	terminate, yes, wait bool
	leave                bool
	reason               string
	work                 workFlags
}

func newDeleteCommand(a *app.App) *cobra.Command {
	var o deleteOptions
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete an environment",
		Long: `Delete an environment. Its tasks are left running, unmanaged from then on; or they
are terminated first (--terminate-tasks), which "env run" does, or this command
when it waits for the end (--wait). Deleting what was deleted, or is being deleted,
changes nothing: tasks that are being terminated still are. Where they cannot be,
--leave-tasks ends the deletion, and leaves the rest running.`,
		Example: "  deployster env delete shop/old\n  deployster env delete shop/old --terminate-tasks --yes --wait\n  deployster env delete shop/old --leave-tasks --yes     # where that is stuck",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			if o.leave && o.terminate {
				return exit.Usage("--leave-tasks leaves running what --terminate-tasks terminates: say one of them")
			}
			if o.wait && !o.terminate {
				return exit.Usage("--wait is for the end of the tasks: say --terminate-tasks, too")
			}
			o.name = args[0]
			return runDelete(c.Context(), a, o)
		},
	}
	c.Flags().BoolVar(&o.terminate, "terminate-tasks", false, "terminate its tasks first")
	c.Flags().BoolVar(&o.leave, "leave-tasks", false, "leave its tasks running, also where a deletion that terminates them is under way")
	arguments.RegisterYes(c, &o.yes)
	c.Flags().BoolVar(&o.wait, "wait", false, "follow the deletion until the tasks are stopped, and run a controller where none is at work")
	arguments.RegisterReason(c, &o.reason)
	o.work.registerWatch(c)
	return c
}

func runDelete(ctx context.Context, a *app.App, o deleteOptions) error {
	return withEnvironments(ctx, a, []string{o.name}, 0, func(e *query.Environments) error {
		report, err := reconcile.Get(e.Fold, o.name, (*environment.State).Report)
		if err != nil {
			return err
		}
		underWay := report.Deployment != nil && report.Deployment.Kind == record.ByDelete && !o.leave
		o.yes, o.terminate = o.yes || underWay, o.terminate || underWay // which was agreed to
		tasks := 0
		if !report.Deleted {
			if tasks, err = agreeToDelete(ctx, a, report, o); err != nil {
				return err
			}
		}
		deletion := environment.Delete{TerminateTasks: o.terminate, LeaveTasks: o.leave, By: app.Whoami(), Reason: o.reason}
		if o.wait {
			return deployAndWait(ctx, "env delete", &follower{app: a, environments: e, name: o.name}, deletion, o.work)
		}
		if err := engines.Abandon(ctx, e.Log, o.work.Engine.Abandon); err != nil {
			return err
		}
		events, err := e.Command(ctx, o.name, deletion)
		if err != nil {
			return err
		}
		done, left := fmt.Sprintf("environment %s is deleted", o.name), ""
		if tasks > 0 && !o.terminate {
			left = fmt.Sprintf("; %s left running: deployster env clean %s terminates them", areTasks(tasks), o.name)
		}
		switch {
		case startedBy(events) != "", underWay:
			done += " when its tasks are terminated"
			defer noticeIdle(a, e, o.name)
		case len(events) == 0:
			done = fmt.Sprintf("environment %s was deleted before", o.name)
		}
		return a.Recorded(map[string]any{"environment": o.name, "tasks": tasks}, events, done, left)
	})
}

// agreeToDelete asks before an environment is deleted. It returns the number of its
// tasks.
func agreeToDelete(ctx context.Context, a *app.App, report report.Report, o deleteOptions) (tasks int, err error) {
	inv := session.Hosts(ctx, a, o.work.Inventory)
	if _, err := inv.Inventory(); o.terminate && err != nil {
		return 0, exit.Invalid(err)
	}
	var unlisted []string
	for _, h := range report.Hosts {
		if tasks += len(h.Tasks); len(h.Tasks) > 0 && !inv.Known(h.Host) {
			unlisted = append(unlisted, view.Clean(h.Host))
		}
	}
	if o.terminate && len(unlisted) > 0 {
		fmt.Fprintf(a.Err, "note: what runs on %s cannot be terminated, and is left running, unmanaged: %s does not list these hosts\n", strings.Join(unlisted, ", "), o.work.Inventory)
	}
	becomes := "left running, unmanaged"
	if o.terminate {
		becomes = "terminated"
	}
	what := areTasks(tasks) + " " + becomes
	return tasks, prompt.Agree(ctx, a, o.yes, fmt.Sprintf("environment %s would be deleted (%s)", o.name, what), "Delete environment %s (%s)?", o.name, what)
}

// areTasks is how many tasks are something: "1 task is".
func areTasks(n int) string {
	if n == 1 {
		return "1 task is"
	}
	return phrase.Count(n, "task") + " are"
}

// noticeIdle prints a notice where no controller is at work on the environment.
func noticeIdle(a *app.App, e *query.Environments, name string) {
	if !e.Controlled(name) {
		fmt.Fprintf(a.Err, "note: no controller is at work: deployster env run %s\n", name)
	}
}
