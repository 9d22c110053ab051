package runs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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

	order int64 // in which things were made
}

// Owner is the manifest whose run made the thing last.
func (m Making) Owner() Owner {
	return Owner{Name: m.ManifestName, Manifest: m.Manifest, Workspace: m.Workspace, Machine: m.Machine}
}

// keys are those by which it is found.
func (t *Thing) keys() []string {
	if t.Identity == nil {
		return nil
	}
	return t.Identity.Recorded()
}

func (m *Making) give(o Owner) {
	m.ManifestName, m.Manifest, m.Workspace, m.Machine = o.Name, o.Manifest, o.Workspace, o.Machine
}

func (t *Thing) key() string {
	if t.Identity == nil {
		return ""
	}
	return t.Identity.Key
}

// pageID identifies the page that a thing is on: that of its owner, or of its place.
func (t *Thing) pageID() string { return pageID(t.Owner(), t.Name) }

func pageID(o Owner, name string) string {
	if o.Name == "" && len(o.Manifest) == 0 {
		return name[strings.LastIndexByte(name, '@')+1:]
	}
	text := sha256.Sum256([]byte(strings.Join(append([]string{o.Name, o.Workspace, o.Machine}, o.Manifest...), "\x00")))
	return hex.EncodeToString(text[:12])
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
//
// It reads what it is asked about from an index of the log, where that has one.
type History struct {
	mu       sync.Mutex // of who shares it
	log      deploylog.Log
	identify func(Making) *report.Identity // of what was recorded without; may be nil
	placed   bool                          // of one place: whatever it holds is of one owner

	indexed
	asked   map[string]bool     // what of the index is here
	pages   map[string]*page    // by pageID
	same    map[string][]*page  // by sameFiles, and by the name of the manifest
	things  map[string][]*Thing // by name, in the order in which they were made
	keys    map[string][]*Thing // by the Key of their Identity
	ids     map[string]int      // how many things have an id that is said
	first   lazy[Owner]         // who was first to make something whose id is its name
	moves   map[string]string   // by the former name, of things whose new names the log does not have yet
	moving  Owner               // whose these are
	seq     int64               // of the last event that is in it
	order   int64               // of the next thing
	folding string              // the run whose event is taken in

	hadFormer bool            // something was in it that a former version recorded
	changed   map[string]bool // pages that are other than in the index
	losing    string          // the run whose next event is watched for what it removes; "" is none
	lost      []*Thing        // what that removed
}

func newHistory(log deploylog.Log) *History {
	h := &History{log: log}
	h.clear()
	return h
}

func (h *History) clear() {
	h.asked, h.pages, h.same, h.changed, h.ids = map[string]bool{}, map[string]*page{}, map[string][]*page{}, map[string]bool{}, map[string]int{}
	h.things, h.keys, h.first = map[string][]*Thing{}, map[string][]*Thing{}, newLazy[Owner](underFirst)
	h.seq, h.order = h.base, h.base<<16+1<<15
	h.losing, h.lost = "", nil // it cannot be told any more
}

// historyEvents are the names of the events that a History is made of.
var historyEvents = []string{
	string(report.ActionStarted), string(report.ResourceAdopted), EventResourceMoved, EventResourceForgotten, EventResourceClaimed, string(report.ResourceDestroyed),
}

// ReadHistory reads it from the log. What is made in places, as by environments and pipelines, is of no
// manifest: these remove it themselves (ReadPlace). identify finds out the identities of what was recorded
// without them, by former versions; it may be nil.
func ReadHistory(ctx context.Context, log deploylog.Log, identify func(Making) *report.Identity) (*History, error) {
	index, err := indexOf(ctx, log, identify)
	if err != nil {
		return nil, fmt.Errorf("reading what runs have made: %w", err)
	}
	return readHistory(ctx, log, index, identify)
}

func readHistory(ctx context.Context, log deploylog.Log, index deploylog.Index, identify func(Making) *report.Identity) (*History, error) {
	h := newHistory(log)
	h.identify = identify
	if h.index = index; index == nil {
		return h, h.readAll(ctx)
	}
	h.base = unread
	return h, h.sure(ctx, func() error { return nil })
}

// readAll reads all of the log.
func (h *History) readAll(ctx context.Context) error {
	var events []deploylog.Event
	for _, name := range historyEvents {
		for e, err := range h.log.Read(ctx, deploylog.Filter{Name: name}) {
			if err != nil {
				return fmt.Errorf("reading what runs have made: %w", err)
			}
			if name != string(report.ActionStarted) || makes(e) {
				events = append(events, e)
			}
		}
	}
	slices.SortFunc(events, func(a, b deploylog.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range events {
		if err := h.fold(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// start begins with what the index says, if there is one.
func (h *History) start(ctx context.Context) error {
	h.clear()
	if h.index == nil {
		if err := h.readAll(ctx); err != nil {
			return err
		}
	}
	if err := h.update(ctx); err != nil {
		return err
	}
	return h.move(ctx, h.moving, h.moves)
}

// sure does something for which the index may be read.
func (h *History) sure(ctx context.Context, do func() error) error {
	return h.indexed.sure(ctx, func() error { return h.start(ctx) }, do)
}

// makes reports whether an event may say what a run makes.
func makes(e deploylog.Event) bool { return bytes.Contains(e.Data, []byte(`"made":`)) }

// follow takes in an event that was read of the log for somebody else, unless it is known.
func (h *History) follow(ctx context.Context, e deploylog.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sure(ctx, func() error {
		if e.Seq <= h.seq {
			return nil
		}
		return h.foldNew(ctx, e)
	})
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
	return h.sure(ctx, func() error { return h.update(ctx) })
}

func (h *History) update(ctx context.Context) error {
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
	h.seq, h.order, h.folding = e.Seq, e.Seq<<16, e.Deployment
	p := DataOf(e)
	switch {
	case e.Name == string(report.ResourceDestroyed), e.Name == EventResourceForgotten:
		return h.foldGone(ctx, resource, e, p)
	case e.Name == EventResourceMoved:
		return h.foldMoved(ctx, resource, p)
	case e.Name == EventResourceClaimed && p.Of != nil:
		if err := h.findSame(ctx, *p.Of, resource); err != nil {
			return err
		}
		h.drop(func(t *Thing) bool { return t.Claimed && t.Owner().same(*p.Of) }, resource)
		t := &Thing{Making: Making{Identity: &report.Identity{Key: p.Key, Also: p.Also, ByAddress: p.ByAddress}}, Name: resource, Run: e.Deployment, At: e.CreatedAt, Claimed: true}
		t.give(*p.Of)
		h.add(t)
	case p.Made != nil:
		return h.foldMade(ctx, resource, e, p)
	}
	return nil
}

// foldMade takes in that a run made something, or that a manifest has it from now on.
func (h *History) foldMade(ctx context.Context, resource string, e deploylog.Event, p Data) error {
	t := &Thing{Making: *p.Made, Name: resource, ID: p.ID, Run: e.Deployment, At: e.CreatedAt}
	if t.Legacy = t.Identity == nil && len(t.Manifest) > 0 && !h.placed; t.Legacy && h.identify != nil {
		t.Identity = h.identify(t.Making)
	}
	h.hadFormer = h.hadFormer || t.Legacy
	owner := t.Owner()
	if err := h.findSame(ctx, owner, resource); err != nil {
		return err
	}
	if err := h.dropOthers(ctx, t, p); err != nil {
		return err
	}
	for _, was := range h.madeBefore(resource, owner) {
		switch {
		case was.Claimed || t.replaces(was):
			h.remove(was)
		case !was.Deposed:
			was.Deposed, h.changed[was.pageID()] = true, true
		}
	}
	if t.ID == "" {
		first, err := h.first.get(ctx, &h.indexed, resource)
		if err != nil {
			return err
		}
		if first == nil {
			h.first.set(&h.indexed, resource, &owner)
		}
	}
	h.add(t)
	return nil
}

// dropOthers has no other manifest have what a run made of this one.
func (h *History) dropOthers(ctx context.Context, t *Thing, p Data) error {
	owner := t.Owner()
	if p.Took != nil {
		if err := h.findSame(ctx, p.Took.Of, p.Took.Name); err != nil {
			return err
		}
		h.drop(func(was *Thing) bool { return was.ID == p.Took.ID && h.of(was, p.Took.Of) }, p.Took.Name)
	} else if p.From != "" { // a former version had it taken over by its name
		if err := h.findNamed(ctx, t.Name); err != nil {
			return err
		}
		h.drop(func(was *Thing) bool { return was.Run == p.From && !h.of(was, owner) }, t.Name)
	}
	if t.Identity == nil {
		return nil
	}
	for _, key := range t.Identity.Known() {
		if err := h.find(ctx, underKey+key+"\x00", nil); err != nil {
			return err
		}
		for _, was := range slices.Clone(h.keys[key]) {
			if !h.of(was, owner) {
				h.lose(was, *t.Identity)
			}
		}
	}
	return nil
}

// madeBefore are the things of a name that an owner has, by what was recorded, in the order in which they were made.
func (h *History) madeBefore(name string, o Owner) (list []*Thing) {
	named := h.things[name]
	if h.placed || len(named) <= 16 || len(o.Manifest) == 0 {
		return slices.DeleteFunc(slices.Clone(named), func(t *Thing) bool { return !h.of(t, o) })
	}
	pages := h.same[sameFiles(o)] // many manifests may have the name
	if o.Name != "" {
		pages = slices.Concat(pages, h.same[o.Name])
	}
	seen := map[*page]bool{}
	for _, p := range pages {
		if !seen[p] {
			list = append(list, slices.DeleteFunc(slices.Clone(p.things), func(t *Thing) bool { return t.Name != name || !h.of(t, o) })...)
		}
		seen[p] = true
	}
	slices.SortFunc(list, func(a, b *Thing) int { return cmp.Compare(a.order, b.order) })
	return list
}

// lose takes in that what a thing was is another manifest's. Of a resource that manages several the rest stays.
func (h *History) lose(t *Thing, to report.Identity) {
	h.remove(t)
	if rest := t.Identity.Without(to); rest.Key != "" {
		for _, key := range t.Identity.Keys() {
			if !slices.Contains(rest.Keys(), key) {
				rest.Lost = append(slices.Clone(rest.Lost), key)
			}
		}
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
	if p.Took != nil {
		if err := h.findSame(ctx, p.Took.Of, p.Took.Name); err != nil {
			return err
		}
		h.drop(func(t *Thing) bool { return t.Owner().same(p.Took.Of) && t.ID == p.Took.ID }, p.Took.Name)
		return nil
	}
	if p.Of != nil {
		if err := h.findSame(ctx, *p.Of, resource); err != nil {
			return err
		}
		gone := slices.DeleteFunc(h.madeBefore(resource, *p.Of), func(t *Thing) bool { return t.ID != p.ID })
		for _, t := range gone {
			if len(gone) == 1 || p.Key == "" || t.key() == p.Key {
				h.remove(t)
			}
		}
		return nil
	}
	if err := h.findNamed(ctx, resource); err != nil {
		return err
	}
	list := h.things[resource]
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
func (h *History) foldMoved(ctx context.Context, resource string, p Data) error {
	from, to := p.Of, p.Of
	if p.Took != nil {
		from = &p.Took.Of
	}
	err := error(nil)
	if from != nil {
		if err = h.findSame(ctx, *from, p.From); err == nil && to != nil {
			err = h.findSame(ctx, *to, resource)
		}
	} else {
		err = errors.Join(h.findNamed(ctx, p.From), h.findNamed(ctx, resource))
	}
	if err != nil {
		return err
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
			t.give(*to)
		}
		h.add(t)
	}
	return nil
}

// add has a thing be there, which was made last.
func (h *History) add(t *Thing) {
	id := t.pageID()
	owner := t.Owner()
	if len(owner.Manifest) == 0 && owner.Name == "" {
		owner = Owner{} // what is there is of a place
	}
	t.order = h.order
	h.order++
	h.put(h.page(id, owner), t)
	h.changed[id] = true
}

// put has a thing be on a page.
func (h *History) put(p *page, t *Thing) {
	p.things = append(p.things, t)
	h.things[t.Name] = inOrder(h.things[t.Name], t)
	h.ids[t.ID]++
	for _, key := range t.keys() {
		h.keys[key] = inOrder(h.keys[key], t)
	}
}

// inOrder adds a thing to a list.
func inOrder(list []*Thing, t *Thing) []*Thing {
	at := len(list)
	for at > 0 && list[at-1].order > t.order {
		at--
	}
	return slices.Insert(list, at, t)
}

func (h *History) remove(t *Thing) {
	id := t.pageID()
	from := func(by map[string][]*Thing, name string) {
		list := slices.DeleteFunc(slices.Clone(by[name]), func(other *Thing) bool { return other == t })
		if by[name] = list; len(list) == 0 {
			delete(by, name)
		}
	}
	p := h.pages[id]
	p.things = slices.DeleteFunc(slices.Clone(p.things), func(other *Thing) bool { return other == t })
	from(h.things, t.Name)
	h.ids[t.ID]--
	for _, key := range t.keys() {
		from(h.keys, key)
	}
	if h.changed[id] = true; h.losing != "" && h.losing == h.folding {
		h.lost = append(h.lost, t)
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

// All is everything that runs have made and that is there, by name.
func (h *History) All(ctx context.Context) (all []*Thing, err error) {
	if err := h.sure(ctx, func() error { return h.findAll(ctx) }); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(h.things)) {
		for _, t := range h.things[name] {
			if !t.Claimed {
				all = append(all, t)
			}
		}
	}
	return all, nil
}

// Named are the things of a name, of whichever manifest.
func (h *History) Named(ctx context.Context, name string) ([]*Thing, error) {
	err := h.sure(ctx, func() error { return h.findNamed(ctx, name) })
	return h.things[name], err
}

// keyless are the things of a name without a Key that are, or may be, like something.
func (h *History) keyless(ctx context.Context, name, like string) ([]*Thing, error) {
	err := h.sure(ctx, func() error {
		err := h.find(ctx, underKeyless+name+"\x00"+like+"\x00", nil)
		if err == nil {
			err = h.find(ctx, underKeyless+name+"\x00protected\x00", nil)
		}
		return err
	})
	return slices.DeleteFunc(slices.Clone(h.things[name]), func(t *Thing) bool { return t.key() != "" }), err
}

// Former yields the things that former versions recorded, by name.
func (h *History) Former() iter.Seq2[string, []*Thing] {
	return func(yield func(string, []*Thing) bool) {
		for _, name := range slices.Sorted(maps.Keys(h.things)) { // no index has one
			things := slices.DeleteFunc(slices.Clone(h.things[name]), func(t *Thing) bool { return !t.Legacy || t.Claimed })
			if len(things) > 0 && !yield(name, things) {
				return
			}
		}
	}
}

// Thing is what was made under a name of a manifest, and is what it is now; nil is that there is nothing.
func (h *History) Thing(ctx context.Context, of Owner, name string) (*Thing, error) {
	if !h.placed {
		if err := h.sure(ctx, func() error { return h.findOwn(ctx, of) }); err != nil {
			return nil, err
		}
	}
	return h.thing(of, name), nil
}

func (h *History) thing(of Owner, name string) *Thing {
	for _, t := range slices.Backward(h.things[name]) {
		if !t.Deposed && !t.Claimed && (h.placed || t.Of(of)) {
			return t
		}
	}
	return nil
}

// WithKey are the things of a key, in the order in which they were made.
func (h *History) WithKey(ctx context.Context, key string) ([]*Thing, error) {
	err := h.sure(ctx, func() error { return h.find(ctx, underKey+key+"\x00", nil) })
	return h.keys[key], err
}

// Others are the things of other manifests that are of a key, the newest first.
func (h *History) Others(ctx context.Context, of Owner, key string) (others []*Thing, err error) {
	if key == "" {
		return nil, nil
	}
	list, err := h.WithKey(ctx, key)
	for _, t := range slices.Backward(list) {
		if !t.Of(of) {
			others = append(others, t)
		}
	}
	return others, err
}

// Owners are the manifests of a workspace of which something is there.
func (h *History) Owners(ctx context.Context, workspace string) (owners []Owner, err error) {
	var found map[string]Owner
	err = h.sure(ctx, func() error {
		found = map[string]Owner{}
		docs, err := h.under(ctx, underOwner+workspace+"\x00")
		for key, text := range docs {
			var owner Owner
			if err := decode(key, text, &owner); err != nil {
				return err
			}
			found[key[strings.LastIndexByte(key, 0)+1:]] = owner
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for id, p := range h.pages {
		if delete(found, id); p.isOwned() && p.owner.Workspace == workspace {
			found[id] = p.owner
		}
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		owners = append(owners, found[id])
	}
	return owners, nil
}

// OfOwner is everything that is recorded to be of just this owner, by name.
func (h *History) OfOwner(ctx context.Context, o Owner) (all []*Thing, err error) {
	id := pageID(o, "")
	if err := h.sure(ctx, func() error { return h.load(ctx, []string{id}) }); err != nil || h.pages[id] == nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(h.pages[id].things), func(t *Thing) bool { return t.Claimed })
	slices.SortStableFunc(all, func(a, b *Thing) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Called reports whether a thing of a manifest may have the name of its resource as its id: nothing else has that.
func (h *History) Called(ctx context.Context, of Owner, name string) (bool, error) {
	var first *Owner
	err := h.sure(ctx, func() (err error) {
		if err := h.find(ctx, underID+name+"\x00", nil); err != nil {
			return err
		}
		if err := h.find(ctx, underCalled+name+"\x00", nil); err != nil {
			return err
		}
		first, err = h.first.get(ctx, &h.indexed, name)
		return err
	})
	if err != nil || h.ids[name] > 0 || slices.ContainsFunc(h.things[name], func(t *Thing) bool { return t.ID == "" && !t.Claimed && !t.Of(of) }) {
		return false, err
	}
	return first == nil || first.Is(of), nil
}

// Moves are the names that things of a manifest get, by those that they had: to is the new name of
// an old one. What has been made under the new name by now stays what it is.
func (h *History) Moves(ctx context.Context, of Owner, to func(string) string) (map[string]string, error) {
	moves := map[string]string{}
	if to == nil {
		return moves, nil
	}
	if err := h.sure(ctx, func() error { return h.findOwn(ctx, of) }); err != nil {
		return nil, err
	}
	for name := range h.things {
		now := to(name)
		if now != name && h.thing(of, name) != nil && h.thing(of, now) == nil {
			moves[name] = now
		}
	}
	return moves, nil
}

// Move gives things of a manifest other names, which the log does not have yet.
func (h *History) Move(ctx context.Context, of Owner, moves map[string]string) error {
	if len(moves) == 0 {
		return nil
	}
	if h.moves == nil {
		h.moves = map[string]string{}
	}
	maps.Copy(h.moves, moves)
	h.moving = of
	return h.sure(ctx, func() error { return h.move(ctx, of, moves) })
}

func (h *History) move(ctx context.Context, of Owner, moves map[string]string) error {
	if len(moves) == 0 {
		return nil
	}
	if err := h.findOwn(ctx, of); err != nil {
		return err
	}
	for _, from := range slices.Sorted(maps.Keys(moves)) {
		if t := h.thing(of, from); t != nil && h.thing(of, moves[from]) == nil {
			h.remove(t)
			t.Name = moves[from]
			h.add(t)
		}
	}
	return nil
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
func (h *History) Undeclared(ctx context.Context, of Owner, declared func(string) bool) (all []report.Undeclared, err error) {
	if !h.placed {
		if err := h.sure(ctx, func() error { return h.findOwn(ctx, of) }); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.things)) {
		for _, t := range h.things[name] {
			if !t.Claimed && (h.placed || t.Of(of)) && (t.Deposed || !declared(t.Name)) {
				all = append(all, t.Undeclared())
			}
		}
	}
	return all, nil
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
