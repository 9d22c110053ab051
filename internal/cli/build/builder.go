package build

import (
	"context"

	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/control/submission"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/inventory"
)

// tidied are workers on which nothing goes on of jobs that are over: one whose engine has not
// answered for a while may still run jobs that were done elsewhere meanwhile.
type tidied struct {
	of   builds.Workers
	jobs *jobs.Jobs
}

// Workers implements builds.Workers.
func (t tidied) Workers() ([]inventory.Host, error) { return t.of.Workers() }

// Identity implements builds.Workers.
func (t tidied) Identity() string { return t.of.Identity() }

// Look implements builds.Workers.
func (t tidied) Look(ctx context.Context, name string) ([]string, error) {
	platforms, err := t.of.Look(ctx, name)
	if err != nil {
		t.jobs.Unanswered(name)
		return nil, err
	}
	t.jobs.RemoveOrphans(ctx, name)
	return platforms, nil
}

// newBuilder returns what does jobs on the engines of a pool, which knows workers as hosts.
func newBuilder(a *app.App, o runOptions, log deploylog.Log, pool *work.EnginePool, host func(worker string) string) (*jobs.Jobs, error) {
	policy, err := o.Engine.Policy()
	if err != nil {
		return nil, err
	}
	texts, err := a.Texts()
	if err != nil {
		return nil, err
	}
	kept, err := a.ArtifactsDir()
	if err != nil {
		return nil, err
	}
	made, err := newStatements(texts.Objects(), a.Version, o.signKey)
	if err != nil {
		return nil, err
	}
	return jobs.New(jobs.Options{
		Log: log.ID(), Workspace: a.Workspace, Artifacts: artifacts.In(kept), Pull: policy, Now: a.Now, Logger: app.Logger(a.Err),
		Object: texts.Objects().Load, Over: jobs.Over(log), Provenance: made.keep, Attach: made.attach,
		Program: jobs.Program{Image: shipped.Prefix + "file", Path: shipped.Program},
		Worker: func(ctx context.Context, name string) (jobs.Worker, error) {
			on, err := pool.Answering(ctx, host(name))
			if err != nil {
				return jobs.Worker{}, err
			}
			return jobs.Worker{Engine: on.Engine, Images: on.Images, Info: on.Info}, nil
		},
		Secrets: func(_ context.Context, carries record.Carries, r recipe.Recipe) (map[string]string, error) {
			return submission.Secrets(session.Inputs(a, o.Input), texts, carries, r)
		},
	}), nil
}
