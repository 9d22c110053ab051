package session

import (
	"io"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
)

// Workers do the work of steps on the engines of hosts.
type Workers struct {
	*work.EnginePool
	Hosts *work.Hosts
	Tasks *work.TaskWorker
	Steps *work.StepWorker
}

// OpenWorkers opens the workers of a command.
func OpenWorkers(a *app.App, log deploylog.Log, hosts *work.Hosts, input Flags, f engines.Flags, news io.Writer) (*Workers, error) {
	config, err := config(a, log, input, f)
	if err != nil {
		return nil, err
	}
	pool := work.NewEnginePool(hosts, engines.Dial(a, hosts.Path(), news, f))
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
