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
	r.Identify(ctx)
	history, err := r.history(ctx)
	if err != nil {
		return err
	}
	if err := r.oneOfItsName(history); err != nil {
		return err
	}
	of := r.owner()
	r.noteSameNames(history)
	r.noteUnknownMoves(history)
	if r.Spec.Left, err = r.left(ctx, history, r.declarations()); err != nil {
		return err
	}
	owned := r.Owned(history)
	r.Caller.Past, r.Caller.Owners = owned.Past, owned
	r.Spec.Prune = prune
	var former []report.Undeclared
	for _, u := range history.Undeclared(of, func(name string) bool {
		declared := r.Whole.Stands(name)
		return declared != nil && (declared.Late == nil || declared.Name != name) // that was another resource of the name
	}) {
		switch {
		case u.Deposed && r.Manifest.Stands(u.Name) != nil:
			former = append(former, u)
		case u.Deposed && r.Whole.Stands(u.Name) != nil: // it is no target
		default:
			r.Spec.Undeclared = append(r.Spec.Undeclared, u)
		}
	}
	if err := r.unmoved(history, prune); err != nil {
		return err
	}
	// Which instances of late resources are declared is found out by the run.
	instances := history.Undeclared(of, func(name string) bool { return !r.isInstance(name) })
	instances = slices.DeleteFunc(instances, func(u report.Undeclared) bool { return u.Deposed })
	r.Spec.Recalled = true
	r.Spec.Instances = instances
	if r.Spec.Deposed, err = r.openPrevious(history, former); err != nil {
		return err
	}
	if prune || removing {
		if r.Spec.Instances, err = r.open(history, instances, only); err != nil {
			return err
		}
	}
	if !prune {
		return nil
	}
	r.Spec.Undeclared, err = r.open(history, r.Spec.Undeclared, only)
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
func (r *Run) Owned(history *runs.History) *runs.Owned {
	of := r.owner()
	memory := runs.Memory{Log: r.Control.Log, Protected: r.Control.Protected, Pasts: r.Control.Pasts}
	owned := runs.NewOwned(history, of, r.Control.ID, memory, history.Moving(of, history.Moves(of, r.Whole.Renamed), r.Caller.Past))
	owned.Declares = r.declarations().Declares
	owned.Moved = r.Whole.Taking
	return owned
}

func (r *Run) declarations() runs.Declarations {
	return runs.Declarations{Log: r.Control.Log, Of: r.owner(), Sent: r.Control.Carries != nil}
}

// openPrevious finds out what it takes to remove what resources were before they came to be another thing.
// prevent_destroy is what is declared now, which was asked when they came to be that.
func (r *Run) openPrevious(history *runs.History, list []report.Undeclared) ([]report.Undeclared, error) {
	var all []report.Undeclared
	for _, u := range list {
		opened, err := r.open(history, []report.Undeclared{u}, nil)
		if err != nil { // such as that of another machine
			r.Control.Notice(fmt.Sprintf("%v; remove it by hand if it is still there, then \"deployster list --orphans\" and \"deployster state forget\"", err))
			continue
		}
		opened[0].PreventDestroy = false
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
func (r *Run) Identify(ctx context.Context) {
	if r.Spec.EngineID == "" && r.Info.Remote && r.Recovery != nil {
		r.Spec.EngineID = r.Recovery.Used(ctx).ID
	}
	r.Spec.Thing = func(m *manifest.Manifest, res *manifest.Resource, config map[string]any) runner.Thing {
		key, name, value := shipped.Check{Manifest: m, Here: !r.Info.Remote}.Thing(res, config)
		return runner.Thing{Key: key, Name: name, Value: value}
	}
	r.identifies()
}

// unmoved notes of what is no longer declared that a move gives it a name which something else has. It
// is not to be removed then: whoever wrote the move meant to have it under that name.
func (r *Run) unmoved(history *runs.History, prune bool) error {
	refused := &manifest.Error{}
	for i, u := range r.Spec.Undeclared {
		now := r.Whole.Renamed(u.Name)
		taken, known := history.Thing(r.owner(), now)
		if now == u.Name || !known {
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
	r.Spec.Instances, err = r.open(history, history.Undeclared(runs.Owner{}, func(string) bool { return false }), nil)
	return err
}

// open finds out what it takes to remove things that runs made; only is which of them, by name, nil
// is all.
func (r *Run) open(history *runs.History, list []report.Undeclared, only []string) (kept []report.Undeclared, err error) {
	for _, u := range list {
		if only != nil && !slices.Contains(only, u.Name) {
			continue
		}
		thing, identity := history.Find(u), u.Identity
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
