package work

import (
	"context"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// Records has the run record what it makes, so that it can be removed when the manifest no longer
// declares it.
func (r *Run) Records() {
	of := r.Owner()
	r.Control.ManifestName, r.Control.Manifest, r.Control.Workspace, r.Control.Moved = of.Name, of.Manifest, of.Workspace, r.Whole.Renamed
	r.Control.Identify = r.recordedIdentity
	r.identifies()
}

// Owner is the manifest as the log knows it: by its name, else by its files, whatever their order.
func (in *Input) Owner() runs.Owner {
	files := make([]string, 0, len(in.Whole.Files))
	for _, name := range in.Whole.Files {
		files = append(files, in.Below(name))
	}
	slices.Sort(files)
	return runs.Owner{Name: in.Whole.Name, Manifest: files, Workspace: in.Workspace}
}

// owner is Owner with the machine, also of a run that records nothing.
func (r *Run) owner() runs.Owner {
	of := r.Owner()
	of.Machine, of.Shared = r.Control.Machine, deploylog.Shared(r.Control.Log)
	return of
}

// Recall finds out what runs of the manifest made that it no longer declares, and what other manifests manage.
// With prune the run removes the former; only is what of it, by name, nil is all. A run that is removing destroys
// what the manifest declares.
func (r *Run) Recall(ctx context.Context, removing, prune bool, only []string) error {
	history, err := r.identified(ctx)
	if err != nil {
		return err
	}
	of := r.owner()
	if err := r.note(ctx, history); err != nil {
		return err
	}
	owned, err := r.Owned(ctx, history)
	if err != nil {
		return err
	}
	r.Caller.Past, r.Caller.Owners = owned.Past, owned
	r.Spec.Prune = prune
	var former []report.Undeclared
	undeclared, err := history.Undeclared(ctx, of, func(name string) bool {
		declared := r.Whole.Stands(name)
		return declared != nil && (declared.Late == nil || declared.Name != name) // that was another resource of the name
	})
	if err != nil {
		return err
	}
	for _, u := range undeclared {
		switch {
		case u.Deposed && r.Manifest.Stands(u.Name) != nil:
			former = append(former, u)
		case u.Deposed && r.Whole.Stands(u.Name) != nil: // it is no target
		default:
			r.Spec.Undeclared = append(r.Spec.Undeclared, u)
		}
	}
	if err := r.unmoved(ctx, history, prune); err != nil {
		return err
	}
	// Which instances of late resources are declared is found out by the run.
	instances, err := history.Undeclared(ctx, of, func(name string) bool { return !r.isInstance(name) })
	if err != nil {
		return err
	}
	instances = slices.DeleteFunc(instances, func(u report.Undeclared) bool { return u.Deposed })
	r.Spec.Recalled = true
	r.Spec.Instances = instances
	if r.Spec.Deposed, err = r.openPrevious(ctx, history, former); err != nil {
		return err
	}
	if prune || removing {
		if r.Spec.Instances, err = r.open(ctx, history, instances, only); err != nil {
			return err
		}
	}
	if !prune {
		return nil
	}
	r.Spec.Undeclared, err = r.open(ctx, history, r.Spec.Undeclared, only)
	return err
}

// identified is what runs have made, once it is known which engine and which manifest this is.
func (r *Run) identified(ctx context.Context) (*runs.History, error) {
	if err := r.Identify(ctx); err != nil {
		return nil, err
	}
	history, err := r.history(ctx)
	if err != nil {
		return nil, err
	}
	return history, r.oneOfItsName(ctx, history)
}

// note notes what whoever reads the plan is to know of what runs have made.
func (r *Run) note(ctx context.Context, history *runs.History) (err error) {
	r.noteSameNames(history)
	if err := r.noteUnknownMoves(ctx, history); err != nil {
		return err
	}
	r.Spec.Left, err = r.left(ctx, history, r.declarations())
	return err
}

// history is what runs have made. It is read once.
func (r *Run) history(ctx context.Context) (*runs.History, error) {
	if r.Control.History != nil {
		return r.Control.History, nil
	}
	history, err := runs.ReadHistory(ctx, r.Control.Log, r.recordedIdentity)
	r.Control.History = history
	return history, err
}

// Owned is what is known of the resources of the manifest, and of those of others.
func (r *Run) Owned(ctx context.Context, history *runs.History) (*runs.Owned, error) {
	of := r.owner()
	memory := runs.Memory{Log: r.Control.Log, Protected: r.Control.Protected, Pasts: r.Control.Pasts}
	moves, err := history.Moves(ctx, of, r.Whole.Renamed)
	if err != nil {
		return nil, err
	}
	past, err := history.Moving(ctx, of, moves, r.Caller.Past)
	if err != nil {
		return nil, err
	}
	owned := runs.NewOwned(history, of, r.Control.ID, memory, past)
	owned.Declares = r.declarations().Declares
	owned.Moved = r.Whole.Taking
	names := make([]string, 0, len(r.Manifest.Resources))
	for _, res := range r.Manifest.Resources {
		names = append(names, res.Name)
	}
	return owned, owned.Prepare(ctx, names)
}

func (r *Run) declarations() runs.Declarations {
	return runs.Declarations{Log: r.Control.Log, Of: r.owner(), Sent: r.Control.Carries != nil}
}

// openPrevious finds out what it takes to remove what resources were before they came to be another thing.
// prevent_destroy is what is declared now, which was asked when they came to be that.
func (r *Run) openPrevious(ctx context.Context, history *runs.History, list []report.Undeclared) ([]report.Undeclared, error) {
	var all []report.Undeclared
	for _, u := range list {
		opened, err := r.open(ctx, history, []report.Undeclared{u}, nil)
		if err != nil { // such as that of another machine
			r.Control.Notice(fmt.Sprintf("%v; remove it by hand if it is still there, then \"deployster list --orphans\" and \"deployster state forget\"", err))
			continue
		}
		if len(opened) > 0 {
			opened[0].PreventDestroy = false
		}
		all = append(all, opened...)
	}
	return all, nil
}

// identifies has the run know on which machine its things are.
func (r *Run) identifies() {
	if r.Info.Remote {
		r.Spec.Where = r.Info.Address
	} else if deploylog.Shared(r.Control.Log) {
		r.Spec.Machine = r.Control.Machine
	}
}

// Identify has the run know what the types that ship manage of which there is one. An engine on another machine is
// asked which one it is.
func (r *Run) Identify(ctx context.Context) (err error) {
	if r.Spec.EngineID == "" && r.Info.Remote && r.Recovery != nil {
		if r.Spec.EngineID, err = r.Recovery.ID(ctx); err != nil {
			return fmt.Errorf("the engine at %s does not say which one it is, so that what other manifests manage there is not known: %w; try again", r.Info.Address, err)
		}
	}
	r.Spec.Thing = func(m *manifest.Manifest, res *manifest.Resource, config map[string]any) runner.Thing {
		key, name, value := shipped.Check{Manifest: m, Here: !r.Info.Remote}.Thing(res, config)
		return runner.Thing{Key: key, Name: name, Value: value}
	}
	r.identifies()
	return nil
}

// unmoved notes of what is no longer declared that a move gives it a name which something else has. It
// is not to be removed then: whoever wrote the move meant to have it under that name.
func (r *Run) unmoved(ctx context.Context, history *runs.History, prune bool) error {
	refused := &manifest.Error{}
	for i, u := range r.Spec.Undeclared {
		now := r.Whole.Renamed(u.Name)
		if now == u.Name {
			continue
		}
		taken, err := history.Thing(ctx, r.owner(), now)
		if err != nil {
			return err
		}
		if taken == nil {
			continue
		}
		r.Spec.Undeclared[i].Unmoved = now
		refused.Problems = append(refused.Problems, manifest.Problem{Position: r.Whole.Moving(u.Name).Position, Path: "moved", Message: fmt.Sprintf(
			"%s is not moved to %s, which run %s made already, and --prune would remove it; remove the move if it is to go", u.Name, now, taken.Run)})
	}
	if prune && len(refused.Problems) > 0 {
		return refused
	}
	return nil
}

// isInstance reports whether a name may be that of an instance of a late resource.
func (r *Run) isInstance(name string) bool {
	late := r.Manifest.Stands(name)
	return late != nil && late.Name != name
}

// RecallPlaced finds out how the instances of late resources were made that the run is to remove, in a
// place whose runs record nothing else of what they make.
func (r *Run) RecallPlaced(ctx context.Context) error {
	removed := slices.DeleteFunc(slices.Clone(r.Spec.Remove), func(name string) bool { return !r.isInstance(name) })
	history, err := runs.ReadPlace(ctx, r.Control.Log, r.Control.Place, removed)
	if err != nil {
		return err
	}
	all, err := history.Undeclared(ctx, runs.Owner{}, func(string) bool { return false })
	if err == nil {
		r.Spec.Instances, err = r.open(ctx, history, all, nil)
	}
	return err
}

// open finds out what it takes to remove things that runs made; only is which of them, by name, nil
// is all.
func (r *Run) open(ctx context.Context, history *runs.History, list []report.Undeclared, only []string) (kept []report.Undeclared, err error) {
	for _, u := range list {
		if only != nil && !slices.Contains(only, u.Name) {
			continue
		}
		thing, err := history.Find(ctx, r.owner(), u)
		if err != nil {
			return nil, err
		}
		if thing == nil {
			continue // another run removed or changed it just now
		}
		identity := u.Identity
		if u.Made, err = thing.Open(r.Control.Protected); err != nil {
			return nil, fmt.Errorf("what run %s made as %s may have to be removed, and what it takes to remove it is not known any more: %w", u.Run, u.Name, err)
		}
		u.Identity = identity
		if kin := r.Whole.Kin(u.Name); kin != nil {
			u.PreventDestroy = kin.PreventDestroy // what is declared now says so of all its instances
		}
		kept = append(kept, u)
	}
	return kept, nil
}
