package work

import (
	"context"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/manifest"
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
// removes that; only is what of it, by name, nil is all.
func (r *Run) Recall(ctx context.Context, prune bool, only []string) error {
	history, err := runs.ReadHistory(ctx, r.Control.Log)
	if err != nil {
		return err
	}
	moves := history.Moves(r.files(), r.Workspace, r.Whole.Renamed)
	r.Caller.Past = history.Moving(r.Control.Log, moves, r.Caller.Past)
	r.Spec.Prune = prune
	r.Spec.Undeclared = history.Undeclared(r.files(), r.Workspace, func(name string) bool { return r.Whole.Resource(name) != nil })
	if !prune {
		return nil
	}
	r.Spec.Thing = func(m *manifest.Manifest, res *manifest.Resource, config map[string]any) string {
		return shipped.Check{Manifest: m, Here: !r.Info.Remote}.Key(res, config)
	}
	kept := r.Spec.Undeclared[:0]
	for _, u := range r.Spec.Undeclared {
		if only != nil && !slices.Contains(only, u.Name) {
			continue
		}
		thing, _ := history.Thing(u.Name)
		if u.Made, err = thing.Open(r.Control.Protected); err != nil {
			return fmt.Errorf("what run %s made as %s is no longer declared, and what it takes to remove it is not known any more: %w", u.Run, u.Name, err)
		}
		if prevents, known := r.Whole.PreventsDestroy(u.Name); known {
			u.PreventDestroy = prevents // what is declared now says so of all its instances
		}
		kept = append(kept, u)
	}
	r.Spec.Undeclared = kept
	return nil
}
