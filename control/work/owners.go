package work

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/runner/taken"
)

// recordedIdentity finds out the identity of what a former version recorded without one.
func (r *Run) recordedIdentity(m runs.Making) *report.Identity {
	id := &report.Identity{Parts: map[string]string{"type": taken.Image(m.Type)}}
	res := &manifest.Resource{Type: m.Type}
	var plugs []*manifest.Plug
	for _, p := range m.Plugs {
		plugs = append(plugs, &manifest.Plug{Name: p.Name, Path: p.Path, ReadOnly: p.ReadOnly})
		id.Parts["plug "+p.Name] = p.Path
		if real, err := filepath.EvalSymlinks(p.Path); err == nil && !r.Info.Remote {
			id.Parts["plug "+p.Name] = real
		}
	}
	var config map[string]any
	if json.Unmarshal(m.Config, &config) != nil {
		return id // it is in a protected document
	}
	res.Config = config
	key, name, value := shipped.Check{Manifest: manifest.Recorded(res, plugs), Here: !r.Info.Remote}.Thing(res, config)
	if key != "" {
		id.Parts[name], id.Key = value, runner.IdentityKey(cmp.Or(r.Spec.EngineID, r.Spec.Where), r.Spec.Machine, m.Type, key)
		if r.Spec.EngineID != "" {
			id.ByAddress = []string{runner.IdentityKey(r.Spec.Where, r.Spec.Machine, m.Type, key)}
		}
	}
	return id
}

// oneOfItsName refuses a manifest whose name another one has that is there, too.
func (r *Run) oneOfItsName(ctx context.Context, history *runs.History) error {
	name, files := r.Whole.Name, r.owner().Manifest
	if name == "" {
		return nil
	}
	owners, err := history.Owners(ctx, r.Workspace)
	if err != nil {
		return err
	}
	others := map[string]bool{}
	for _, owner := range owners {
		if owner.Name != name || r.owner().SharesFiles(owner) {
			continue
		}
		for _, file := range owner.Manifest {
			if named(filepath.Join(r.Workspace, file)) == name {
				others[file] = true
			}
		}
	}
	if len(others) == 0 {
		return nil
	}
	other := slices.Sorted(maps.Keys(others))[0]
	return &manifest.Error{Problems: []manifest.Problem{{
		Position: manifest.Position{File: files[0]}, Path: "name",
		Message: fmt.Sprintf("%s has the name %s, too, so that each would remove what the other made: give one of them another name", other, name),
	}}}
}

// named is the name that a file says its manifest has; "" is none.
func named(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	var written struct {
		Name string `yaml:"name"`
	}
	if yaml.Unmarshal(text, &written) != nil {
		return ""
	}
	return written.Name
}

// left is what a manifest made that is gone, and that may have become this one: this one declares something by the
// name and of the type of something that it made. Nobody declares the rest of that.
func (r *Run) left(ctx context.Context, history *runs.History, declared runs.Declarations) (left []report.Undeclared, err error) {
	of := r.owner()
	owners, err := history.Owners(ctx, of.Workspace)
	if err != nil {
		return nil, err
	}
	made := map[string][]*runs.Thing{} // by manifest
	became := map[string]bool{}
	for _, owner := range owners {
		if owner.Is(of) || owner.SharesFiles(of) || !declared.Gone(owner) {
			continue
		}
		things, err := history.OfOwner(ctx, owner)
		if err != nil {
			return nil, err
		}
		for _, t := range things {
			name := owner.String()
			made[name] = append(made[name], t)
			if now := r.Whole.Stands(t.Name); now != nil && taken.Image(now.Type) == taken.Image(t.Type) && !t.Deposed {
				became[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(became)) {
		for _, t := range made[name] {
			if r.Whole.Stands(t.Name) == nil || t.Deposed {
				u := t.Undeclared()
				u.Of = name
				left = append(left, u)
			}
		}
	}
	return left, ctx.Err()
}

// noteSameNames notes which things of one name are several now, of which a former version knew one.
func (r *Run) noteSameNames(history *runs.History) {
	for name, things := range history.Former() {
		if r.Whole.Stands(name) == nil {
			continue
		}
		var who []string
		for _, t := range things {
			who = append(who, fmt.Sprintf("what run %s of %s made (%s)", t.Run, t.Owner(), t.Identity.Text()))
		}
		if len(who) > 1 {
			r.Control.Notice(fmt.Sprintf("%s: %s are different things from now on; a former version knew only the last", name, strings.Join(who, " and ")))
		}
	}
}

// noteUnknownMoves notes moves from other manifests of which the log knows nothing: the name of the manifest or that
// of the resource may be wrong.
func (r *Run) noteUnknownMoves(ctx context.Context, history *runs.History) error {
	for _, move := range r.Whole.Takes {
		to := manifest.Move{From: move.To, To: move.To}
		all, err := history.All(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(t *runs.Thing) bool {
			theirs := t.ManifestName == move.Manifest || strings.Join(t.Manifest, " ") == move.Manifest
			return theirs && move.Moves(t.Name) || to.Moves(t.Name) && t.Of(r.owner())
		}) {
			r.Control.Notice(fmt.Sprintf("%s: moved: no run of %s made %s, so %s is created; \"deployster list\" shows what runs made", move.Position, move.Manifest, move.From, move.To))
		}
	}
	return nil
}
