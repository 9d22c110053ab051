package runs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// EventResourceMoved says that what runs made of a resource is that of another name from now on.
const EventResourceMoved = "resource-moved"

// EventResourceForgotten says that what runs made of a resource is nobody's from now on, though it may be there.
const EventResourceForgotten = "resource-forgotten"

// maxInline is how large a configuration may be, in bytes, that the log holds itself. Larger ones
// are in a protected document, as those with secrets are.
const maxInline = 64 << 10

// Making is what a run made of a resource, in the form of the log: whose it is, and what it takes to
// remove it when no manifest declares it any more.
type Making struct {
	Manifest       []string        `json:"manifest"` // files, sorted
	Workspace      string          `json:"workspace"`
	Machine        string          `json:"machine,omitempty"` // on which the run was
	Type           string          `json:"type"`
	ImageID        string          `json:"image_id,omitempty"`
	ImageDigest    string          `json:"image_digest,omitempty"`
	Config         json.RawMessage `json:"config,omitempty"` // where it is neither secret nor large
	Protected      *protected.Ref  `json:"protected,omitempty"`
	Plugs          []madePlug      `json:"plugs,omitempty"`
	DependsOn      []string        `json:"depends_on,omitempty"`
	TimeoutMS      int64           `json:"timeout_ms,omitempty"`
	PreventDestroy bool            `json:"prevent_destroy,omitempty"`
	Unremovable    bool            `json:"unremovable,omitempty"` // its type cannot remove it; only of what steps make
	Thing          string          `json:"thing,omitempty"`       // identifies what it is, see report.Same; only of what steps make
	File           string          `json:"file,omitempty"`        // where it was declared
	Line           int             `json:"line,omitempty"`
	Column         int             `json:"column,omitempty"`
}

type madePlug struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// secretConfig is a protected document.
type secretConfig struct {
	Config  json.RawMessage `json:"config"`
	Secrets [][]string      `json:"secrets,omitempty"`
}

// Thing is what a run made, and is there as far as the log knows.
type Thing struct {
	Making
	Run string
	At  time.Time
}

// History is what the runs of a log have made and not removed, by the names of the resources. Each
// name is that of one thing: who made it last has it. Runs by versions that record nothing of
// this are not in it.
type History struct {
	things map[string]Thing
	seq    int64 // of the last event that is in it
}

// ReadHistory reads it from the log. What is made in places, as by environments and pipelines, is of no
// manifest: these remove it themselves (ReadPlace).
func ReadHistory(ctx context.Context, log deploylog.Log) (*History, error) {
	var events []deploylog.Event
	mark := []byte(`"made":`)
	for _, name := range []string{string(report.ActionStarted), string(report.ResourceAdopted), EventResourceMoved, EventResourceForgotten, string(report.ResourceDestroyed)} {
		for e, err := range log.Read(ctx, deploylog.Filter{Name: name}) {
			if err != nil {
				return nil, fmt.Errorf("reading what runs have made: %w", err)
			}
			if name != string(report.ActionStarted) || bytes.Contains(e.Data, mark) {
				events = append(events, e)
			}
		}
	}
	slices.SortFunc(events, func(a, b deploylog.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	h := &History{things: map[string]Thing{}}
	for _, e := range events {
		h.fold(e)
	}
	return h, nil
}

// ReadPlace is what the log knows to have been made of resources in a place: those of instances that
// were found out in a run. Their names are without the place.
func ReadPlace(ctx context.Context, log deploylog.Log, place string, resources []string) (*History, error) {
	h := &History{things: map[string]Thing{}}
	for _, resource := range resources {
		var events []deploylog.Event
		placed := invoke.Placed(resource, place)
		for _, filter := range []deploylog.Filter{
			{Target: actionTarget(placed, ""), Name: string(report.ActionStarted)},
			{Target: resourceTarget(placed), Name: string(report.ResourceDestroyed)}, {Target: resourceTarget(placed), Name: EventResourceForgotten},
		} {
			for e, err := range log.Read(ctx, filter) {
				if err != nil {
					return nil, fmt.Errorf("reading what was made of %s: %w", placed, err)
				}
				events = append(events, e)
			}
		}
		slices.SortFunc(events, func(a, b deploylog.Event) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, e := range events {
			h.foldOf(resource, e)
		}
	}
	return h, nil
}

func (h *History) fold(e deploylog.Event) {
	_, resource, _ := parts(e.Target)
	h.foldOf(resource, e)
}

// foldOf folds an event of a resource.
func (h *History) foldOf(resource string, e deploylog.Event) {
	h.seq = e.Seq
	p := DataOf(e)
	switch {
	case e.Name == string(report.ResourceDestroyed), e.Name == EventResourceForgotten:
		delete(h.things, resource)
	case e.Name == EventResourceMoved:
		if t, ok := h.things[p.From]; ok {
			delete(h.things, p.From)
			h.things[resource] = t
		}
	case p.Made != nil:
		h.things[resource] = Thing{*p.Made, e.Deployment, e.CreatedAt}
	}
}

// Names are those of all things, sorted.
func (h *History) Names() []string { return slices.Sorted(maps.Keys(h.things)) }

// Thing is what was made under a name.
func (h *History) Thing(name string) (Thing, bool) {
	t, ok := h.things[name]
	return t, ok
}

// Moves are the names that things of a manifest get, by those that they had: to is the new name of
// an old one. What has been made under the new name by now stays what it is.
func (h *History) Moves(of Owner, to func(string) string) map[string]string {
	moves := map[string]string{}
	if to == nil {
		return moves
	}
	for _, name := range h.Names() {
		now := to(name)
		if _, taken := h.things[now]; now != name && !taken && h.things[name].Of(of) {
			moves[name] = now
		}
	}
	return moves
}

// Move gives things other names.
func (h *History) Move(moves map[string]string) {
	for from, to := range moves {
		h.things[to] = h.things[from]
		delete(h.things, from)
	}
}

// All is everything that is known to have been made, without what it takes to remove it.
func (h *History) All() (all []report.Undeclared) {
	for _, name := range h.Names() {
		all = append(all, h.things[name].undeclared(name))
	}
	return all
}

func (t Thing) undeclared(name string) report.Undeclared {
	return report.Undeclared{Name: name, Run: t.Run, At: t.At, Made: report.Made{Type: t.Type}}
}

// Undeclared is what runs of a manifest made and it no longer declares, without what it takes to
// remove it.
func (h *History) Undeclared(of Owner, declared func(string) bool) (all []report.Undeclared) {
	for _, name := range h.Names() {
		if t := h.things[name]; !declared(name) && t.Of(of) {
			all = append(all, t.undeclared(name))
		}
	}
	return all
}

// Open is all that is known of what was made.
func (m Making) Open(store *protected.Store) (report.Made, error) {
	out := report.Made{
		Type: m.Type, ImageID: m.ImageID, ImageDigest: m.ImageDigest, DependsOn: m.DependsOn,
		Timeout: time.Duration(m.TimeoutMS) * time.Millisecond, PreventDestroy: m.PreventDestroy,
	}
	out.Declared.File, out.Declared.Line, out.Declared.Column = m.File, m.Line, m.Column
	for _, p := range m.Plugs {
		out.Plugs = append(out.Plugs, report.MadePlug(p))
	}
	doc := secretConfig{Config: m.Config}
	if m.Protected != nil {
		if store == nil {
			return out, errors.New("protected documents are not at hand")
		}
		if err := store.Get(*m.Protected, &doc); err != nil {
			return out, err
		}
	}
	out.Secrets = doc.Secrets
	dec := json.NewDecoder(bytes.NewReader(doc.Config))
	dec.UseNumber()
	if err := dec.Decode(&out.Config); err != nil {
		return out, fmt.Errorf("reading its configuration: %w", err)
	}
	return out, nil
}

// made puts what a run makes into the form of the log.
func (r *Run) made(m *report.Made) (*Making, error) {
	config, err := json.Marshal(m.Config)
	if err != nil {
		return nil, fmt.Errorf("encoding its configuration: %w", err)
	}
	out := &Making{
		Manifest: r.o.Manifest, Workspace: r.o.Workspace, Machine: r.o.Machine, Type: m.Type, ImageID: m.ImageID, ImageDigest: m.ImageDigest, DependsOn: m.DependsOn,
		TimeoutMS: m.Timeout.Milliseconds(), PreventDestroy: m.PreventDestroy, File: m.Declared.File, Line: m.Declared.Line, Column: m.Declared.Column,
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

// recordMade appends an event that says what is made, and lets go of the protected document of what
// was made before under the name. Whoever dies in between leaves a document to which nothing refers.
func (r *Run) recordMade(ctx context.Context, e deploylog.Event, p Data, m *report.Made) (err error) {
	_, resource, _ := parts(e.Target)
	if p.Made, err = r.made(m); err != nil {
		return fmt.Errorf("recording what is made of %s: %w", resource, err)
	}
	if err := appendEvent(ctx, r.o.Log, e, p); err != nil {
		return err
	}
	r.letGo(resource, &Thing{*p.Made, r.o.ID, time.Time{}})
	return nil
}

// letGo puts a thing in the place of the one that was known by its name; nil is none.
func (r *Run) letGo(resource string, now *Thing) {
	r.mu.Lock()
	before, known := r.history.things[resource]
	delete(r.history.things, resource)
	if now != nil {
		r.history.things[resource] = *now
	}
	r.mu.Unlock()
	if known && before.Protected != nil && r.o.Protected != nil {
		_ = r.o.Protected.Remove(*before.Protected) // at worst it is removed with what nothing refers to
	}
}

// takeOver records that what another manifest made is of this one from now on, which declares the
// same by the same name, as after a file was renamed; and that what nothing removes may be removed
// by now, or the other way round. What no run made is nobody's, until it is adopted.
func (r *Run) takeOver(ctx context.Context, e report.Event) error {
	m := e.Made()
	r.mu.Lock()
	t, known := r.history.things[e.Resource]
	r.mu.Unlock()
	if !known || t.Type != m.Type || t.Of(r.o.Owner()) && t.PreventDestroy == m.PreventDestroy {
		return nil
	}
	was, err := t.Open(r.o.Protected)
	if err != nil {
		return nil //nolint:nilerr // what it was is not known any more, so it stays whose it is
	}
	a, failed := json.Marshal(was.Config)
	b, broken := json.Marshal(m.Config)
	if failed != nil || broken != nil || !bytes.Equal(a, b) {
		return nil
	}
	target := resourceTarget(e.Resource)
	return r.recordMade(ctx, deploylog.Event{
		Deployment: r.o.ID, Target: target, Revision: r.o.Revision, Name: string(report.ResourceAdopted), Attempt: 1,
	}, Data{From: t.Run}, m)
}

// madeBefore is the run that made what is known by a name, for this manifest or another one; ""
// where none did.
func (r *Run) madeBefore(resource string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.history.things[resource].Run
}

// recordMoves records the names that things of the manifest have from now on, with what is kept of them.
func (r *Run) recordMoves(ctx context.Context) error {
	moves := r.history.Moves(r.o.Owner(), r.o.Moved)
	for _, from := range slices.Sorted(maps.Keys(moves)) {
		err := appendEvent(ctx, r.o.Log, deploylog.Event{
			Deployment: r.o.ID, Target: resourceTarget(moves[from]), Revision: r.o.Revision, Name: EventResourceMoved, Attempt: 1,
		}, Data{From: from})
		if err == nil {
			err = r.moveKept(ctx, from, moves[from])
		}
		if err != nil {
			return err
		}
	}
	r.history.Move(moves)
	return nil
}

// attemptMoved is that of what is kept under another name: types keep more in the same run.
const attemptMoved = 1 << 20

// moveKept has what is kept of a resource kept under another name. The document stays the same.
func (r *Run) moveKept(ctx context.Context, from, to string) error {
	kept, err := LastKept(ctx, r.o.Log, from)
	if err != nil || kept.None() {
		return err
	}
	for name, now := range map[string]*Kept{to: &kept, from: {}} {
		err = errors.Join(err, appendEvent(ctx, r.o.Log, deploylog.Event{
			Deployment: r.o.ID, Target: resourceTarget(name), Revision: r.o.Revision, Name: string(report.ResourceKept), Attempt: attemptMoved,
		}, Data{Kept: now}))
	}
	return err
}
