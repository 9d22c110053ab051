package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// Kept is what is kept of a resource, as the log has it: the last that it says counts. What
// may be secret is in a protected document, to which the log only refers. The zero Kept is
// nothing.
type Kept struct {
	Value     json.RawMessage `json:"value,omitempty"`
	Protected *protected.Ref  `json:"protected,omitempty"`
	Secrets   [][]string      `json:"secrets,omitempty"` // where there are values in it that are not to be seen, whatever its type says
}

// None reports whether nothing is kept.
func (k Kept) None() bool { return k.Protected == nil && len(k.Value) == 0 }

// Memory is what the log knows of resources for those who work on them.
type Memory struct {
	Log       deploylog.Log
	Protected *protected.Store
	Place     string // where the resources are; "" is none

	Pasts *Pasts // of the log; may be nil: they are read for each question
}

func (o Options) memory() Memory {
	return Memory{Log: o.Log, Protected: o.Protected, Place: o.Place, Pasts: o.Pasts}
}

// PastOf returns the past of the resources of a run.
func PastOf(o Options) runner.PastFunc {
	return o.memory().Past
}

// Past implements runner.PastFunc.
func (m Memory) Past(ctx context.Context, resource string, keeps bool) (p runner.Past, err error) {
	return m.PastOf(ctx, resource, "", keeps)
}

// PastOf is the past of a thing by its id, which is not the name of its resource; "" is that.
func (m Memory) PastOf(ctx context.Context, resource, id string, keeps bool) (p runner.Past, err error) {
	placed := invoke.Placed(resource, m.Place)
	k, err := m.known(ctx, placed, id)
	if err != nil {
		return p, err
	}
	if p.ID, p.Identity, p.Interrupted = id, k.identity, k.interrupted; keeps {
		p.Kept, p.Secrets, err = m.kept(ctx, placed, id)
	}
	return p, err
}

func (m Memory) known(ctx context.Context, placed, id string) (known, error) {
	pasts := m.Pasts
	if pasts == nil {
		pasts = NewPasts(m.Log)
	}
	return pasts.of(ctx, placed, id)
}

// kept is what is kept of a resource, by its name with its place or by the id that it has instead, and where
// there are values in it that are not to be seen; nil is nothing.
func (m Memory) kept(ctx context.Context, placed, id string) (object map[string]any, secrets [][]string, err error) {
	kept, err := m.lastKept(ctx, placed, id)
	if err != nil || kept.None() {
		return nil, nil, err
	}
	object, err = m.open(kept)
	if errors.Is(err, fs.ErrNotExist) { // something else may be kept by now
		again, failed := m.lastKept(ctx, placed, id)
		switch {
		case failed != nil:
			return nil, nil, failed
		case again.None():
			return nil, nil, nil
		case again.Protected == nil || *again.Protected != *kept.Protected:
			kept = again
			object, err = m.open(again)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("what is kept of %s cannot be read: %w; without it, deployster state forget %s", placed, err, placed)
	}
	return object, kept.Secrets, nil
}

// open returns what is kept as a document.
func (m Memory) open(k Kept) (object map[string]any, err error) {
	text := k.Value
	if k.Protected != nil {
		if m.Protected == nil {
			return nil, errors.New("protected documents are not at hand")
		}
		if err := m.Protected.Get(*k.Protected, &text); err != nil {
			return nil, err
		}
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber() // a number stays what it was, however large
	err = dec.Decode(&object)
	return object, err
}

// Recorded is what the log knows of a resource, to be shown.
type Recorded struct {
	Kept        Kept
	Shown       map[string]any // without secrets; {} for nothing
	Since       time.Time
	Run         string // that recorded it
	Interrupted bool
	ID          string // in all the world
}

// ErrNoSuchResource is wrapped where the log knows nothing of a resource.
var ErrNoSuchResource = errors.New("the log knows no such resource")

// Recorded returns what the log knows of a resource, by its name with its place, or by the id that it has instead.
func (m Memory) Recorded(ctx context.Context, placed, id string) (r Recorded, err error) {
	known := false
	for e, err := range m.Log.Read(ctx, deploylog.Filter{Target: resourceTarget(placed), Last: 1}) {
		if err != nil {
			return r, fmt.Errorf("reading what is known of %s: %w", placed, err)
		}
		known = e.Seq > 0
	}
	if !known {
		return r, fmt.Errorf("%w as %s; one of a pipeline or an environment is named with its place, such as %[2]s@host1 (deployster log list --target resource/)", ErrNoSuchResource, placed)
	}
	e, err := m.keptEvent(ctx, placed, id)
	if err != nil {
		return r, err
	}
	if p := DataOf(e); p.Kept != nil {
		r.Kept, r.Since, r.Run = *p.Kept, e.CreatedAt, e.Deployment
	}
	k, err := m.known(ctx, placed, id)
	if err != nil {
		return r, err
	}
	r.ID, r.Interrupted = invoke.ResourceID(m.Log.ID(), k.identity), k.interrupted
	kept, _, err := m.kept(ctx, placed, id)
	if err != nil {
		return r, err
	}
	r.Shown = map[string]any{}
	if r.Kept.Protected != nil { // no part of it is known to be none
		r.Shown, _ = masked(kept).(map[string]any)
	} else if kept != nil {
		r.Shown = kept
	}
	return r, nil
}

// masked has every value replaced, and keeps the names.
func masked(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for name, e := range v {
			c[name] = masked(e)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = masked(e)
		}
		return c
	default:
		return invoke.Masked
	}
}

// lastKept is what the log says last that is kept of a resource, by its name with its place or by the id that
// it has instead.
func (m Memory) lastKept(ctx context.Context, placed, id string) (k Kept, err error) {
	e, err := m.keptEvent(ctx, placed, id)
	if p := DataOf(e); err == nil && p.Kept != nil {
		k = *p.Kept
	}
	return k, err
}

// keptEvent is the event that says what is kept of a resource; the zero Event is none.
func (m Memory) keptEvent(ctx context.Context, placed, id string) (last deploylog.Event, err error) {
	k, err := m.known(ctx, placed, id)
	if err != nil || k.kept == 0 {
		return last, err
	}
	for e, err := range m.Log.Read(ctx, deploylog.Filter{After: k.kept - 1, Until: k.kept}) {
		if err != nil {
			return last, fmt.Errorf("reading what is kept of %s: %w", placed, err)
		}
		last = e
	}
	return last, nil
}

// keep puts what a resource has kept into the form of the log.
func (r *Run) keep(e report.Event) (*Kept, error) {
	if len(e.Keep) == 0 {
		return &Kept{}, nil
	}
	text, err := json.Marshal(e.Keep)
	if err != nil {
		return nil, fmt.Errorf("encoding what is kept of %s: %w", e.Resource, err)
	}
	if !e.Protect {
		return &Kept{Value: text, Secrets: e.Secrets}, nil
	}
	if r.o.Protected == nil {
		return nil, fmt.Errorf("what is kept of %s may be secret, and there is no place for it", e.Resource)
	}
	ref, err := r.o.Protected.Put(json.RawMessage(text))
	if err != nil {
		return nil, fmt.Errorf("what is kept of %s: %w", e.Resource, err)
	}
	return &Kept{Protected: &ref, Secrets: e.Secrets}, nil
}

// recordKept records what is kept of a resource from now on, and lets go of the protected
// document with what was kept before. What followed on something secret is protected, too: who
// knew of the secret may have been told so only once. Whoever dies in between leaves a document
// to which nothing refers.
func (r *Run) recordKept(ctx context.Context, e deploylog.Event, kept report.Event, p Data) error {
	_, placed, _ := parts(e.Target)
	before, err := r.o.memory().lastKept(ctx, placed, p.ID)
	if err != nil {
		return err
	}
	kept.Protect = kept.Protect || before.Protected != nil
	if p.Kept, err = r.keep(kept); err != nil {
		return err
	}
	if err := appendEvent(ctx, r.o.Log, e, p); err != nil {
		return err // it may be in the log all the same
	}
	if before.Protected != nil && r.o.Protected != nil {
		_ = r.o.Protected.Remove(*before.Protected) // at worst it is removed with what nothing refers to
	}
	return nil
}

// Forgotten is what was forgotten of a resource.
type Forgotten struct {
	Kept bool   // something was kept
	Made string // the run that made it; "" where none is known
}

// Forget has nothing kept of a resource, by its name with its place, and what runs made of it be nobody's,
// in the name of somebody. of is the manifest whose resource it is; nil is each that has one of the name.
// Nobody works on the resource meanwhile: else it fails with deploylog.ErrLocked.
func (m Memory) Forget(ctx context.Context, id, placed string, of *Owner, by map[string]string) (f Forgotten, err error) {
	target := resourceTarget(placed)
	unlock, err := m.Log.TryLock(string(target))
	if err != nil {
		return f, fmt.Errorf("locking resource %s: %w", placed, err)
	}
	defer unlock()
	history, err := ReadHistory(ctx, m.Log, nil)
	if err != nil {
		return f, err
	}
	named, err := history.Named(ctx, placed)
	if err != nil {
		return f, err
	}
	things := slices.DeleteFunc(slices.Clone(named), func(t *Thing) bool { return of != nil && !t.Of(*of) })
	if len(things) == 0 {
		run := ""
		if of == nil && strings.Contains(placed, "@") { // in a place nothing else may say that it was made
			if run, err = lastActor(ctx, m.Log, placed); err != nil {
				return f, err
			}
		}
		things = append(things, &Thing{Name: placed, Run: run})
	}
	for i, t := range things {
		if err := m.forgetThing(ctx, id, i+1, t, by, &f); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (m Memory) forgetThing(ctx context.Context, id string, attempt int, t *Thing, by map[string]string, f *Forgotten) error {
	e := deploylog.Event{Deployment: id, Target: resourceTarget(t.Name), Name: EventResourceForgotten, Attempt: attempt}
	kept, err := m.lastKept(ctx, t.Name, t.ID)
	if err != nil {
		return err
	}
	if t.Run != "" {
		p := Data{Details: by, ID: t.ID, Key: t.key()}
		if owner := t.Owner(); len(owner.Manifest) > 0 {
			p.Of = &owner
		}
		if err := m.forget(ctx, e, p, t.Protected); err != nil {
			return err
		}
		if !t.Claimed {
			f.Made = t.Run
		}
	}
	if kept.None() {
		return nil
	}
	e.Name = string(report.ResourceKept)
	err = m.forget(ctx, e, Data{Kept: &Kept{}, Details: by, ID: t.ID}, kept.Protected)
	f.Kept = f.Kept || err == nil
	return err
}

// forget records that something is not known any more, and removes the document of it. Whoever dies in
// between leaves one to which nothing refers.
func (m Memory) forget(ctx context.Context, e deploylog.Event, p Data, of *protected.Ref) error {
	if err := appendEvent(ctx, m.Log, e, p); err != nil || of == nil || m.Protected == nil {
		return err
	}
	return m.Protected.Remove(*of)
}
