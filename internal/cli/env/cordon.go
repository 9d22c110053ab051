package env

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/internal/view"
)

// mostNamed is how many hosts a sentence names.
const mostNamed = 5

type cordonOptions struct {
	name, reason string
	hosts        []string
	wait         bool
	work         workFlags
}

// cordoning makes a command one of an environment and some of its hosts.
func cordoning(c *cobra.Command, o *cordonOptions, run func(ctx context.Context) error) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) < 2 {
			return exit.Usage("%s takes an environment and its hosts: %s", c.CommandPath(), c.UseLine())
		}
		what := append([]string{"an environment"}, slices.Repeat([]string{"a host"}, len(args)-1)...)
		return arguments.Named(what...)(c, args)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		o.name, o.hosts = args[0], args[1:]
		return run(c.Context())
	}
	arguments.RegisterReason(c, &o.reason)
	return c
}

func newCordonCommand(a *app.App) *cobra.Command {
	var o cordonOptions
	c := &cobra.Command{
		Use:   "cordon NAME HOST…",
		Short: "Leave hosts of an environment as they are",
		Long: `Leave hosts of an environment as they are: no task comes to them, and none of theirs
is changed, until "env uncordon". Deployments pass over them: they finish without
them. They count as hosts all the same: one without a healthy task uses up what may
be unavailable. Hosts stay cordoned also while the inventory does not list them.`,
		Example: "  deployster env cordon shop/prod web7 web8 --reason 'new disks'",
	}
	arguments.RegisterInventory(c, &o.work.Inventory)
	return cordoning(c, &o, func(ctx context.Context) error {
		wanted := environment.CordonHosts{Hosts: o.hosts, By: app.Whoami(), Reason: o.reason}
		return runCordon(ctx, a, o, wanted, "cordoned", "deployster env uncordon")
	})
}

func newUncordonCommand(a *app.App) *cobra.Command {
	var o cordonOptions
	c := &cobra.Command{
		Use:     "uncordon NAME HOST…",
		Short:   "Let an environment change its cordoned hosts again",
		Example: "  deployster env uncordon shop/prod web7",
	}
	arguments.RegisterInventory(c, &o.work.Inventory)
	return cordoning(c, &o, func(ctx context.Context) error {
		wanted := environment.UncordonHosts{Hosts: o.hosts, By: app.Whoami(), Reason: o.reason}
		return runCordon(ctx, a, o, wanted, "not cordoned", "")
	})
}

func newDrainCommand(a *app.App) *cobra.Command {
	var o cordonOptions
	c := &cobra.Command{
		Use:   "drain NAME HOST…",
		Short: "Terminate the tasks of hosts, and leave the hosts cordoned",
		Long: `Terminate the tasks of hosts, and leave the hosts cordoned: no task comes to them
until "env uncordon". As many hosts keep a healthy task as the configuration of the
environment says (min_healthy_percent or max_unavailable); where another task
stopped would be one too many, the drain waits: without end where all hosts must keep
one, as with the method Surge where nothing else is said.

The command sets the desired state; the controller ("env run") terminates the tasks.
With --wait the command ends when they are terminated, and runs a controller itself
where none is at work. It says what it waits for, and what would help, and fails where
somebody uncordons one of the hosts meanwhile; interrupted, it leaves the hosts
drained, for "env run" to go on with.`,
		Example: "  deployster env drain shop/prod web7 --reason 'new disks' --wait",
	}
	c.Flags().BoolVar(&o.wait, "wait", false, "wait until the tasks are terminated, and run a controller where none is at work")
	o.work.registerWatch(c)
	return cordoning(c, &o, func(ctx context.Context) error {
		wanted := environment.CordonHosts{Hosts: o.hosts, Drain: true, By: app.Whoami(), Reason: o.reason}
		return runCordon(ctx, a, o, wanted, "cordoned, and drained", "deployster env uncordon")
	})
}

// runCordon has it recorded that hosts are cordoned, or are not any more.
func runCordon(ctx context.Context, a *app.App, o cordonOptions, wanted environment.Command, becomes, back string) error {
	return withEnvironment(ctx, a, o.name, func(e *query.Environments) error {
		now, err := reconcile.Get(e.Fold, o.name, (*environment.State).Report)
		if err != nil {
			return err
		}
		if err := checkHosts(now, session.Hosts(ctx, a, o.work.Inventory), o); err != nil {
			return err
		}
		if o.wait {
			f := &follower{app: a, environments: e, name: o.name, hosts: o.hosts, until: o.drained, done: fmt.Sprintf("drained: %s", phrase.First(o.hosts, mostNamed))}
			return f.run(ctx, "env drain", wanted, o.work)
		}
		events, err := e.Command(ctx, o.name, wanted)
		if err != nil {
			return err
		}
		said := fmt.Sprintf("%s: %s of environment %s", becomes, phrase.First(o.hosts, mostNamed), o.name)
		if len(events) == 0 {
			said = fmt.Sprintf("already %s: %s of environment %s", becomes, phrase.First(o.hosts, mostNamed), o.name)
		} else if now.Deployment != nil {
			defer noticeIdle(a, e, o.name)
		}
		after := ""
		if back != "" {
			after = fmt.Sprintf("; until %s %s %s", back, o.name, strings.Join(o.hosts[:min(len(o.hosts), mostNamed)], " "))
		}
		return a.Recorded(map[string]any{"environment": o.name, "hosts": o.hosts}, events, view.Clean(said), view.Clean(after))
	})
}

// drained reports whether the hosts are drained, or why they will not be.
func (o cordonOptions) drained(r report.Report) (over bool, failure error) {
	var kept, back []string
	for _, host := range o.hosts {
		if slices.ContainsFunc(r.Orphans, func(left report.Orphan) bool { return left.Host == host }) {
			kept = append(kept, host)
		}
		if !slices.ContainsFunc(r.Cordoned, func(c report.Cordon) bool { return c.Host == host && c.Drain }) {
			back = append(back, host)
		}
	}
	switch {
	case r.Deleted && len(kept) > 0:
		return true, fmt.Errorf("environment %s was deleted meanwhile, and left its tasks on %s running, unmanaged: deployster env clean %s terminates them", o.name, phrase.First(kept, mostNamed), o.name)
	case !r.Deleted && len(back) > 0:
		return true, fmt.Errorf("not drained: somebody has uncordoned %s meanwhile; deployster env drain %s %s drains them again",
			phrase.First(back, mostNamed), o.name, strings.Join(back[:min(len(back), mostNamed)], " "))
	}
	return len(withTasks(r, o.hosts)) == 0, nil
}

// withTasks are those of some hosts that have tasks.
func withTasks(r report.Report, hosts []string) (all []string) {
	for _, h := range r.Hosts {
		if slices.Contains(hosts, h.Host) && len(h.Tasks) > 0 {
			all = append(all, h.Host)
		}
	}
	return all
}

// checkHosts refuses hosts that neither the environment nor the inventory knows: a name that
// is mistyped would protect nothing. A host may be cordoned before it joins.
func checkHosts(r report.Report, inventory *work.Hosts, o cordonOptions) error {
	var known []string
	for _, h := range r.Hosts {
		known = append(known, h.Host)
	}
	for _, c := range r.Cordoned {
		known = append(known, c.Host)
	}
	for _, name := range o.hosts {
		if slices.Contains(known, name) {
			continue
		}
		if _, err := inventory.Inventory(); err != nil {
			return exit.Invalid(err)
		}
		if inventory.Known(name) {
			continue
		}
		meant := ""
		if near := suggest.Closest(name, known); near != "" {
			meant = fmt.Sprintf(", did you mean %s?", near)
		}
		return exit.Usage("environment %s has no host %s, and %s lists none of that name%s", o.name, name, o.work.Inventory, meant)
	}
	return nil
}
