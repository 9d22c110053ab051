package promotion

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// Inputs are the flags by which a definition carries what verifies its stages.
type Inputs struct {
	session.WorkerFlags
	Public   []string // variables that are no secrets
	Unpinned bool     // images whose contents are not known need not be carried
}

// placeFiles makes the paths that stages name, which are relative to the file of a definition,
// ones below the workspace.
func placeFiles(a *app.App, d *definition.Definition, file string) error {
	place := func(stage *definition.Stage, what string, path *string) error {
		at := filepath.Join(filepath.Dir(file), filepath.FromSlash(*path))
		below, err := session.ManifestBelow(a.Workspace, at)
		if err != nil {
			return exit.Usage("%s: stage %s: %s %s: %w", file, stage.Name, what, at, err)
		}
		*path = below
		return nil
	}
	for i := range d.Stages {
		stage := &d.Stages[i]
		if stage.Verify != "" {
			if err := place(stage, "verify", &stage.Verify); err != nil {
				return err
			}
		}
		if stage.Webhook != nil {
			if err := place(stage, "webhook.key_file", &stage.Webhook.KeyFile); err != nil {
				return err
			}
		}
		if stage.PullRequest != nil && stage.PullRequest.TokenFile != "" {
			if err := place(stage, "pull_request.token_file", &stage.PullRequest.TokenFile); err != nil {
				return err
			}
		}
	}
	return nil
}

// collectVerifying has the stages of a definition carry what verifies them, as it is now in the
// workspace. All is looked at that can be without a host.
func collectVerifying(ctx context.Context, a *app.App, e *environments.Environments, d *definition.Definition, inputs Inputs) error {
	for i := range d.Stages {
		if stage := &d.Stages[i]; stage.Verify != "" {
			vars, err := taskVariables(e, stage)
			if err == nil {
				err = collect(ctx, a, stage, vars, inputs)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// taskVariables are those of the tasks of an environment, which what verifies it knows, too.
func taskVariables(e *environments.Environments, stage *definition.Stage) (vars map[string]any, err error) {
	err = e.Ask(stage.Environment, func(s *environment.State) error {
		if !s.Exists() {
			return environments.ErrNoEnvironment
		}
		all := s.Revisions()
		vars = all[len(all)-1].Definition.Task.Vars
		return nil
	})
	if errors.Is(err, environments.ErrNoEnvironment) {
		return nil, exit.Usage("stage %s: verify: there is no environment %s yet, whose variables %s may read: create it first (deployster env create)", stage.Name, stage.Environment, stage.Verify)
	}
	return vars, err
}

// collect has a stage carry what verifies it.
func collect(ctx context.Context, a *app.App, stage *definition.Stage, vars map[string]any, inputs Inputs) error {
	pinning, err := session.Pinning(a, inputs.Input, inputs.Public)
	if err != nil {
		return err
	}
	text, err := work.ReadFile(filepath.Join(a.Workspace, filepath.FromSlash(stage.Verify)))
	if err != nil {
		return exit.Invalid(err)
	}
	source := manifest.Source{Name: stage.Verify, Data: text}
	known := environment.Verification{Environment: stage.Environment, Revision: 1, Hosts: []string{"host"}}.Variables()
	given, err := session.Assignments(a, inputs.Input, known)
	if err != nil {
		return err
	}
	collected, err := work.Collect(a.Workspace, nil, given, source)
	if err == nil {
		err = collected.Unchanged(a.Workspace)
	}
	if err != nil {
		return err
	}
	uses, err := collected.SecretUses(slices.Sorted(maps.Keys(vars))...)
	if err == nil {
		err = session.RefuseLogged(uses, inputs.Public)
	}
	if err != nil {
		return err
	}
	load := func() (*work.Input, error) {
		return pinning.Inputs.Load([]manifest.Source{source}, work.LoadOptions{
			Included: collected.Files.Files(), Assigned: append([]manifest.Assignment{}, collected.Assignments...), Last: vars, Builtin: known,
		})
	}
	in, err := load()
	if err == nil {
		err = in.Conflicts()
	}
	if err != nil {
		return err
	}
	policy, err := inputs.Engine.Policy()
	if err != nil {
		return err
	}
	ask, err := session.AskActions(a, inputs.WorkerFlags)
	if err != nil {
		return err
	}
	pool := session.OpenPool(a, inputs.WorkerFlags, a.Err)
	err = collected.Files.PinImages(ctx, work.ImagePinning{
		Ask: ask, Pool: pool, Policy: policy, Unpinned: inputs.Unpinned, Places: func(string) ([]work.Place, error) { return []work.Place{{Load: load}}, nil },
	}, source)
	if err := errors.Join(err, pool.Close()); err != nil {
		return err
	}
	if err := collected.Pin(pinning); err != nil {
		return err
	}
	stage.VerifyFiles = collected.Files.Digests()
	if err := pinning.Texts.KeepAll(collected.Files); err != nil {
		return fmt.Errorf("keeping what verifies stage %s: %w", stage.Name, err)
	}
	return nil
}
