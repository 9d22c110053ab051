package env

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
)

type deployOptions struct {
	name                       string
	command                    string // as it is typed
	purpose                    string // of --revision
	lastGood                   bool   // without --revision it is the last good one
	active                     bool   // it is the active one
	meansLastGood              bool   // and it was not given
	revision                   int
	method                     string
	minHealthyPercent, maxOver int
	maxUnavailable, maxSurge   string
	change                     record.Change // of the deployment configuration, for this deployment
	reason                     string
	wait                       bool
	selectedIn                 string // the inventory of the hosts
	work                       workFlags
}

func (o *deployOptions) register(c *cobra.Command) {
	flags := c.Flags()
	flags.IntVar(&o.minHealthyPercent, "min-healthy-percent", 0, "for this deployment: how many of the hosts keep a healthy task, in percent")
	flags.StringVar(&o.maxUnavailable, "max-unavailable", "", "for this deployment: how many hosts may be without a healthy task, such as 2 or 10%")
	flags.BoolVar(&o.wait, "wait", false, "follow the deployment to its end, and run a controller where none is at work")
	arguments.RegisterReason(c, &o.reason)
	o.work.registerWatch(c)
	if o.active {
		return
	}
	flags.IntVar(&o.revision, "revision", 0, o.purpose)
	flags.StringVar(&o.method, "method", "", "for this deployment: Replace or Surge")
	flags.IntVar(&o.maxOver, "max-over", 0, "for this deployment: how many hosts have two tasks at once, at most (Surge)")
	flags.StringVar(&o.maxSurge, "max-surge", "", "for this deployment: how many hosts have two tasks at once, at most, such as 2 or 10% (Surge)")
	_ = c.RegisterFlagCompletionFunc("method", cobra.FixedCompletions([]string{string(definition.Replace), string(definition.Surge)}, cobra.ShellCompDirectiveNoFileComp))
}

// complete reads the arguments and flags.
func (o *deployOptions) complete(c *cobra.Command, name string) error {
	o.name, o.command = name, c.Parent().Name()+" "+c.Name()
	switch given := c.Flags().Changed("revision"); {
	case !given && (o.lastGood || o.active):
	case given && o.revision < 1:
		return exit.Usage("--revision %d: revisions are numbered from 1", o.revision)
	case !given:
		return exit.Usage("which revision? say --revision N: deployster env revisions %s lists them", name)
	}
	if err := o.work.check(); err != nil {
		return err
	}
	for _, pair := range [][2]string{{"min-healthy-percent", "max-unavailable"}, {"max-over", "max-surge"}} {
		if c.Flags().Changed(pair[0]) && c.Flags().Changed(pair[1]) {
			return exit.Usage("--%s and --%s are two ways to say the same: give one of them", pair[0], pair[1])
		}
	}
	if c.Flags().Changed("method") {
		for _, known := range []definition.Method{definition.Replace, definition.Surge} {
			if strings.EqualFold(o.method, string(known)) {
				o.change.Method = &known
			}
		}
		if o.change.Method == nil {
			return exit.Usage("--method %s: it must be Replace or Surge", o.method)
		}
	}
	if c.Flags().Changed("min-healthy-percent") {
		if o.minHealthyPercent < 0 || o.minHealthyPercent > 100 {
			return exit.Usage("--min-healthy-percent %d: it must be from 0 to 100", o.minHealthyPercent)
		}
		o.change.MinHealthyPercent = &o.minHealthyPercent
	}
	if c.Flags().Changed("max-over") {
		if o.maxOver < 1 {
			return exit.Usage("--max-over %d: it must be at least 1", o.maxOver)
		}
		o.change.MaxOver = &o.maxOver
	}
	return errors.Join(
		readBudget(c, "max-unavailable", o.maxUnavailable, &o.change.MaxUnavailable),
		readBudget(c, "max-surge", o.maxSurge, &o.change.MaxSurge),
	)
}

// readBudget reads a flag that is a count or a percentage of hosts, if it is given.
func readBudget(c *cobra.Command, flag, text string, to **budget.Budget) error {
	if !c.Flags().Changed(flag) {
		return nil
	}
	b, err := budget.Parse(text)
	if err != nil {
		return exit.Usage("--%s: %w", flag, err)
	}
	*to = &b
	return nil
}

// deploying makes a command one that starts a deployment.
func deploying(a *app.App, c *cobra.Command, o deployOptions, wanted func(o deployOptions, hosts []string) environment.Command) *cobra.Command {
	c.Args = arguments.Named("an environment")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := o.complete(c, args[0]); err != nil {
			return err
		}
		return runDeploy(c.Context(), a, o, wanted)
	}
	o.register(c)
	return c
}

func newDeployCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "deploy NAME --revision N",
		Short: "Deploy a revision of an environment",
		Long: `Deploy a revision: this starts one task per host that its query selects, stops
those of other revisions, and resumes a paused environment. The deployment
configuration of the revision sets the pace, or the flags do, for this deployment.
"env rollback" goes back to an older revision.

The command sets the desired state; the controller ("env run") reconciles it. With
--wait the command follows the deployment, and runs a controller itself where none
is at work; what containers and manifests are given (--var, --pull and so on) is
for that. It ends with 0 when the desired state is reached, and with 1 when the
deployment is stuck or superseded by another revision; where the same revision is
deployed again, the command follows that deployment. Interrupted, it finishes what
it has begun; the deployment stays active, and "env run" continues it.`,
		Example: `  deployster env deploy shop/prod --revision 2
  deployster env deploy shop/prod --revision 2 --wait --reason 'new checkout'
  deployster env deploy shop/prod --revision 2 --min-healthy-percent 50`,
	}
	return deploying(a, c, deployOptions{purpose: "revision to deploy"}, func(o deployOptions, hosts []string) environment.Command {
		return environment.Deploy{Revision: o.revision, Change: o.change, Hosts: hosts, Inventory: o.selectedIn, By: app.Whoami(), Reason: o.reason}
	})
}

func newRollbackCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "rollback NAME [--revision N]",
		Short: "Roll an environment back to an earlier revision",
		Long: `Roll an environment back to an earlier revision: without --revision, to the one
whose deployment finished last before the one that is deployed, unless it was
reverted; while a rollback is under way, the revision must be given. The newer ones
are reverted, also one whose deployment is under way. The rollback may
be faster or less careful than the revision says (--method, --min-healthy-percent or
--max-unavailable, --max-over or --max-surge), until it has finished.

The command sets the desired state; see "env deploy", also for --wait.`,
		Example: `  deployster env rollback shop/prod --reason 'drops sessions'
  deployster env rollback shop/prod --revision 1 --min-healthy-percent 0 --wait`,
	}
	o := deployOptions{purpose: "revision to go back to (default: the last good one)", lastGood: true}
	return deploying(a, c, o, func(o deployOptions, hosts []string) environment.Command {
		return environment.Rollback{Revision: o.revision, Change: o.change, Hosts: hosts, Inventory: o.selectedIn, By: app.Whoami(), Reason: o.reason, LastGood: o.meansLastGood}
	})
}

// runDeploy starts a deployment, and follows it where that is asked for.
func runDeploy(ctx context.Context, a *app.App, o deployOptions, wanted func(o deployOptions, hosts []string) environment.Command) error {
	return withEnvironment(ctx, a, o.name, func(e *query.Environments) error {
		switch {
		case o.active:
			number, err := activeRevision(e, o.name)
			if err != nil {
				return err
			}
			o.revision = number
		case o.revision == 0:
			good, err := e.LastGood(o.name)
			if err != nil {
				return err
			}
			o.revision, o.meansLastGood = good.Number, true
		}
		r, err := e.Revision(o.name, o.revision)
		if err != nil {
			return err
		}
		hosts, identity, err := deployable(ctx, a, r, o.work.Inventory)
		if err != nil {
			return err
		}
		o.selectedIn = identity
		if o.wait {
			f := &follower{app: a, environments: e, name: o.name, selected: hosts}
			return deployAndWait(ctx, o.command, f, wanted(o, hosts), o.work)
		}
		events, err := recordWanted(ctx, a, e, o.name, wanted(o, hosts), o.work)
		if err != nil {
			return err
		}
		id := startedBy(events)
		defer noticeIdle(a, e, o.name)
		defer noticeHeld(a, e, o.name)
		left, why := e.LeftOut(o.name, hosts)
		if why != nil {
			defer fmt.Fprintf(a.Err, "note: %s\n", view.Clean(why.Error()))
		}
		n := len(hosts) - len(left)
		return a.Recorded(map[string]any{"environment": o.name, "deployment_id": id, "hosts": n}, events,
			fmt.Sprintf("deployment %s is started, %s", id, phrase.Count(n, "host")), "")
	})
}

// startedBy is the deployment that events start, "" when they start none.
func startedBy(events []deploylog.Event) string {
	for _, e := range events {
		if e.Name == record.EnvironmentStarted {
			return e.Deployment
		}
	}
	return ""
}
