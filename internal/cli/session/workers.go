package session

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
)

// Workers do the work of steps on the engines of hosts.
type Workers struct {
	*work.EnginePool
	Hosts *work.Hosts
	Tasks *work.TaskWorker
	Steps *work.StepWorker
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
	f.Engine.Register(c)
	f.Engine.RegisterCache(c)
}

// OpenWorkers opens the workers of a command.
func OpenWorkers(a *app.App, log deploylog.Log, f WorkerFlags, news io.Writer) (*Workers, error) {
	config, err := config(a, log, f.Input, f.Engine)
	if err != nil {
		return nil, err
	}
	hosts := work.NewHosts(f.Inventory)
	_, _ = hosts.Inventory() // what selects hosts reports what is wrong with it
	pool := work.NewEnginePool(hosts, engines.Dial(a, f.Inventory, news, f.Engine))
	tasks, err := work.NewTaskWorker(config, pool)
	if err != nil {
		return nil, err
	}
	return &Workers{EnginePool: pool, Hosts: hosts, Tasks: tasks, Steps: work.NewStepWorker(config, pool)}, nil
}

// Close closes the workers and the engines they used.
func (w *Workers) Close() error {
	err := w.EnginePool.Close()
	w.Tasks.Close()
	return err
}
