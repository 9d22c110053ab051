package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner/report"
)

// made puts what a run makes into the form of the log.
func (r *Run) made(m *report.Made) (*Making, error) {
	config, err := json.Marshal(m.Config)
	if err != nil {
		return nil, fmt.Errorf("encoding its configuration: %w", err)
	}
	out := &Making{
		ManifestName: r.o.ManifestName, Manifest: r.o.Manifest, Workspace: r.o.Workspace, Machine: r.o.Machine,
		Type: m.Type, ImageID: m.ImageID, ImageDigest: m.ImageDigest, DependsOn: m.DependsOn,
		TimeoutMS: m.Timeout.Milliseconds(), PreventDestroy: m.PreventDestroy, File: m.Declared.File, Line: m.Declared.Line, Column: m.Declared.Column,
	}
	if r.o.Place == "" {
		out.Identity = &m.Identity
	}
	for _, p := range m.Plugs {
		out.Plugs = append(out.Plugs, madePlug(p))
	}
	if len(m.Secrets) == 0 && len(config) <= maxInline {
		out.Config = config
		return out, nil
	}
	if r.o.Protected == nil {
		return nil, errors.New("there is no place for what is secret in it")
	}
	ref, err := r.o.Protected.Put(secretConfig{config, m.Secrets})
	out.Protected = &ref
	return out, err
}

// recordMade appends an event that says what is made, and removes the protected document of what was made
// before, unless that is still to be removed. Whoever dies in between leaves a document to which nothing refers.
func (r *Run) recordMade(ctx context.Context, e deploylog.Event, p Data, m *report.Made) (err error) {
	_, resource, _ := parts(e.Target)
	if p.Made, err = r.made(m); err != nil {
		return fmt.Errorf("recording what is made of %s: %w", resource, err)
	}
	return r.changing(ctx, func() error { return appendEvent(ctx, r.o.Log, e, p) })
}

// changing appends an event that changes what is made, and removes the protected documents of what is gone then.
func (r *Run) changing(ctx context.Context, appends func() error) error {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	if err := r.history.Update(ctx); err != nil {
		return err
	}
	if err := appends(); err != nil {
		return err
	}
	r.history.losing = r.o.ID
	err := r.history.Update(ctx)
	lost := r.history.lost
	if r.history.losing, r.history.lost = "", nil; err != nil {
		return err
	}
	for _, t := range lost {
		// Of what is in a place others may know more than the history.
		if t.Protected != nil && len(t.Manifest) > 0 && r.o.Protected != nil && !slices.Contains(r.history.things[t.Name], t) {
			_ = r.o.Protected.Remove(*t.Protected) // at worst it is removed with what nothing refers to
		}
	}
	return nil
}

// own records of something that is as configured that it is of this manifest from now on: what another one had
// and declares no longer, and what no run made. What is recorded already changes where prevent_destroy does.
func (r *Run) own(ctx context.Context, e report.Event, p Data) error {
	m := e.Made()
	t, claimed, err := r.ofOwn(ctx, e.Resource, m.Identity)
	switch {
	case err != nil:
		return err
	case e.Took != nil:
		p.From = e.Took.Run
	case t != nil && t.Type == m.Type && t.ID == e.ID && r.outdated(t, m):
		p.From = t.Run
	case m.Identity.Key != "" && !claimed && (t == nil || t.ID != e.ID):
		owner := r.o.Owner()
		return appendEvent(ctx, r.o.Log, deploylog.Event{
			Deployment: r.o.ID, Target: resourceTarget(e.Resource), Revision: r.o.Revision, Name: EventResourceClaimed, Attempt: 1,
		}, Data{Of: &owner, Key: m.Identity.Key, Also: m.Identity.Also, ByAddress: m.Identity.ByAddress})
	default:
		return nil
	}
	return r.recordMade(ctx, deploylog.Event{
		Deployment: r.o.ID, Target: resourceTarget(e.Resource), Revision: r.o.Revision, Name: string(report.ResourceAdopted), Attempt: 1,
	}, Data{ID: p.ID, Took: p.Took, From: p.From}, m)
}

// ofOwn returns what the manifest has under a name, and whether it has anything that is the first thing of an identity.
func (r *Run) ofOwn(ctx context.Context, name string, id report.Identity) (t *Thing, claimed bool, err error) {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	if err = r.history.Update(ctx); err == nil {
		t, err = r.history.Thing(ctx, r.o.Owner(), name)
	}
	if err != nil {
		return nil, false, err
	}
	if id.Key == "" {
		return t, false, nil
	}
	for _, key := range id.Forms()[0] {
		list, err := r.history.WithKey(ctx, key)
		if err != nil || slices.ContainsFunc(list, func(other *Thing) bool { return other.Of(r.o.Owner()) }) {
			return t, err == nil, err
		}
	}
	return t, false, nil
}

// outdated reports whether what is recorded of a thing is to be recorded anew, though nothing is done to it.
func (r *Run) outdated(t *Thing, m *report.Made) bool {
	renamed := t.ManifestName != r.o.ManifestName || !slices.Equal(t.Manifest, r.o.Manifest)
	return t.Legacy || renamed || t.PreventDestroy != m.PreventDestroy || m.Identity.Key != "" && !slices.Equal(t.keys(), m.Identity.Recorded()) && !t.knowsMore(m.Identity)
}

// knowsMore reports whether an identity is that of a thing, but that the id of the engine could not be found out.
func (t *Thing) knowsMore(now report.Identity) bool {
	return t.Identity != nil && len(t.Identity.ByAddress) > 0 && len(now.ByAddress) == 0 && now.Covers(*t.Identity) && t.Identity.Covers(now)
}

// madeBefore is the run that made what is known by a name, for this manifest or another one; ""
// where none did.
func (r *Run) madeBefore(ctx context.Context, e report.Event) (string, error) {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	if e.Took != nil {
		return e.Took.Run, nil
	}
	t, err := r.history.Thing(ctx, r.o.Owner(), e.Resource)
	if t == nil {
		return "", err
	}
	return t.Run, nil
}

// recordMoves records the names that things of the manifest have from now on, with what is kept of them.
func (r *Run) recordMoves(ctx context.Context) error {
	owner := r.o.Owner()
	moves, ids, err := r.movesNow(ctx, owner) // and lets go of the lock: what is kept is read by way of what keeps it up to date
	if err != nil {
		return err
	}
	for _, from := range slices.Sorted(maps.Keys(moves)) {
		if err := r.recordMove(ctx, from, moves[from], Data{From: from, Of: &owner, ID: ids[moves[from]]}); err != nil {
			return err
		}
	}
	return nil
}

// recordMove records another name of a resource, and has what is kept of it be kept under that. The document stays the
// same. Whoever dies in between has it kept under both.
func (r *Run) recordMove(ctx context.Context, from, to string, p Data) error {
	kept := Kept{}
	if p.ID == "" { // else it is kept by its id
		var err error
		if kept, err = r.o.memory().lastKept(ctx, from, ""); err != nil {
			return err
		}
	}
	keeps := func(name string, now *Kept) error {
		if kept.None() {
			return nil
		}
		return appendEvent(ctx, r.o.Log, deploylog.Event{
			Deployment: r.o.ID, Target: resourceTarget(name), Revision: r.o.Revision, Name: string(report.ResourceKept), Attempt: attemptMoved,
		}, Data{Kept: now})
	}
	if err := keeps(to, &kept); err != nil {
		return err
	}
	err := appendEvent(ctx, r.o.Log, deploylog.Event{
		Deployment: r.o.ID, Target: resourceTarget(to), Revision: r.o.Revision, Name: EventResourceMoved, Attempt: 1,
	}, p)
	if err != nil {
		return err
	}
	return keeps(from, &Kept{})
}

// movesNow are the names to record, by the former ones, and the ids of what has them.
func (r *Run) movesNow(ctx context.Context, owner Owner) (moves, ids map[string]string, err error) {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	more, err := r.history.Moves(ctx, owner, r.o.Moved)
	if err == nil {
		err = r.history.Move(ctx, owner, more)
	}
	moves, ids = r.history.moves, map[string]string{}
	for _, name := range moves {
		var t *Thing
		if t, err = r.history.Thing(ctx, owner, name); err != nil {
			return nil, nil, err
		}
		if t != nil {
			ids[name] = t.ID
		}
	}
	r.history.moves = nil
	return moves, ids, err
}

// attemptMoved is that of what is kept under another name: types keep more in the same run.
const attemptMoved = 1 << 20
