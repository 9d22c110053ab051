package work

import (
	"context"

	"github.com/deployster-go/deployster/control/targets"
	"github.com/deployster-go/deployster/environment/tasks"
)

// asked is what is asked of a probe.
type asked struct {
	own  map[string]any // variables that nobody else can set; nil those of a task
	read string         // resource whose state is wanted, too: such a probe is not repeated; "" is none
	all  bool           // what differs counts also where the configuration is doubtful
}

// ObserveTarget implements targets.Engines.
func (w *TaskWorker) ObserveTarget(ctx context.Context, q targets.Question) (found tasks.ProbeResult, state map[string]any) {
	return w.observe(ctx, q.Task, asked{own: TargetVariables(q.Pipeline, q.Stage, q.Task.Host, w.pool.hosts), read: q.Read, all: true})
}

// TargetVariables are what the manifest of a stage on hosts knows of where it is. Nobody else
// can set them.
func TargetVariables(pipeline, stage, host string, among *Hosts) map[string]any {
	h, _ := among.host(host)
	return map[string]any{"pipeline": pipeline, "stage": stage, "host": host, "host_attributes": attributes(h)}
}
