package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

	pasts *Pasts // nil: each question reads the log
}

func (o Options) memory() Memory {
	return Memory{Log: o.Log, Protected: o.Protected, Place: o.Place, pasts: o.Pasts}
}

// PastOf returns the past of the resources of a run.
func PastOf(o Options) runner.PastFunc {
	return o.memory().Past
}

// Past implements runner.PastFunc.
func (m Memory) Past(ctx context.Context, resource string, keeps bool) (p runner.Past, err error) {
	placed := invoke.Placed(resource, m.Place)
	k, err := m.known(ctx, placed)
	if err != nil {
		return p, err
	}
	if p.Identity, p.Interrupted = k.identity, k.interrupted; keeps {
		p.Kept, p.Secrets, err = m.kept(ctx, placed)
	}
	return p, err
}

func (m Memory) known(ctx context.Context, placed string) (known, error) {
	pasts := m.pasts
	if pasts == nil {
		pasts = NewPasts(m.Log)
	}
	return pasts.of(ctx, placed)
}

// kept is what is kept of a resource, by its name with its place, and where there are values in it
// that are not to be seen; nil is nothing.
func (m Memory) kept(ctx context.Context, placed string) (object map[string]any, secrets [][]string, err error) {
	kept, err := m.lastKept(ctx, placed)
	if err != nil || kept.None() {
		return nil, nil, err
	}
	object, err = m.open(kept)
	if errors.Is(err, fs.ErrNotExist) { // something else may be kept by now
		again, failed := m.lastKept(ctx, placed)
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
}

// ErrNoSuchResource is wrapped where the log knows nothing of a resource.
var ErrNoSuchResource = errors.New("the log knows no such resource")

// Recorded returns what the log knows of a resource, by its name with its place.
func (m Memory) Recorded(ctx context.Context, placed string) (r Recorded, err error) {
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
	e, err := lastKept(ctx, m.Log, placed, deploylog.Filter{})
	if err != nil {
		return r, err
	}
	if p := DataOf(e); p.Kept != nil {
		r.Kept, r.Since, r.Run = *p.Kept, e.CreatedAt, e.Deployment
	}
	k, err := m.known(ctx, placed)
	if err != nil {
		return r, err
	}
	r.Interrupted = k.interrupted
	kept, _, err := m.kept(ctx, placed)
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

// lastKept is LastKept, by way of what was read before.
func (m Memory) lastKept(ctx context.Context, placed string) (Kept, error) {
	if m.pasts == nil {
		return LastKept(ctx, m.Log, placed)
	}
	k, err := m.pasts.of(ctx, placed)
	if err != nil || k.kept == 0 {
		return Kept{}, err
	}
	return keptIn(ctx, m.Log, placed, deploylog.Filter{After: k.kept - 1, Until: k.kept})
}

// keptIn is what the log says last that is kept of a resource, in a part of it.
func keptIn(ctx context.Context, log deploylog.Log, placed string, f deploylog.Filter) (k Kept, err error) {
	e, err := lastKept(ctx, log, placed, f)
	if p := DataOf(e); err == nil && p.Kept != nil {
		k = *p.Kept
	}
	return k, err
}

// LastKept is what the log says that is kept of a resource, by its name with its place.
func LastKept(ctx context.Context, log deploylog.Log, placed string) (k Kept, err error) {
	return keptIn(ctx, log, placed, deploylog.Filter{})
}

func lastKept(ctx context.Context, log deploylog.Log, placed string, f deploylog.Filter) (last deploylog.Event, err error) {
	f.Target, f.Name, f.Last = resourceTarget(placed), string(report.ResourceKept), 1
	for e, err := range log.Read(ctx, f) {
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
	before, err := r.o.memory().lastKept(ctx, placed)
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
// in the name of somebody. Nobody works on the resource meanwhile: else it fails with deploylog.ErrLocked.
func (m Memory) Forget(ctx context.Context, id, placed string, by map[string]string) (f Forgotten, err error) {
	target := resourceTarget(placed)
	unlock, err := m.Log.TryLock(string(target))
	if err != nil {
		return f, fmt.Errorf("locking resource %s: %w", placed, err)
	}
	defer unlock()
	kept, err := LastKept(ctx, m.Log, placed)
	if err != nil {
		return f, err
	}
	history, err := ReadHistory(ctx, m.Log)
	if err != nil {
		return f, err
	}
	made, known := history.Thing(placed)
	if !known {
		if made.Run, err = lastActor(ctx, m.Log, placed); err != nil {
			return f, err
		}
	}
	if made.Run != "" {
		err := m.forget(ctx, deploylog.Event{Deployment: id, Target: target, Name: EventResourceForgotten, Attempt: 1}, Data{Details: by}, made.Protected)
		if err != nil {
			return f, err
		}
		f.Made = made.Run
	}
	if kept.None() {
		return f, nil
	}
	err = m.forget(ctx, deploylog.Event{Deployment: id, Target: target, Name: string(report.ResourceKept), Attempt: 1}, Data{Kept: &Kept{}, Details: by}, kept.Protected)
	f.Kept = err == nil
	return f, err
}

// forget records that something is not known any more, and removes the document of it. Whoever dies in
// between leaves one to which nothing refers.
func (m Memory) forget(ctx context.Context, e deploylog.Event, p Data, of *protected.Ref) error {
	if err := appendEvent(ctx, m.Log, e, p); err != nil || of == nil || m.Protected == nil {
		return err
	}
	return m.Protected.Remove(*of)
}
