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
	"strings"
	"sync"
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

// EventResourceClaimed says that a manifest declares a thing that was as configured and that no run made. No
// other manifest may manage it, and nothing removes it for being no longer declared.
const EventResourceClaimed = "resource-claimed"

// maxInline is how large a configuration may be, in bytes, that the log holds itself. Larger ones
// are in a protected document, as those with secrets are.
const maxInline = 64 << 10

// Making is what a run made of a resource, in the form of the log: whose it is, and what it takes to
// remove it when no manifest declares it any more.
type Making struct {
	ManifestName   string           `json:"manifest_name,omitempty"`
	Manifest       []string         `json:"manifest"` // files, sorted
	Workspace      string           `json:"workspace"`
	Machine        string           `json:"machine,omitempty"` // on which the run was
	Type           string           `json:"type"`
	Identity       *report.Identity `json:"identity,omitempty"`
	ImageID        string           `json:"image_id,omitempty"`
	ImageDigest    string           `json:"image_digest,omitempty"`
	Config         json.RawMessage  `json:"config,omitempty"` // where it is neither secret nor large
	Protected      *protected.Ref   `json:"protected,omitempty"`
	Plugs          []madePlug       `json:"plugs,omitempty"`
	DependsOn      []string         `json:"depends_on,omitempty"`
	TimeoutMS      int64            `json:"timeout_ms,omitempty"`
	PreventDestroy bool             `json:"prevent_destroy,omitempty"`
	Unremovable    bool             `json:"unremovable,omitempty"` // its type cannot remove it; only of what steps make
	Thing          string           `json:"thing,omitempty"`       // identifies what it is, see report.Same; only of what steps make
	File           string           `json:"file,omitempty"`        // where it was declared
	Line           int              `json:"line,omitempty"`
	Column         int              `json:"column,omitempty"`
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
	Name    string // of the resource
	ID      string // identifies it within the log; "" is by its name (see Pasts)
	Run     string
	At      time.Time
	Deposed bool // the resource of the name is another thing by now
	Legacy  bool // it was recorded by a former version, without its identity
	Claimed bool // no run made it: a manifest declares it, and it was as configured
}

// Owner is the manifest whose run made the thing last.
func (m Making) Owner() Owner {
	return Owner{Name: m.ManifestName, Manifest: m.Manifest, Workspace: m.Workspace, Machine: m.Machine}
}

// keys are those of all things that it is.
func (t *Thing) keys() []string {
	if t.Identity == nil {
		return nil
	}
	return t.Identity.Keys()
}

func (t *Thing) key() string {
	if t.Identity == nil {
		return ""
	}
	return t.Identity.Key
}

// Taken refers to a thing of another manifest.
type Taken struct {
	Of   Owner  `json:"of"`
	Name string `json:"name"`
	ID   string `json:"resource_id,omitempty"`
}

// History is what the runs of a log have made and not removed. A thing is known by the manifest that
// declares it, by the name of its resource there, and by what identifies it in the world: one manifest
// alone has it, which is the one that made or took it last. Runs by versions that record nothing of this
// are not in it.
type History struct {
	mu       sync.Mutex // of who shares it
	log      deploylog.Log
	identify func(Making) *report.Identity // of what was recorded without; may be nil
	placed   bool                          // of one place: whatever it holds is of one owner

	things map[string][]*Thing // by name, in the order in which they were made
	keys   map[string][]*Thing // by the Key of their Identity
	ids    map[string]int      // how many things have an id that is said
	named  map[string]Owner    // who was first to make something whose id is its name
	moves  map[string]string   // by the former name, of things whose new names the log does not have yet
	seq    int64               // of the last event that is in it
}

func newHistory(log deploylog.Log) *History {
	return &History{log: log, things: map[string][]*Thing{}, keys: map[string][]*Thing{}, ids: map[string]int{}, named: map[string]Owner{}}
}

// historyEvents are the names of the events that a History is made of.
var historyEvents = []string{
	string(report.ActionStarted), string(report.ResourceAdopted), EventResourceMoved, EventResourceForgotten, EventResourceClaimed, string(report.ResourceDestroyed),
}

// ReadHistory reads it from the log. What is made in places, as by environments and pipelines, is of no
// manifest: these remove it themselves (ReadPlace). identify finds out the identities of what was recorded
// without them, by former versions; it may be nil.
func ReadHistory(ctx context.Context, log deploylog.Log, identify func(Making) *report.Identity) (*History, error) {
	var events []deploylog.Event
	for _, name := range historyEvents {
		for e, err := range log.Read(ctx, deploylog.Filter{Name: name}) {
			if err != nil {
				return nil, fmt.Errorf("reading what runs have made: %w", err)
			}
			if name != string(report.ActionStarted) || makes(e) {
				events = append(events, e)
			}
		}
	}
	slices.SortFunc(events, func(a, b deploylog.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	h := newHistory(log)
	h.identify = identify
	for _, e := range events {
		if err := h.fold(ctx, e); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// makes reports whether an event may say what a run makes.
func makes(e deploylog.Event) bool { return bytes.Contains(e.Data, []byte(`"made":`)) }

// follow takes in an event that was read of the log for somebody else, unless it is known.
func (h *History) follow(ctx context.Context, e deploylog.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Seq <= h.seq {
		return nil
	}
	return h.foldNew(ctx, e)
}

// foldNew takes in any event of the log.
func (h *History) foldNew(ctx context.Context, e deploylog.Event) error {
	if slices.Contains(historyEvents, e.Name) && (e.Name != string(report.ActionStarted) || makes(e)) {
		if err := h.fold(ctx, e); err != nil {
			return err
		}
	}
	h.seq = e.Seq
	return nil
}

// Update reads what the log says since.
func (h *History) Update(ctx context.Context) error {
	for e, err := range h.log.Read(ctx, deploylog.Filter{After: h.seq}) {
		if err != nil {
			return fmt.Errorf("reading what runs have made: %w", err)
		}
		if err := h.foldNew(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// ReadPlace is what the log knows to have been made of resources in a place: those of instances that
// were found out in a run. Their names are without the place.
func ReadPlace(ctx context.Context, log deploylog.Log, place string, resources []string) (*History, error) {
	h := newHistory(log)
	h.placed = true
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
			if err := h.foldOf(ctx, resource, e); err != nil {
				return nil, err
			}
		}
	}
	return h, nil
}

func (h *History) fold(ctx context.Context, e deploylog.Event) error {
	_, resource, _ := parts(e.Target)
	return h.foldOf(ctx, resource, e)
}

// foldOf folds an event of a resource.
func (h *History) foldOf(ctx context.Context, resource string, e deploylog.Event) error {
	h.seq = e.Seq
	p := DataOf(e)
	switch {
	case e.Name == string(report.ResourceDestroyed), e.Name == EventResourceForgotten:
		return h.foldGone(ctx, resource, e, p)
	case e.Name == EventResourceMoved:
		h.foldMoved(resource, p)
	case e.Name == EventResourceClaimed && p.Of != nil:
		h.drop(func(t *Thing) bool { return t.Claimed && t.Owner().same(*p.Of) }, resource)
		h.add(&Thing{
			Making: Making{ManifestName: p.Of.Name, Manifest: p.Of.Manifest, Workspace: p.Of.Workspace, Machine: p.Of.Machine, Identity: &report.Identity{Key: p.Key, Also: p.Also}},
			Name:   resource, Run: e.Deployment, At: e.CreatedAt, Claimed: true,
		})
	case p.Made != nil:
		h.foldMade(resource, e, p)
	}
	return nil
}

// foldMade takes in that a run made something, or that a manifest has it from now on.
func (h *History) foldMade(resource string, e deploylog.Event, p Data) {
	recorded := p.Made.Identity != nil
	t := &Thing{Making: *p.Made, Name: resource, ID: p.ID, Run: e.Deployment, At: e.CreatedAt}
	if t.Legacy = !recorded && !h.placed; t.Legacy && h.identify != nil {
		t.Identity = h.identify(t.Making)
	}
	owner := t.Owner()
	if p.Took != nil {
		h.drop(func(was *Thing) bool { return was.ID == p.Took.ID && h.of(was, p.Took.Of) }, p.Took.Name)
	} else if p.From != "" { // a former version had it taken over by its name
		h.drop(func(was *Thing) bool { return was.Run == p.From && !h.of(was, owner) }, resource)
	}
	for _, key := range t.keys() {
		for _, was := range slices.Clone(h.keys[key]) {
			if !h.of(was, owner) {
				h.lose(was, *t.Identity)
			}
		}
	}
	for _, was := range slices.Clone(h.things[resource]) {
		switch {
		case !h.of(was, owner):
		case was.Claimed || t.replaces(was):
			h.remove(was)
		default:
			was.Deposed = true
		}
	}
	if _, known := h.named[resource]; !known && t.ID == "" {
		h.named[resource] = owner
	}
	h.add(t)
}

// lose takes in that what a thing was is another manifest's. Of a resource that manages several the rest stays.
func (h *History) lose(t *Thing, to report.Identity) {
	h.remove(t)
	if rest := t.Identity.Without(to); rest.Key != "" {
		t.Identity = &rest
		h.add(t)
	}
}

// replaces reports whether a thing is recorded anew. A former version gave what was made next under a name the same
// id.
func (t *Thing) replaces(was *Thing) bool {
	if t.ID == was.ID && t.Legacy && t.key() != "" && was.key() != "" {
		return was.key() == t.key()
	}
	return t.ID == was.ID
}

// of reports whether a thing is of a manifest, by what was recorded.
func (h *History) of(t *Thing, o Owner) bool { return h.placed || t.Owner().same(o) }

// foldGone takes in that something is gone, or nobody's.
func (h *History) foldGone(ctx context.Context, resource string, e deploylog.Event, p Data) error {
	list := h.things[resource]
	if p.Took != nil {
		h.drop(func(t *Thing) bool { return t.Owner().same(p.Took.Of) && t.ID == p.Took.ID }, p.Took.Name)
		return nil
	}
	if p.Of != nil {
		gone := slices.DeleteFunc(slices.Clone(list), func(t *Thing) bool { return !t.Owner().same(*p.Of) || t.ID != p.ID })
		for _, t := range gone {
			if len(gone) == 1 || p.Key == "" || t.key() == p.Key {
				h.remove(t)
			}
		}
		return nil
	}
	if e.Name == string(report.ResourceDestroyed) && len(list) > 1 && !h.placed {
		files, err := h.filesOf(ctx, e.Deployment)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(list, func(t *Thing) bool { return slices.Equal(t.Manifest, files) && !t.Deposed }); i >= 0 {
			h.remove(list[i])
			return nil
		}
		h.remove(list[len(list)-1])
		return nil
	}
	h.drop(func(*Thing) bool { return true }, resource)
	return nil
}

// filesOf are the files of the manifest of a run, sorted.
func (h *History) filesOf(ctx context.Context, run string) (files []string, err error) {
	for e, err := range h.log.Read(ctx, deploylog.Filter{Deployment: run, Name: string(report.RunStarted)}) {
		if err != nil {
			return nil, fmt.Errorf("reading of which manifest run %s was: %w", run, err)
		}
		_, names, _ := strings.Cut(string(e.Target), "/")
		files = slices.Sorted(slices.Values(strings.Split(names, "+")))
	}
	return files, nil
}

// foldMoved takes in that something has another name, or is another manifest's.
func (h *History) foldMoved(resource string, p Data) {
	from, to := p.Of, p.Of
	if p.Took != nil {
		from = &p.Took.Of
	}
	for _, t := range slices.Clone(h.things[p.From]) {
		if t.Deposed || from != nil && !t.Owner().same(*from) {
			continue
		}
		h.remove(t)
		if from == nil {
			h.drop(func(*Thing) bool { return true }, resource)
		}
		t.Name = resource
		if to != nil {
			t.ManifestName, t.Manifest, t.Workspace, t.Machine = to.Name, to.Manifest, to.Workspace, to.Machine
		}
		h.add(t)
	}
}

func (h *History) add(t *Thing) {
	h.things[t.Name] = append(h.things[t.Name], t)
	h.ids[t.ID]++
	for _, key := range t.keys() {
		h.keys[key] = append(h.keys[key], t)
	}
}

func (h *History) remove(t *Thing) {
	from := func(by map[string][]*Thing, name string) {
		list := slices.DeleteFunc(slices.Clone(by[name]), func(other *Thing) bool { return other == t })
		if by[name] = list; len(list) == 0 {
			delete(by, name)
		}
	}
	from(h.things, t.Name)
	h.ids[t.ID]--
	for _, key := range t.keys() {
		from(h.keys, key)
	}
}

// drop removes the things of a name that meet a condition.
func (h *History) drop(which func(*Thing) bool, name string) {
	for _, t := range slices.Clone(h.things[name]) {
		if which(t) {
			h.remove(t)
		}
	}
}

// Names are those of all things that runs made, sorted.
func (h *History) Names() (names []string) {
	for _, t := range h.All() {
		names = append(names, t.Name)
	}
	return slices.Compact(names)
}

// All is everything that runs have made and that is there, by name.
func (h *History) All() (all []*Thing) {
	for _, name := range slices.Sorted(maps.Keys(h.things)) {
		for _, t := range h.things[name] {
			if !t.Claimed {
				all = append(all, t)
			}
		}
	}
	return all
}

// Named are the things of a name, of whichever manifest.
func (h *History) Named(name string) []*Thing { return h.things[name] }

// Thing is what was made under a name of a manifest, and is what it is now.
func (h *History) Thing(of Owner, name string) (*Thing, bool) {
	list := h.things[name]
	for _, t := range slices.Backward(list) {
		if !t.Deposed && !t.Claimed && (h.placed || t.Of(of)) {
			return t, true
		}
	}
	return nil, false
}

// Others are the things of other manifests that are of a key, the newest first.
func (h *History) Others(of Owner, key string) (others []*Thing) {
	if key == "" {
		return nil
	}
	for _, t := range slices.Backward(h.keys[key]) {
		if !t.Of(of) {
			others = append(others, t)
		}
	}
	return others
}

// Called reports whether a thing of a manifest may have the name of its resource as its id: nothing else has that.
func (h *History) Called(of Owner, name string) bool {
	if h.ids[name] > 0 || slices.ContainsFunc(h.things[name], func(t *Thing) bool { return t.ID == "" && !t.Claimed && !t.Of(of) }) {
		return false
	}
	first, known := h.named[name]
	return !known || Thing{Making: Making{ManifestName: first.Name, Manifest: first.Manifest, Workspace: first.Workspace, Machine: first.Machine}}.Of(of)
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
		if now == name {
			continue
		}
		_, mine := h.Thing(of, name)
		if _, taken := h.Thing(of, now); mine && !taken {
			moves[name] = now
		}
	}
	return moves
}

// Move gives things of a manifest other names, which the log does not have yet.
func (h *History) Move(of Owner, moves map[string]string) {
	for _, from := range slices.Sorted(maps.Keys(moves)) {
		if t, ok := h.Thing(of, from); ok {
			if h.moves == nil {
				h.moves = map[string]string{}
			}
			h.moves[from] = moves[from]
			h.remove(t)
			t.Name = moves[from]
			h.add(t)
		}
	}
}

// Undeclared is a thing without what it takes to remove it.
func (t *Thing) Undeclared() report.Undeclared {
	u := report.Undeclared{Name: t.Name, Run: t.Run, At: t.At, ID: t.ID, Deposed: t.Deposed, Made: report.Made{Type: t.Type}}
	if t.Identity != nil {
		u.Identity = *t.Identity
	}
	return u
}

// Undeclared is what runs of a manifest made and it no longer declares, with what its resources were before
// they came to be another thing, without what it takes to remove it.
func (h *History) Undeclared(of Owner, declared func(string) bool) (all []report.Undeclared) {
	for _, t := range h.All() {
		if (h.placed || t.Of(of)) && (t.Deposed || !declared(t.Name)) {
			all = append(all, t.Undeclared())
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
	names := []string{resource}
	if p.Took != nil {
		names = append(names, p.Took.Name)
	}
	return r.changing(ctx, names, func() error { return appendEvent(ctx, r.o.Log, e, p) })
}

// changing appends an event that changes what is made under some names, and removes the protected documents of
// what is gone then.
func (r *Run) changing(ctx context.Context, names []string, appends func() error) error {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	if err := r.history.Update(ctx); err != nil {
		return err
	}
	var before []*Thing
	for _, name := range names {
		before = append(before, r.history.things[name]...)
	}
	if err := appends(); err != nil {
		return err
	}
	if err := r.history.Update(ctx); err != nil {
		return err
	}
	for _, t := range before {
		if t.Protected != nil && r.o.Protected != nil && !slices.Contains(r.history.things[t.Name], t) {
			_ = r.o.Protected.Remove(*t.Protected) // at worst it is removed with what nothing refers to
		}
	}
	return nil
}

// own records of something that is as configured that it is of this manifest from now on: what another one had
// and declares no longer, and what no run made. What is recorded already changes where prevent_destroy does.
func (r *Run) own(ctx context.Context, e report.Event, p Data) error {
	m := e.Made()
	r.history.mu.Lock()
	err := r.history.Update(ctx)
	t, known := r.history.Thing(r.o.Owner(), e.Resource)
	claimed := slices.ContainsFunc(r.history.keys[m.Identity.Key], func(other *Thing) bool { return other.Of(r.o.Owner()) })
	r.history.mu.Unlock()
	switch {
	case err != nil:
		return err
	case e.Took != nil:
		p.From = e.Took.Run
	case known && t.Type == m.Type && t.ID == e.ID && r.outdated(t, m):
		p.From = t.Run
	case m.Identity.Key != "" && !claimed && (!known || t.ID != e.ID):
		owner := r.o.Owner()
		return appendEvent(ctx, r.o.Log, deploylog.Event{
			Deployment: r.o.ID, Target: resourceTarget(e.Resource), Revision: r.o.Revision, Name: EventResourceClaimed, Attempt: 1,
		}, Data{Of: &owner, Key: m.Identity.Key, Also: m.Identity.Also})
	default:
		return nil
	}
	return r.recordMade(ctx, deploylog.Event{
		Deployment: r.o.ID, Target: resourceTarget(e.Resource), Revision: r.o.Revision, Name: string(report.ResourceAdopted), Attempt: 1,
	}, Data{ID: p.ID, Took: p.Took, From: p.From}, m)
}

// outdated reports whether what is recorded of a thing is to be recorded anew, though nothing is done to it.
func (r *Run) outdated(t *Thing, m *report.Made) bool {
	renamed := t.ManifestName != r.o.ManifestName || !slices.Equal(t.Manifest, r.o.Manifest)
	return t.Legacy || renamed || t.PreventDestroy != m.PreventDestroy || m.Identity.Key != "" && !slices.Equal(t.keys(), m.Identity.Keys())
}

// madeBefore is the run that made what is known by a name, for this manifest or another one; ""
// where none did.
func (r *Run) madeBefore(e report.Event) string {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	if e.Took != nil {
		return e.Took.Run
	}
	if t, known := r.history.Thing(r.o.Owner(), e.Resource); known {
		return t.Run
	}
	return ""
}

// recordMoves records the names that things of the manifest have from now on, with what is kept of them.
func (r *Run) recordMoves(ctx context.Context) error {
	owner := r.o.Owner()
	r.history.mu.Lock()
	r.history.Move(owner, r.history.Moves(owner, r.o.Moved))
	moves, ids := r.history.moves, map[string]string{}
	r.history.moves = nil
	for _, name := range moves {
		if t, ok := r.history.Thing(owner, name); ok {
			ids[name] = t.ID
		}
	}
	r.history.mu.Unlock() // what is kept is read by way of what keeps it up to date
	for _, from := range slices.Sorted(maps.Keys(moves)) {
		err := appendEvent(ctx, r.o.Log, deploylog.Event{
			Deployment: r.o.ID, Target: resourceTarget(moves[from]), Revision: r.o.Revision, Name: EventResourceMoved, Attempt: 1,
		}, Data{From: from, Of: &owner, ID: ids[moves[from]]})
		if err == nil && ids[moves[from]] == "" { // else it is kept by its id
			err = r.moveKept(ctx, from, moves[from])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// attemptMoved is that of what is kept under another name: types keep more in the same run.
const attemptMoved = 1 << 20

// moveKept has what is kept of a resource, which has its name as its id, kept under another name. The document
// stays the same.
func (r *Run) moveKept(ctx context.Context, from, to string) error {
	kept, err := r.o.memory().lastKept(ctx, from, "")
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
