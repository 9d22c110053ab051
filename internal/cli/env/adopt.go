package env

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
)

type adoptOptions struct {
	deployOptions
	from string // a deleted environment of another name
}

func newAdoptCommand(a *app.App) *cobra.Command {
	o := adoptOptions{deployOptions: deployOptions{purpose: "revision to deploy (default: the one that was deployed last; with --from, the newest)", lastGood: true}}
	c := &cobra.Command{
		Use:   "adopt NAME",
		Short: "Have an environment take over what a deleted one left running",
		Long: `Have a deleted environment exist again, with the tasks that it left running when it
was deleted: "env list --orphans" lists them. It is deployed at the revision that was
deployed last, or at --revision: tasks of that which are healthy are not touched,
others are started or terminated as by any deployment. What another environment makes
by now is left to that.

With --from, what a deleted environment of another name left is taken over instead.
NAME exists, and nothing of it is deployed: its newest revision is, or --revision. On
hosts where what was left is what that would make, such as a container of the same
name, it becomes the environment's own: nothing is restarted that is as the revision
says, and what differs, in a variable that reads the name of the environment for
example, has drifted and is repaired within the minimum. What was left elsewhere, or
is called something else there because its name is made of the name of its task,
stays listed: "env clean" terminates it.`,
		Example: `  deployster env list --orphans
  deployster env adopt shop/prod --wait --reason 'deleted by mistake'
  deployster env adopt shop/live --from shop/prod --wait`,
		Args: arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.complete(c, args[0]); err != nil {
				return err
			}
			switch {
			case c.Flags().Changed("from") && o.from == "":
				return exit.Usage("--from is empty: it names the deleted environment that left the tasks")
			case o.from == o.name:
				return exit.Usage("--from %s is the environment itself: without --from, it has what it left", o.from)
			}
			return runAdopt(c.Context(), a, o)
		},
	}
	o.register(c)
	c.Flags().StringVar(&o.from, "from", "", "deleted environment of another name whose tasks are taken over")
	return c
}

func runAdopt(ctx context.Context, a *app.App, o adoptOptions) error {
	names := []string{o.name}
	if o.from != "" {
		names = append(names, o.from)
	}
	return withEnvironments(ctx, a, names, 0, func(e *query.Environments) error {
		r, err := o.adopted(e)
		if err != nil {
			return err
		}
		hosts, identity, err := deployable(ctx, a, r, o.work.Inventory)
		if err != nil {
			return err
		}
		left, err := reconcile.Get(e.Fold, names[len(names)-1], (*environment.State).Report)
		if err != nil {
			return err
		}
		var adoption environment.Command = environment.Adopt{Revision: r.Number, Change: o.change, Hosts: hosts, Inventory: identity, By: app.Whoami(), Reason: o.reason}
		if o.from != "" {
			adoption = environment.AdoptFrom{From: o.from, Revision: r.Number, Change: o.change, Hosts: hosts, Inventory: identity, By: app.Whoami(), Reason: o.reason}
		}
		if o.wait {
			return deployAndWait(ctx, "env adopt", &follower{app: a, environments: e, name: o.name}, adoption, o.work)
		}
		events, err := recordWanted(ctx, a, e, o.name, adoption, o.work)
		if err != nil {
			return err
		}
		defer noticeIdle(a, e, o.name)
		all := len(left.Orphans)
		result := map[string]any{"environment": o.name, "deployment_id": startedBy(events), "revision": r.Number, "tasks": all}
		done := fmt.Sprintf("environment %s exists again at revision %d, with %s that it left", o.name, r.Number, phrase.Count(all, "task"))
		if o.from != "" {
			n := takenOver(events)
			result["from"], result["tasks"], result["left"] = o.from, n, all-n
			done = fmt.Sprintf("environment %s is deployed at revision %d, with %s that environment %s left", o.name, r.Number, phrase.Count(n, "task"), o.from)
			if n < all {
				fmt.Fprintf(a.Err, "note: %s not taken over of what environment %s left: deployster env list --orphans\n", areTasks(all-n), o.from)
			}
		}
		return a.Recorded(result, events, done, "")
	})
}

// adopted is the revision that is deployed.
func (o adoptOptions) adopted(e *query.Environments) (r report.Revision, err error) {
	err = e.Ask(o.name, func(s *environment.State) (err error) {
		switch {
		case o.revision > 0:
			r, err = s.Revision(o.revision)
		case o.from != "" && !s.Exists():
			return exit.Usage("environment %s was deleted: deployster env create makes it anew", o.name)
		case o.from != "":
			r, err = s.Revision(len(s.Revisions()))
		default:
			r, err = s.LastDeployed()
		}
		return err
	})
	return r, err
}

// takenOver is how many tasks of another environment events are about.
func takenOver(events []deploylog.Event) (n int) {
	for _, e := range events {
		if e.Name == record.TasksTaken {
			n += len(record.Taken(e))
		}
	}
	return n
}
