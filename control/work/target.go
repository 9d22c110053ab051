package work

import (
	"context"

	"github.com/deployster-go/deployster/control/targets"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/runner"
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

// ApplyTarget implements promotions.Engines. Whatever the revision is, it is applied in one place
// on a host, so that two never work there at once, and what a process that died left running is
// waited for, or ended, before it is done again.
func (w *TaskWorker) ApplyTarget(ctx context.Context, q targets.Question) (err error) {
	defer w.guard(&err, "applying the manifest of stage "+q.Stage)
	return w.applyFor(ctx, q, TargetVariables(q.Pipeline, q.Stage, q.Task.Host, w.pool.hosts))
}

// VerifyTarget implements promotions.Engines.
func (w *TaskWorker) VerifyTarget(ctx context.Context, q targets.Question, hosts []string) (err error) {
	defer w.guard(&err, "verifying stage "+q.Stage)
	return w.applyFor(ctx, q, TargetVerification(q.Pipeline, q.Stage, hosts))
}

// applyFor applies a manifest of a stage, with variables that nobody else can set.
func (w *TaskWorker) applyFor(ctx context.Context, q targets.Question, own map[string]any) error {
	run, err := w.begin(ctx, q.Task, applying, own)
	if err == nil {
		err = run.Conflicts()
	}
	if err == nil {
		for _, of := range []string{"environment", "revision", "task"} { // it is of none
			delete(run.Caller.Details, of)
		}
		run.Caller.Details["target"] = string(promotion.StageTarget(q.Pipeline, q.Stage))
		_, err = w.execute(ctx, run, (*runner.Runner).Apply)
	}
	return err
}

// TargetVerification are what a manifest knows that verifies a stage on hosts. Nobody else can set
// them.
func TargetVerification(pipeline, stage string, hosts []string) map[string]any {
	all := make([]any, len(hosts))
	for i, name := range hosts {
		all[i] = name
	}
	return map[string]any{"pipeline": pipeline, "stage": stage, "verify": map[string]any{"hosts": all}}
}

// TargetVariables are what the manifest of a stage on hosts knows of where it is. Nobody else
// can set them.
func TargetVariables(pipeline, stage, host string, among *Hosts) map[string]any {
	h, _ := among.host(host)
	return map[string]any{"pipeline": pipeline, "stage": stage, "host": host, "host_attributes": attributes(h)}
}
