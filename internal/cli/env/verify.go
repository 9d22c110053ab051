package env

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
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

// collectVerifying has a draft carry what verifies its steps: as it is now, or, where the
// draft has it of its base, as it is there, with images and variables that may be others.
// It returns nil where nothing verifies them, or all stays as it is in the base. All is looked
// at that can be without a host.
func collectVerifying(ctx context.Context, a *app.App, d *draft, base *definition.Definition, flags workFlags) (*work.Collection, error) {
	names := d.Deployment.Verifies()
	if len(names) == 0 {
		d.Deployment.VerifyFiles = nil
		return nil, nil
	}
	if d.Deployment.VerifyFiles != nil && !looksAgain(d, base, flags) {
		return nil, nil
	}
	pinning, err := session.Pinning(a, flags.Input, flags.allowLogged)
	if err != nil {
		return nil, err
	}
	variables := d.verification(slices.IndexFunc(d.Deployment.Steps, func(w definition.Wave) bool { return w.Verify != "" })).Variables()
	v, err := readVerifying(a, d.Definition, names, variables, pinning, flags)
	if err != nil {
		return nil, err
	}
	collected, sources := v.collected, v.sources
	d.Deployment.VerifyFiles = collected.Files.Digests()
	uses, err := collected.SecretUses(slices.Sorted(maps.Keys(d.Task.Vars))...)
	if err == nil {
		err = flags.refuseLoggedVerifying(uses, *d, base)
	}
	if err != nil {
		return nil, err
	}
	load := func(source manifest.Source, variables map[string]any) (*work.Input, error) {
		o := work.LoadOptions{
			Included: collected.Files.Files(), Assigned: append([]vars.Assignment{}, collected.Assignments...), Last: d.Task.Vars, Builtin: variables, Usage: &d.usage,
		}
		return pinning.Inputs.Load([]manifest.Source{source}, o)
	}
	places := map[string][]work.Place{}
	var inputs []*work.Input
	for _, source := range sources {
		for i, step := range d.Deployment.Steps {
			if step.Verify != source.Name {
				continue
			}
			in, err := load(source, d.verification(i).Variables())
			if err == nil {
				err = checkVerifying(in)
			}
			if err != nil {
				return nil, err
			}
			inputs = append(inputs, in)
		}
		places[source.Name] = []work.Place{{Load: func() (*work.Input, error) { return load(source, variables) }}}
	}
	policy, err := flags.Engine.Policy()
	if err != nil {
		return nil, err
	}
	ask, err := session.AskActions(a, flags.WorkerFlags)
	if err != nil {
		return nil, err
	}
	pool := session.OpenPool(a, flags.WorkerFlags, a.Err)
	err = collected.Files.PinImages(ctx, work.ImagePinning{
		Ask: ask, Pool: pool, Policy: policy, Unpinned: flags.allowUnpinned, Base: v.images,
		Places: func(name string) ([]work.Place, error) { return places[name], nil },
	}, sources...)
	if err == nil {
		err = acceptVerifying(ctx, a, pool, inputs, collected.Files, v.images != nil, flags)
	}
	if err := errors.Join(err, pool.Close()); err != nil {
		return nil, err
	}
	if v.variables != nil {
		collected.Files[revision.VariablesName] = v.variables
	} else if err := collected.Pin(pinning); err != nil {
		return nil, err
	}
	d.Deployment.VerifyFiles = collected.Files.Digests()
	return collected, nil
}

// verification is that of one of the steps of a draft, with hosts that it may have then. A
// made-up name stands for one where none is selected at present.
func (d *draft) verification(step int) environment.Verification {
	hosts := d.hosts[:min(len(d.hosts), definition.MostHosts(d.Deployment.Steps[:step+1], len(d.hosts)))]
	if len(hosts) == 0 {
		hosts = []string{"host"}
	}
	return environment.Verification{Environment: d.Name, Revision: 1, Step: step + 1, Hosts: hosts}
}

// checkVerifying refuses what would fail when a step is to be verified, as far as types that
// ship tell: the hosts of the step would have the new task by then.
func checkVerifying(in *work.Input) error {
	if err := in.Conflicts(); err != nil {
		return err
	}
	problems, err := shipped.Check{Manifest: in.Manifest, Variables: in.Variables, Expressions: in.Expressions}.Misuse()
	if err != nil || len(problems) == 0 {
		return err
	}
	return &work.InputError{Cause: &manifest.Error{Problems: manifest.Sorted(problems, in.Manifest.Files)}}
}

// acceptVerifying refuses what would fail when steps are to be verified, as far as types that
// do not ship tell, on the engine that is asked then. What a base carries was asked for when
// that was made, so it may do without an engine.
func acceptVerifying(ctx context.Context, a *app.App, pool *work.EnginePool, inputs []*work.Input, files work.Carried, ofBase bool, flags workFlags) error {
	inputs = slices.DeleteFunc(inputs, func(in *work.Input) bool {
		return !slices.ContainsFunc(in.Manifest.Resources, func(r *manifest.Resource) bool { return !strings.HasPrefix(r.Type, shipped.Prefix) })
	})
	if len(inputs) == 0 {
		return nil
	}
	images, err := revision.DecodeImages(files[revision.ImagesName])
	if err != nil {
		return err
	}
	on, err := pool.Answering(ctx, "")
	switch {
	case err != nil && ofBase:
		fmt.Fprintf(a.Err, "note: what verifies the steps is not asked whether it still fits: %s\n", view.Clean(err.Error()))
		return nil
	case err != nil:
		return fmt.Errorf("asking the types of what verifies the steps: %w", err)
	}
	for _, in := range inputs {
		if err := session.Accepted(ctx, a, flags.WorkerFlags, on, in, images.List()); err != nil {
			return fmt.Errorf("what verifies the steps: %w", err)
		}
	}
	return nil
}

// looksAgain reports whether what verifies the steps of a draft, which its base carries, may
// come to something else than it did there: the variables that it reads are others, or what
// is to be carried of it.
func looksAgain(d *draft, base *definition.Definition, flags workFlags) bool {
	return len(flags.Input.Variables)+len(flags.allowLogged) > 0 || flags.allowUnpinned || base == nil ||
		slices.ContainsFunc(definition.Diff(base, d.Definition), ofTask)
}

// verifying is what verifies steps, as it was read.
type verifying struct {
	sources   []manifest.Source
	collected *work.Collection
	variables []byte // as the base carries them; nil where they are to be those of now
	images    []byte // that the base carries; nil where they are to be those of now
}

// readVerifying reads what verifies the steps of a definition: what that carries already, as
// its base does, with the variables of now where some are given, else the files as they are.
func readVerifying(a *app.App, d *definition.Definition, names []string, builtin map[string]any, p work.Pinning, flags workFlags) (v verifying, err error) {
	var kept work.Carried
	if d.Deployment.VerifyFiles != nil {
		if kept, err = p.Texts.LoadAll(d.Deployment.VerifyFiles); err != nil {
			return v, err
		}
		v.images = kept[revision.ImagesName]
	}
	for _, name := range names {
		text, carried := kept[name]
		if !carried {
			if text, err = work.ReadFile(filepath.Join(a.Workspace, filepath.FromSlash(name))); err != nil {
				return v, exit.Invalid(err)
			}
		}
		v.sources = append(v.sources, manifest.Source{Name: name, Data: text})
	}
	var given []vars.Assignment
	if kept != nil && len(flags.Input.Variables) == 0 {
		v.variables = kept[revision.VariablesName]
	} else if given, err = session.Assignments(a, flags.Input, builtin, v.sources...); err != nil {
		return v, err
	}
	if v.collected, err = work.Collect(a.Workspace, kept, given, v.sources...); err != nil {
		return v, err
	}
	switch {
	case v.variables != nil:
		v.collected.Assignments, err = p.Inputs.Assignments(p.Texts, d.Deployment.VerifyFiles)
	case kept == nil:
		err = v.collected.Unchanged(a.Workspace)
	}
	return v, err
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
