package work

import (
	"context"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/runner"
)

// Verify implements environments.Tasks, with a task of no host. What a process that died left
// running of it is waited for, or ended, before it is done again.
func (w *TaskWorker) Verify(ctx context.Context, v environment.Verification) (err error) {
	defer w.guard(&err, "verifying a step of "+v.Environment)
	spec := definition.TaskSpec{Manifest: v.Manifest, Digest: v.Files[v.Manifest], Includes: v.Files, Vars: v.Vars}
	run, err := w.begin(ctx, tasks.Task{Environment: v.Environment, Revision: v.Revision, Spec: spec, Bounds: v.Bounds}, applying, v.Variables())
	if err == nil {
		err = run.Conflicts()
	}
	if err == nil {
		run.Caller.Details["target"] = string(record.Target(v.Environment))
		_, err = w.execute(ctx, run, (*runner.Runner).Apply)
	}
	return err
}
