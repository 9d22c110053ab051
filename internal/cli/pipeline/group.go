package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/deployster-go/deployster/build"
	packagesdef "github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/control/packages"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotion"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	buildcli "github.com/deployster-go/deployster/internal/cli/build"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// carryGroups lets a revision carry the build groups of its stages, as they are now.
func carryGroups(ctx context.Context, a *app.App, d *definition.Definition, files work.Carried, flags inputFlags) error {
	var failed error
	d.BuildGroups(func(stage string, path *string) {
		if failed == nil {
			failed = carryGroup(ctx, a, stage, *path, files, flags)
		}
	})
	return failed
}

// groupFiles adds the files of packages that stages build.
func groupFiles(a *app.App, d *definition.Definition, files work.Carried) error {
	var problems []error
	d.BuildGroups(func(stage string, path *string) {
		text, err := manifest.ReadFile(filepath.Join(a.Workspace, filepath.FromSlash(*path)), packagesdef.MaxSize)
		if err != nil {
			problems = append(problems, fmt.Errorf("stage %s: %w", stage, err))
		}
		files[*path] = text
	})
	if err := errors.Join(problems...); err != nil {
		return exit.Invalid(err)
	}
	return nil
}

func carryGroup(ctx context.Context, a *app.App, stage, file string, files work.Carried, flags inputFlags) error {
	at := filepath.Join(a.Workspace, filepath.FromSlash(file))
	collected, err := buildcli.Collect(ctx, a, buildcli.Stage{File: at, Work: flags.WorkerFlags, Public: flags.public, Unpinned: flags.unpinned})
	if err != nil {
		return fmt.Errorf("stage %s: %w", stage, err)
	}
	for _, text := range collected.Warnings {
		fmt.Fprintf(a.Err, "warning: stage %s: %s\n", output.InLine(stage), output.InLine(text))
	}
	if len(collected.Submit.Jobs) == 0 {
		return exit.Invalid(fmt.Errorf("stage %s: nothing of %s can be built: deployster build submit -f %s says why", stage, file, file))
	}
	carried := packages.Carried{Submit: collected.Submit, Files: map[string]string{}}
	for name, text := range collected.Files {
		carried.Files[name] = string(text)
	}
	text, err := carried.Encode()
	if err != nil {
		return fmt.Errorf("stage %s: the build group of %s: %w", stage, file, err)
	}
	files[record.CarriedGroup(stage)] = text
	return nil
}

// carriedGroup is the build group that the revision of a step carries.
func carriedGroup(texts work.Texts, s step.Step) (build.Submit, error) {
	hash, carried := s.Files[record.CarriedGroup(s.Stage)]
	if !carried {
		return build.Submit{}, fmt.Errorf("revision %s does not carry it, for it was released before the stage had one: release another revision", s.Revision)
	}
	text, err := texts.Load(hash)
	if err != nil {
		return build.Submit{}, err
	}
	c, err := packages.Decode(text)
	if err != nil {
		return build.Submit{}, err
	}
	files := work.Carried{}
	for name, text := range c.Files {
		files[name] = []byte(text)
	}
	return c.Submit, texts.KeepAll(files)
}

// schedule runs a scheduler, and beside it a controller of environments and a dispatcher of
// build groups, for the stages that want these.
func schedule(ctx context.Context, a *app.App, o pipelines.Options, flags session.WorkerFlags, workers *session.Workers) (err error) {
	texts, err := a.Texts()
	if err != nil {
		return err
	}
	dispatch, end, err := buildcli.Dispatch(a, flags, "", o.Log, workers.EnginePool, o.Observer)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil { // all results are recorded
			end()
		}
	}()
	return packages.Schedule(ctx, o, dispatch, submission(texts), func(ctx context.Context, o pipelines.Options) error {
		return promotion.Schedule(ctx, o, workers.Tasks, workers.Hosts)
	})
}

// Scheduler is a scheduler beside which somebody controls all environments, and dispatches
// the jobs of all build groups.
func Scheduler(ctx context.Context, a *app.App, o pipelines.Options, workers *session.Workers) (*pipelines.Scheduler, error) {
	texts, err := a.Texts()
	if err != nil {
		return nil, err
	}
	o.Worker = packages.Worker(ctx, o, submission(texts))
	o.Worker = promotion.Worker(o, workers.Tasks, workers.Hosts)
	return pipelines.NewScheduler(o), nil
}

// submission finds the groups that revisions carry.
func submission(texts work.Texts) packages.Submission {
	return func(_ context.Context, s step.Step) (build.Submit, error) { return carriedGroup(texts, s) }
}
