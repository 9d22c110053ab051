package build

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/control/workers"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/runner"
)

type runOptions struct {
	session.WorkerFlags
	untilIdle bool
	signKey   string
	bounded   bool // --parallelism was given
	listed    bool // --inventory was given
}

func newRunCommand(a *app.App) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the dispatcher of build groups",
		Long: `Run the dispatcher, which has the jobs of build groups done on workers, each as soon
as what it needs is built. It runs until interrupted. The oldest group comes first, and in
a group what most depends on; a newer group begins when workers would have nothing to do.

Workers are the hosts of the inventory, as many jobs at once on each as it has slots; they
may come and go. A worker whose engine does not answer is not used until it does, and what
it had is built elsewhere. Without an inventory the worker is this machine.

One dispatcher at a time works on a log. Another one stands by, and takes over at once when
that has ended, however it ended: jobs that still run are waited for, and what is built is
not built again.

Interrupt once to let running jobs finish and begin nothing new; twice to end at once. Jobs
then go on in their containers, and the next run collects them; those of the engine oci end
with this process, and are begun anew. To stop jobs for good: deployster build cancel.`,
		Example: `  deployster build run
  deployster build run --until-idle                  # in CI: ends when nothing more can be built
  deployster build run --parallelism 4               # this machine builds four at once
  deployster build run --inventory workers.yaml
  deployster build run --sign-key build.key          # sign the provenance of what is pushed`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.bounded, o.listed = c.Flags().Changed("parallelism"), c.Flags().Changed("inventory")
			return runRun(c.Context(), a, o)
		},
	}
	c.Flags().BoolVar(&o.untilIdle, "until-idle", false, "end when nothing more can be built: with 1 when a group has failed, or waits for a worker that there is not")
	c.Flags().StringVar(&o.signKey, "sign-key", "", "private key that signs how artifacts were made, where they are pushed: a file, Ed25519 or ECDSA P-256 in PEM")
	arguments.RegisterInventory(c, &o.Inventory)
	o.Input.RegisterValues(c)
	o.Engine.RegisterLostFor(c)
	c.Flags().StringVar(&o.Engine.Pull, "pull", string(engine.PullMissing), "when to pull images: missing, always or never")
	_ = c.RegisterFlagCompletionFunc("pull", cobra.FixedCompletions([]string{"missing", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// mostAtOnce bounds the jobs of all workers together where nobody does: each worker has its
// slots.
const mostAtOnce = 1000

// steps are what signals do to jobs, the first and the second.
var steps = [2]string{
	"stopping: running jobs finish first; interrupt again to end now",
	"ending now: jobs go on in their containers, and the next build run collects them (those of the engine oci end, and are begun anew)",
}

func runRun(ctx context.Context, a *app.App, o runOptions) error {
	if err := errors.Join(a.Local(), a.CheckParallelism()); err != nil {
		return err
	}
	return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		serving, err := workersHere(ctx, a, o.Inventory)
		if err != nil {
			return err
		}
		screen := openScreen(ctx, a, log, serving, inventoryHere(o.Inventory))
		defer screen.Close() //nolint:errcheck // it is closed below, unless something has failed before
		ctx, signals := interrupt.Announce(ctx, steps, screen.Notices)
		defer signals.Done()
		pool := session.OpenPool(a, o.WorkerFlags, screen.Notices)
		defer pool.Close() //nolint:errcheck // what was done is recorded
		at, err := openPlaces(ctx, a, o, pool)
		if err != nil {
			return err
		}
		builder, err := newBuilder(a, o, log, pool, at.host)
		if err != nil {
			return err
		}
		screen.Begin("build run", nil)
		ended := &ended{Observer: screen, failed: map[string]bool{}}
		c := builds.NewController(builds.Options{
			Options: reconcile.Options{Log: log, Parallelism: at.parallelism, UntilIdle: o.untilIdle, Drain: signals.Stop, Now: a.Now},
			Builder: builder, Workers: tidied{at.workers, builder}, Observer: ended,
		})
		screen.JobName = c.JobName
		ran := c.Run(ctx)
		if ran == nil { // all results are recorded
			builder.Close()
		}
		err = errors.Join(ran, screen.Close())
		if signals.Interrupted() && (err == nil || errors.Is(err, context.Canceled)) {
			return exit.Reported(runner.ErrInterrupted)
		}
		if err != nil {
			return err
		}
		if err := ended.unfinished(ctx, a, log); err != nil {
			return err
		}
		return a.Ended("idle, nothing more can be built: deployster build list shows the result")
	})
}

// places is where jobs are done.
type places struct {
	workers     builds.Workers
	parallelism int
	host        func(worker string) string // that the pool knows a worker as
}

// openPlaces finds the workers: the hosts of the inventory, or this machine where nobody
// names one and there is none.
func openPlaces(ctx context.Context, a *app.App, o runOptions, pool *work.EnginePool) (places, error) {
	p, slots := places{parallelism: mostAtOnce}, runtime.NumCPU()
	if o.bounded {
		p.parallelism, slots = a.Global.Parallelism, a.Global.Parallelism
	}
	p.workers, p.host = workersOf(o.Inventory, o.listed, slots, pool)
	switch of := p.workers.(type) {
	case *workers.Inventory:
		if _, err := of.Hosts.Inventory(); err != nil { // later those are used that are known
			return places{}, exit.Invalid(err)
		}
	case *workers.Machine:
		if _, err := of.Look(ctx, workers.Local); err != nil {
			return places{}, err
		}
	}
	return p, nil
}

// ended notes which groups have failed.
type ended struct {
	reconcile.Observer
	failed map[string]bool
}

// Recorded implements reconcile.Observer.
func (e *ended) Recorded(event deploylog.Event) {
	if event.Name == event.Target.Failed() && event.Target.Kind() == record.GroupKind {
		e.failed[event.Deployment] = true
	}
	e.Observer.Recorded(event)
}

// unfinished is the error about groups that have failed, and those that wait for something
// that does not come.
func (e *ended) unfinished(ctx context.Context, a *app.App, log deploylog.Log) error {
	all := builds.New(log, a.Now)
	if err := all.Follow(ctx, 0); err != nil {
		return err
	}
	var failed, waiting []string
	_ = all.State(func(s *build.State) error {
		for _, g := range s.Groups() {
			switch {
			case !g.State.Ended():
				waiting = append(waiting, g.ID)
			case g.State == transition.Failed && e.failed[g.ID]:
				failed = append(failed, g.ID)
			}
		}
		return nil
	})
	var wrong []string
	if n := len(failed); n > 0 {
		wrong = append(wrong, fmt.Sprintf("%s failed (%s): deployster build status %s shows why, and build explain what would change that", phrase.Count(n, "build group"), phrase.First(failed, 5), failed[0]))
	}
	if n := len(waiting); n > 0 {
		wrong = append(wrong, fmt.Sprintf("%s cannot go on (%s): deployster build explain %s shows why", phrase.Count(n, "build group"), phrase.First(waiting, 5), waiting[0]))
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}
