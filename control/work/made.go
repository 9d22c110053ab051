package work

import (
	"context"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/report"
)

// Records has the run record what it makes, so that it can be removed when the manifest no longer
// declares it.
func (r *Run) Records() {
	r.Control.Manifest, r.Control.Workspace, r.Control.Moved = r.files(), r.Workspace, r.Whole.Renamed
}

// files are those of the manifest, below the workspace: they are which manifest it is, whatever
// their order.
func (r *Run) files() []string {
	files := make([]string, 0, len(r.Whole.Files))
	for _, name := range r.Whole.Files {
		files = append(files, r.Below(name))
	}
	slices.Sort(files)
	return files
}

// Recall finds out what runs of the manifest made that it no longer declares. With prune the run
// removes that; only is what of it, by name, nil is all. A run that is removing destroys what the
// manifest declares.
func (r *Run) Recall(ctx context.Context, removing, prune bool, only []string) error {
	history, err := runs.ReadHistory(ctx, r.Control.Log)
	if err != nil {
		return err
	}
	of := r.Control.Owner()
	of.Manifest, of.Workspace = r.files(), r.Workspace // also of a run that records nothing
	moves := history.Moves(of, r.Whole.Renamed)
	r.Caller.Past = history.Moving(r.Control.Log, moves, r.Caller.Past)
	r.Spec.Prune = prune
	r.Spec.Undeclared = history.Undeclared(of, func(name string) bool {
		declared := r.Whole.Stands(name)
		return declared != nil && (declared.Late == nil || declared.Name != name) // that was another resource of the name
	})
	if err := r.unmoved(history, prune); err != nil {
		return err
	}
	// Which instances of late resources are declared is found out by the run.
	instances := history.Undeclared(of, func(name string) bool { return !r.isInstance(name) })
	r.Spec.Recalled = true
	r.Spec.Instances = instances
	if prune || removing {
		if r.Spec.Instances, err = r.open(history, instances, only); err != nil {
			return err
		}
	}
	if !prune {
		return nil
	}
	r.Identify()
	r.Spec.Undeclared, err = r.open(history, r.Spec.Undeclared, only)
	return err
}

// Identify has the run know what the types that ship manage of which there is one.
func (r *Run) Identify() {
	r.Spec.Thing = func(m *manifest.Manifest, res *manifest.Resource, config map[string]any) string {
		return shipped.Check{Manifest: m, Here: !r.Info.Remote}.Key(res, config)
	}
}

// unmoved notes of what is no longer declared that a move gives it a name which something else has. It
// is not to be removed then: whoever wrote the move meant to have it under that name.
func (r *Run) unmoved(history *runs.History, prune bool) error {
	refused := &manifest.Error{}
	for i, u := range r.Spec.Undeclared {
		now := r.Whole.Renamed(u.Name)
		taken, known := history.Thing(now)
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
	r.Spec.Instances, err = r.open(history, history.All(), nil)
	return err
}

// open finds out what it takes to remove things that runs made; only is which of them, by name, nil
// is all.
func (r *Run) open(history *runs.History, list []report.Undeclared, only []string) (kept []report.Undeclared, err error) {
	for _, u := range list {
		if only != nil && !slices.Contains(only, u.Name) {
			continue
		}
		thing, _ := history.Thing(u.Name)
		if u.Made, err = thing.Open(r.Control.Protected); err != nil {
			return nil, fmt.Errorf("what run %s made as %s may have to be removed, and what it takes to remove it is not known any more: %w", u.Run, u.Name, err)
		}
		if kin := r.Whole.Kin(u.Name); kin != nil {
			u.PreventDestroy = kin.PreventDestroy // what is declared now says so of all its instances
		}
		kept = append(kept, u)
	}
	return kept, nil
}
