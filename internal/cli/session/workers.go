package session

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/control/promotion"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/kubewatch"
	"github.com/deployster-go/deployster/runner"
)

// Workers do the work of steps on the engines of hosts.
type Workers struct {
	*work.EnginePool
	Hosts *work.Hosts
	Tasks *work.TaskWorker
	Steps *work.StepWorker

	Clusters *kubewatch.Clusters // of which stages name objects

	config  work.Config
	reserve *work.Reserve
}

// WorkerFlags are the flags of commands that do the work of steps.
type WorkerFlags struct {
	Inventory string
	Input     Flags
	Engine    engines.Flags
}

// Register adds the flags.
func (f *WorkerFlags) Register(c *cobra.Command) {
	arguments.RegisterInventory(c, &f.Inventory)
	f.Input.RegisterVariables(c)
	f.registerEngine(c)
}

// RegisterServed adds the flags of a server, which cannot know what will read variables: it
// also does what others record later.
func (f *WorkerFlags) RegisterServed(c *cobra.Command) {
	arguments.RegisterInventory(c, &f.Inventory)
	f.Input.RegisterValues(c)
	f.registerEngine(c)
}

func (f *WorkerFlags) registerEngine(c *cobra.Command) {
	f.Engine.Register(c)
	f.Engine.RegisterCache(c)
}

// CheckTaskVariables refuses variables of the command line that tasks cannot have: those
// that every task has of its own, and those of files that cannot be read again for each.
func (f *WorkerFlags) CheckTaskVariables() error {
	own := work.TaskVariables(tasks.Task{}, work.NewHosts(f.Inventory))
	for _, v := range f.Input.Variables {
		if _, taken := own[v.Name]; taken {
			return exit.Usage("--var %s: every task has its own", v.Name)
		}
		if v.File == "" {
			continue
		}
		switch info, err := os.Stat(v.File); {
		case err != nil:
			return exit.Usage("--var-file: %w", err)
		case !info.Mode().IsRegular():
			return exit.Usage("--var-file %s: it is read again for every task, and so must be a regular file", v.File)
		}
	}
	return nil
}

// Hosts are those that queries select from when something is recorded: of the inventory file
// or, where a server records it, of that server.
func Hosts(ctx context.Context, a *app.App, file string) *work.Hosts {
	remote, err := a.Remote()
	switch {
	case err != nil:
		return work.FixedHosts("", nil, err)
	case remote == nil:
		return work.NewHosts(file)
	}
	return work.FixedHosts(remote.Inventory(ctx))
}

// Identities find out what tasks make on their hosts. files are those that a revision is to
// carry, which need not be kept yet.
func Identities(a *app.App, f WorkerFlags, files work.Carried) (*work.Identities, error) {
	return IdentitiesOn(a, work.NewHosts(f.Inventory), f, files)
}

// IdentitiesOn is Identities on hosts that were read already.
func IdentitiesOn(a *app.App, hosts *work.Hosts, f WorkerFlags, files work.Carried) (*work.Identities, error) {
	texts, err := a.Texts()
	if err != nil {
		return nil, err
	}
	return &work.Identities{Inputs: Inputs(a, f.Input), Texts: texts, Hosts: hosts, Drafts: files}, nil
}

// Things find out what tasks make on their hosts; see Identities.
func Things(ctx context.Context, a *app.App, f WorkerFlags, files work.Carried) (func(tasks.Task) []tasks.Thing, error) {
	tasks, err := IdentitiesOn(a, Hosts(ctx, a, f.Inventory), f, files)
	if err != nil {
		return nil, err
	}
	return tasks.Things, nil
}

// RegisterPinning adds the flags of what makes revisions, which carry variables and images.
func (f *WorkerFlags) RegisterPinning(c *cobra.Command, public *[]string, unpinned *bool) {
	f.Register(c)
	c.Flags().StringArrayVar(public, "allow-logged", nil, "a variable that is no secret, although something secret reads it, or its file is not of the workspace (repeatable)")
	c.Flags().BoolVar(unpinned, "allow-unpinned", false, "use an image that cannot be had now, or whose name is known only where it is applied, as it is there, instead of refusing it")
}

// OpenPool opens the engines of hosts for a command.
func OpenPool(a *app.App, f WorkerFlags, news io.Writer) *work.EnginePool {
	hosts := work.NewHosts(f.Inventory)
	_, _ = hosts.Inventory() // what selects hosts reports what is wrong with it
	return work.NewEnginePool(hosts, engines.Dial(a, f.Inventory, news, f.Engine))
}

// OpenWorkers opens the workers of a command.
func OpenWorkers(ctx context.Context, a *app.App, log deploylog.Log, f WorkerFlags, news io.Writer) (*Workers, error) {
	config, err := config(a, log, f.Input, f.Engine)
	if err != nil {
		return nil, err
	}
	if config.Reserve, err = work.NewReserve(config, a.MaxServing()); err != nil {
		return nil, err
	}
	hosts := work.NewHosts(f.Inventory)
	_, _ = hosts.Inventory() // what selects hosts reports what is wrong with it
	pool := work.NewEnginePool(hosts, engines.Dial(a, f.Inventory, news, f.Engine))
	tasks, err := work.NewTaskWorker(config, pool, promotion.Variables())
	if err != nil {
		config.Reserve.Close(ctx)
		return nil, err
	}
	return &Workers{EnginePool: pool, Hosts: hosts, Tasks: tasks, Steps: work.NewStepWorker(config, pool), Clusters: clusters(hosts, f.Inventory), config: config, reserve: config.Reserve}, nil
}

// Bounded finds out what revisions would bring that may not bring everything.
func (w *Workers) Bounded() work.Bounded {
	return work.Bounded{Inputs: w.config.Inputs, Texts: w.config.Texts, Hosts: w.Hosts, Promoted: promotion.Variables()}
}

// Runs are runs of manifests on the engine of what has no host, for those who ask for them.
func (w *Workers) Runs(notice func(string), begun func(*apply.Served), ended func(one *apply.Served, err error)) *apply.Runs {
	c := w.config
	c.Notice, c.Reserve = notice, nil // no run after it needs the processes of one
	return apply.NewRuns(apply.Options{
		Config: c, Begun: begun, Ended: ended,
		Connect: func(ctx context.Context) (*work.Connection, error) { return w.Answering(ctx, "") },
	})
}

// WithWorkers has something done with the workers of a command, and closes them. The first
// signal closes stop, the second ends ctx; what has ended because of either is reported.
func WithWorkers(ctx context.Context, a *app.App, log deploylog.Log, f WorkerFlags, notices output.Notices,
	do func(ctx context.Context, w *Workers, stop <-chan struct{}) error,
) error {
	return WithSignals(ctx, notices, func(ctx context.Context, stop <-chan struct{}) (err error) {
		workers, err := OpenWorkers(ctx, a, log, f, notices)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, workers.Close(ctx)) }()
		return do(ctx, workers, stop)
	})
}

// WithSignals has something done that works on nothing itself, as WithWorkers does.
func WithSignals(ctx context.Context, notices output.Notices, do func(ctx context.Context, stop <-chan struct{}) error) error {
	ctx, signals := interrupt.Handle(ctx, notices)
	defer signals.Done()
	err := do(ctx, signals.Stop)
	if signals.Interrupted() && (err == nil || errors.Is(err, context.Canceled)) {
		return exit.Reported(runner.ErrInterrupted)
	}
	return err
}

// Close closes the workers and the engines they used, without waiting for processes when
// ctx is done.
func (w *Workers) Close(ctx context.Context) error {
	w.reserve.Close(ctx)
	err := w.EnginePool.Close()
	w.Tasks.Close()
	return err
}
