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
	"github.com/deployster-go/deployster/manifest/vars"
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
		if stage.Targets != nil {
			if err := place(stage, "manifest", &stage.Targets.Manifest); err != nil {
				return err
			}
		}
		if stage.Webhook != nil {
			if err := place(stage, "webhook.key_file", &stage.Webhook.KeyFile); err != nil {
				return err
			}
		}
		for _, file := range stage.SecretFiles() {
			if err := place(stage, file.Key, file.Path); err != nil {
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
			c, err := verifying(e, d, stage)
			if err != nil {
				return err
			}
			if stage.VerifyFiles, err = collect(ctx, a, c, inputs); err != nil {
				return err
			}
		}
	}
	return nil
}

// verifying is what verifies a stage. Of one that is no environment it knows the revision, which is none yet.
func verifying(e *environments.Environments, d *definition.Definition, stage *definition.Stage) (*carrying, error) {
	if stage.Sighted() {
		return &carrying{
			stage: stage.Name, manifest: stage.Verify, vars: map[string]any{d.Promotion.Variable: "revision"}, partly: true,
			known: work.TargetVerification(d.Name, stage.Name, []string{"host"}),
		}, nil
	}
	vars, err := taskVariables(e, stage)
	return &carrying{
		stage: stage.Name, manifest: stage.Verify, vars: vars, last: vars,
		known: environment.Verification{Environment: stage.Environment, Revision: 1, Hosts: []string{"host"}}.Variables(),
	}, err
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

// carrying is a manifest that a stage carries.
type carrying struct {
	stage, manifest string
	vars            map[string]any // that others give it, by name
	last            map[string]any // those whose values are known
	known           map[string]any // what it knows, wherever it is
	partly          bool           // not all of its variables are known
	resources       []string       // of the manifest, where that is known
	places          func(load func(known map[string]any) (*work.Input, error)) ([]work.Place, error)
}

// collect returns the digests of what a manifest carries, which it keeps.
func collect(ctx context.Context, a *app.App, c *carrying, inputs Inputs) (map[string]string, error) {
	pinning, err := session.Pinning(a, inputs.Input, inputs.Public)
	if err != nil {
		return nil, err
	}
	text, err := work.ReadFile(filepath.Join(a.Workspace, filepath.FromSlash(c.manifest)))
	if err != nil {
		return nil, exit.Invalid(err)
	}
	source := manifest.Source{Name: c.manifest, Data: text}
	given, err := session.Assignments(a, inputs.Input, c.known, source)
	if err != nil {
		return nil, err
	}
	collected, err := work.Collect(a.Workspace, nil, given, source)
	if err == nil {
		err = collected.Unchanged(a.Workspace)
	}
	if err != nil {
		return nil, err
	}
	uses, err := collected.SecretUses(slices.Sorted(maps.Keys(c.vars))...)
	if err == nil {
		err = session.RefuseLogged(uses, inputs.Public)
	}
	if err != nil {
		return nil, err
	}
	loadAs := func(known, last map[string]any) (*work.Input, error) {
		return pinning.Inputs.Load([]manifest.Source{source}, work.LoadOptions{
			Included: collected.Files.Files(), Assigned: append([]vars.Assignment{}, collected.Assignments...), Last: last, Builtin: known, Partly: c.partly,
		})
	}
	load := func(known map[string]any) (*work.Input, error) { return loadAs(known, c.last) }
	in, err := load(c.known)
	if err == nil {
		err = in.Conflicts()
	}
	if err != nil {
		return nil, err
	}
	if c.partly && c.places != nil {
		if err := c.readsAll(func() (*work.Input, error) { return loadAs(c.known, c.vars) }); err != nil {
			return nil, err
		}
	}
	places := []work.Place{{Load: func() (*work.Input, error) { return load(c.known) }}}
	if c.places != nil {
		if places, err = c.places(load); err != nil {
			return nil, err
		}
	}
	policy, err := inputs.Engine.Policy()
	if err != nil {
		return nil, err
	}
	ask, err := session.AskActions(a, inputs.WorkerFlags)
	if err != nil {
		return nil, err
	}
	pool := session.OpenPool(a, inputs.WorkerFlags, a.Err)
	err = collected.Files.PinImages(ctx, work.ImagePinning{
		Ask: ask, Pool: pool, Policy: policy, Unpinned: inputs.Unpinned, Places: func(string) ([]work.Place, error) { return places, nil },
	}, source)
	if err := errors.Join(err, pool.Close()); err != nil {
		return nil, err
	}
	if err := collected.Pin(pinning); err != nil {
		return nil, err
	}
	if err := pinning.Texts.KeepAll(collected.Files); err != nil {
		return nil, fmt.Errorf("keeping what stage %s carries: %w", c.stage, err)
	}
	return collected.Files.Digests(), nil
}
