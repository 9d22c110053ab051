package build

import (
	"context"
	"runtime"

	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/submission"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/query"
)

// Stage is a build group that a stage of a pipeline builds.
type Stage struct {
	File     string
	Work     session.WorkerFlags
	Public   []string // variables that are no secrets
	Unpinned bool     // images whose contents are not known need not be carried
}

// Collect collects what the group of a stage is to carry, as "build submit" does.
func Collect(ctx context.Context, a *app.App, s Stage) (*submission.Collected, error) {
	return collect(ctx, a, submitOptions{planOptions: planOptions{file: s.File}, work: s.Work, public: s.Public, unpinned: s.Unpinned})
}

// JobName returns what tells what a job of the log's groups builds, for the output of a command
// that dispatches the groups of stages; "" where that cannot be found out.
func JobName(ctx context.Context, a *app.App, log deploylog.Log) func(group string, job int) string {
	s := &screen{ctx: context.WithoutCancel(ctx), builds: query.NewBuilds(log, a.Now)}
	return s.jobName
}

// Dispatch opens what a dispatcher needs that works off the groups of stages, as "build run"
// does: on workers of the pool, none of which is asked before there is a job. The key signs how
// artifacts were made; "" is none. end is called
// when it has ended, and all is recorded.
func Dispatch(a *app.App, flags session.WorkerFlags, signKey string, log deploylog.Log, pool *work.EnginePool, observer reconcile.Observer) (o builds.Options, end func(), err error) {
	workers, host := workersOf(flags.Inventory, false, runtime.NumCPU(), pool)
	builder, err := newBuilder(a, runOptions{WorkerFlags: flags, signKey: signKey}, log, pool, host)
	if err != nil {
		return o, nil, err
	}
	return builds.Options{
		Options: reconcile.Options{Log: log, Parallelism: mostAtOnce, Now: a.Now}, Builder: builder, Workers: tidied{workers, builder}, Observer: observer,
	}, builder.Close, nil
}
