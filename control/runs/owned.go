package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// Owned is what the log knows of the resources of one manifest, and of what others manage, while a run is at
// work. It reads what is new with each question about a past, which comes first of each resource, and is safe for
// concurrent use.
type Owned struct {
	Of     Owner
	Run    string // that asks
	Memory Memory // of the log
	Places runner.PastFunc

	Moved    func(resource string) (manifest, from string)     // where a resource was made by another manifest, as this one says; may be nil
	Declares func(ctx context.Context, t *Thing) (bool, error) // whether the manifest of a thing still declares it

	history *History
}

// NewOwned returns what a history says. past is the past of resources by their names.
// Both read the log by way of the Pasts of the memory.
func NewOwned(h *History, of Owner, run string, m Memory, past runner.PastFunc) *Owned {
	m.Pasts.Follow(h)
	return &Owned{Of: of, Run: run, Memory: m, Places: past, history: h}
}

// Prepare reads at once what is going to be asked for of resources.
func (o *Owned) Prepare(ctx context.Context, resources []string) error {
	o.history.mu.Lock()
	err := o.history.Prepare(ctx, o.Of, resources)
	names := slices.Clone(resources)
	for _, name := range resources {
		if t := o.history.thing(o.Of, name); t != nil && t.ID != "" {
			names = append(names, t.ID)
		}
	}
	o.history.mu.Unlock()
	if err != nil {
		return err
	}
	return o.Memory.Pasts.Prepare(ctx, names)
}

// Past implements runner.PastFunc.
func (o *Owned) Past(ctx context.Context, resource string, keeps bool) (p runner.Past, err error) {
	if p, err = o.Places(ctx, resource, keeps); err != nil { // which brings the history up to date, too
		return p, err
	}
	t, id, err := o.thing(ctx, resource)
	if err != nil {
		return p, err
	}
	if id != "" {
		if p, err = o.Memory.PastOf(ctx, resource, id, keeps); err != nil {
			return p, err
		}
	}
	if t != nil {
		u := t.Undeclared()
		p.Made, p.Open = &u, func() (report.Made, error) { return t.Open(o.Memory.Protected) }
	}
	return p, err
}

// thing is what is known of a resource of the manifest, nil where nothing is, and the id that it has, or is to
// have; "" is its name.
func (o *Owned) thing(ctx context.Context, resource string) (*Thing, string, error) {
	o.history.mu.Lock()
	defer o.history.mu.Unlock()
	t, err := o.history.Thing(ctx, o.Of, resource)
	if err != nil {
		return nil, "", err
	}
	if t != nil {
		now := *t // it may change when the lock is given back
		return &now, t.ID, nil
	}
	if called, err := o.history.Called(ctx, o.Of, resource); err != nil || called {
		return nil, "", err
	}
	return nil, resource + "#" + o.Run, nil
}

// Other implements runner.Owners.
func (o *Owned) Other(ctx context.Context, key string) (*report.Owned, error) {
	var newest *report.Owned
	others, err := o.others(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, t := range others {
		other, err := o.told(ctx, t)
		if err != nil || other.Declares {
			return other, err
		}
		if newest == nil {
			newest = other
		}
	}
	return newest, nil
}

// copied are things as they are now.
func copied(things []*Thing) (all []*Thing) {
	for _, t := range things {
		now := *t
		all = append(all, &now)
	}
	return all
}

func (o *Owned) others(ctx context.Context, key string) ([]*Thing, error) {
	o.history.mu.Lock()
	defer o.history.mu.Unlock()
	others, err := o.history.Others(ctx, o.Of, key)
	return copied(others), err
}

// Ours implements runner.Owners.
func (o *Owned) Ours(ctx context.Context, key string) (ours []*report.Owned, err error) {
	o.history.mu.Lock()
	defer o.history.mu.Unlock()
	list, err := o.history.WithKey(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, t := range slices.Backward(list) {
		if t.Of(o.Of) && !t.Claimed {
			ours = append(ours, &report.Owned{Undeclared: t.Undeclared(), By: t.Owner().owned()})
		}
	}
	return ours, nil
}

// told is a thing of another manifest in the form of the runner.
func (o *Owned) told(ctx context.Context, t *Thing) (*report.Owned, error) {
	declares, err := o.Declares(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("finding out whether %s still declares %s: %w", t.Owner(), t.Name, err)
	}
	return &report.Owned{Undeclared: t.Undeclared(), By: t.Owner().owned(), Declares: declares && !t.Deposed, Claimed: t.Claimed}, nil
}

// Takes implements runner.Owners.
func (o *Owned) Takes(ctx context.Context, resource string, now *report.Made) (*report.Owned, error) {
	manifest, from := "", ""
	if o.Moved != nil {
		manifest, from = o.Moved(resource)
	}
	named, moved, err := o.takeable(ctx, resource, from, now)
	if err != nil {
		return nil, err
	}
	for _, t := range slices.Backward(moved) {
		if t.Deposed || t.Claimed || !o.isOther(t, manifest) {
			continue
		}
		other, err := o.told(ctx, t)
		if err == nil {
			other.Open = func() (report.Made, error) { return t.Open(o.Memory.Protected) }
		}
		return other, err
	}
	for _, t := range slices.Backward(named) {
		if t.Deposed || t.Claimed || t.Of(o.Of) || t.key() != "" || !alike(t, now, o.Memory.Protected) {
			continue
		}
		if other, err := o.told(ctx, t); err != nil || !other.Declares {
			return other, err
		}
	}
	return nil, nil
}

// isOther reports whether a thing is of another manifest as this one calls it.
func (o *Owned) isOther(t *Thing, manifest string) bool {
	owner := t.Owner()
	if manifest == "" || t.Of(o.Of) || owner.Workspace != o.Of.Workspace && t.Here(o.Of) {
		return false
	}
	return owner.Name == manifest || strings.Join(owner.Manifest, " ") == manifest
}

// takeable are the things that a resource may take over: what is of its name without a key and may be alike, and
// what is of the name that it has elsewhere.
func (o *Owned) takeable(ctx context.Context, resource, from string, now *report.Made) (named, moved []*Thing, err error) {
	o.history.mu.Lock()
	defer o.history.mu.Unlock()
	if now != nil {
		named, err = o.history.keyless(ctx, resource, likeness(now.Type, now.Config))
	}
	if err == nil && from != "" {
		moved, err = o.history.Named(ctx, from)
	}
	return copied(named), copied(moved), err
}

// alike reports whether something was made just as it is declared now.
func alike(t *Thing, now *report.Made, store *protected.Store) bool {
	if now == nil || t.Type != now.Type {
		return false
	}
	was, err := t.Open(store)
	if err != nil {
		return false
	}
	a, failed := json.Marshal(was.Config)
	b, broken := json.Marshal(now.Config)
	return failed == nil && broken == nil && bytes.Equal(a, b) && slices.EqualFunc(was.Plugs, now.Plugs, func(a, b report.MadePlug) bool { return a.Name == b.Name && a.Path == b.Path })
}

// Still implements runner.Owners.
func (o *Owned) Still(ctx context.Context, u report.Undeclared, by *report.OwnedBy) (bool, error) {
	owner := o.Of
	if by != nil {
		owner = ownerOf(*by)
	}
	o.history.mu.Lock()
	defer o.history.mu.Unlock()
	named, err := o.history.Named(ctx, u.Name)
	return slices.ContainsFunc(named, func(t *Thing) bool { return t.ID == u.ID && t.Run == u.Run && t.Of(owner) }), err
}

// Update implements runner.Owners.
func (o *Owned) Update(ctx context.Context) error {
	o.history.mu.Lock()
	defer o.history.mu.Unlock()
	return o.history.Update(ctx)
}

// PastOf implements runner.Owners.
func (o *Owned) PastOf(ctx context.Context, u report.Undeclared, keeps bool) (runner.Past, error) {
	return o.Memory.PastOf(ctx, u.Name, u.ID, keeps)
}

// Find returns the thing of a manifest that something undeclared is; nil is none.
func (h *History) Find(ctx context.Context, of Owner, u report.Undeclared) (*Thing, error) {
	if !h.placed {
		if err := h.sure(ctx, func() error { return h.findOwn(ctx, of) }); err != nil {
			return nil, err
		}
	}
	for _, t := range h.things[u.Name] {
		if t.ID == u.ID && t.Run == u.Run && t.Deposed == u.Deposed && t.key() == u.Identity.Key {
			return t, nil
		}
	}
	return nil, nil
}
