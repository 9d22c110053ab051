package env

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/manifest"
)

// placeVerifying makes the paths of the manifests that verify steps, which are relative to a
// directory, ones below the workspace.
func placeVerifying(a *app.App, d *definition.Definition, dir, file string) error {
	for i := range d.Deployment.Steps {
		w := &d.Deployment.Steps[i]
		if w.Verify == "" {
			continue
		}
		at := filepath.Join(dir, filepath.FromSlash(w.Verify))
		below, err := session.ManifestBelow(a.Workspace, at)
		if err != nil {
			return exit.Usage("%s: deployment.steps[%d].verify %s: %w", file, i, at, err)
		}
		w.Verify = below
	}
	return nil
}

// collectVerifying has a draft carry what verifies its steps, as it is now; nil where it
// carries that already, or nothing does. All is looked at that can be without a host.
func collectVerifying(ctx context.Context, a *app.App, d *draft, base *definition.Definition, flags workFlags) (*work.Collection, error) {
	names := d.Deployment.Verifies()
	if len(names) == 0 {
		d.Deployment.VerifyFiles = nil
		return nil, nil
	}
	if d.Deployment.VerifyFiles != nil && len(flags.Input.Variables) == 0 {
		return nil, nil
	}
	var sources []manifest.Source
	for _, name := range names {
		text, err := work.ReadFile(filepath.Join(a.Workspace, filepath.FromSlash(name)))
		if err != nil {
			return nil, exit.Invalid(err)
		}
		sources = append(sources, manifest.Source{Name: name, Data: text})
	}
	variables := environment.Verification{Environment: d.Name, Step: 1}.Variables()
	given, err := session.Assignments(a, flags.Input, variables)
	if err != nil {
		return nil, err
	}
	collected, err := work.Collect(a.Workspace, nil, given, sources...)
	if err == nil {
		err = collected.Unchanged(a.Workspace)
	}
	if err != nil {
		return nil, err
	}
	d.Deployment.VerifyFiles = collected.Files.Digests()
	uses, err := collected.SecretUses(slices.Sorted(maps.Keys(d.Task.Vars))...)
	if err == nil {
		err = flags.refuseLoggedVerifying(uses, *d, base)
	}
	if err != nil {
		return nil, err
	}
	pinning, err := session.Pinning(a, flags.Input, flags.allowLogged)
	if err != nil {
		return nil, err
	}
	load := func(source manifest.Source) (*work.Input, error) {
		o := work.LoadOptions{
			Included: collected.Files.Files(), Assigned: append([]manifest.Assignment{}, collected.Assignments...), Last: d.Task.Vars, Builtin: variables,
		}
		return pinning.Inputs.Load([]manifest.Source{source}, o)
	}
	places := map[string][]work.Place{}
	for _, source := range sources {
		in, err := load(source)
		if err == nil {
			err = in.Conflicts()
		}
		if err != nil {
			return nil, err
		}
		places[source.Name] = []work.Place{{Load: func() (*work.Input, error) { return load(source) }}}
	}
	policy, err := flags.Engine.Policy()
	if err != nil {
		return nil, err
	}
	pool := session.OpenPool(a, flags.WorkerFlags, a.Err)
	err = collected.Files.PinImages(ctx, work.ImagePinning{
		Pool: pool, Policy: policy, Unpinned: flags.allowUnpinned, Places: func(name string) ([]work.Place, error) { return places[name], nil },
	}, sources...)
	if err := errors.Join(err, pool.Close()); err != nil {
		return nil, err
	}
	if err := collected.Pin(pinning); err != nil {
		return nil, err
	}
	d.Deployment.VerifyFiles = collected.Files.Digests()
	return collected, nil
}

// keepVerifying keeps what verifies the steps of a draft.
func keepVerifying(a *app.App, collected *work.Collection) error {
	if collected == nil {
		return nil
	}
	texts, err := a.Texts()
	if err != nil {
		return err
	}
	return texts.KeepAll(collected.Files)
}
