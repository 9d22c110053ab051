package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner/report"
)

// What runs have made and what was done to it follows from all of a log, and a run asks for a little of it. So an
// index is kept beside the log where that is long, and a run reads of the log what is newer than that. Who cannot
// have one reads all of the log.

const (
	indexKind    = "runs"
	indexVersion = 1 // of its form; it is raised when a former build cannot read a new one, or a new one not that of a former build

	indexAfter  = 1024    // new events after which the index is written
	indexFormer = 1 << 14 // the same, where what former versions recorded was in the way

	// What an index holds, by what its keys begin with.
	underPage      = "page\x00"      // of an owner, by its id
	underOwner     = "owner\x00"     // owners with a workspace
	underNamed     = "named\x00"     // owners with a name
	underFiles     = "files\x00"     // owners of files
	underKey       = "key\x00"       // owners of a thing with a Key
	underResource  = "resource\x00"  // owners of a thing with a name
	underID        = "id\x00"        // owners of a thing with an id that is not its name
	underCalled    = "called\x00"    // owners of a thing whose id is its name
	underKeyless   = "keyless\x00"   // owners of a thing without a Key, by its name and by what it is like
	underFirst     = "first\x00"     // who was first to make something whose id is its name
	underIdentity  = "identity\x00"  // as the other fields of Pasts
	underUnsettled = "unsettled\x00" //
	underKept      = "kept\x00"      //
	underHost      = "host\x00"      //
	keyRuns        = "runs"          // of steps, that have not ended
	keyFormer      = "former"        // there is something that a former version recorded
)

// indexError says that an index cannot be used. Then all of the log is read.
type indexError struct{ err error }

func (e indexError) Error() string { return e.err.Error() }
func (e indexError) Unwrap() error { return e.err }

// indexed reads an index as it was when it was asked first.
type indexed struct {
	index deploylog.Index // nil is none: all is known
	base  int64           // up to this event it was
}

func (x *indexed) checked(seq int64, docs map[string][]byte, err error) (map[string][]byte, error) {
	switch {
	case err == nil && seq == x.base:
		return docs, nil
	case err == nil, errors.Is(err, deploylog.ErrIndexMoved):
		return nil, deploylog.ErrIndexMoved
	}
	return nil, indexError{err}
}

func (x *indexed) read(ctx context.Context, keys ...string) (map[string][]byte, error) {
	if x.index == nil || len(keys) == 0 {
		return nil, nil
	}
	return x.checked(x.index.Read(ctx, keys...))
}

func (x *indexed) under(ctx context.Context, prefixes ...string) (map[string][]byte, error) {
	if x.index == nil || len(prefixes) == 0 {
		return nil, nil
	}
	return x.checked(x.index.Under(ctx, prefixes...))
}

// unread is a base that means: read the index again before the next question.
const unread = -1

// again has the index be asked as it is now.
func (x *indexed) again(ctx context.Context) error {
	if x.index == nil {
		x.base = 0
		return nil
	}
	seq, _, err := x.index.Read(ctx)
	if err != nil {
		return indexError{err}
	}
	x.base = seq
	return nil
}

// sure calls do, which reads an index. If the index was written meanwhile, it calls start, which begins with the new
// one, and do again; if the index cannot be used, it does so without it. After an error the next call begins with
// start: an event may be half applied.
func (x *indexed) sure(ctx context.Context, start func() error, do func() error) (err error) {
	defer func() {
		if err != nil {
			x.base = unread
		}
	}()
	for {
		if err = deploylog.ErrIndexMoved; x.base != unread {
			err = do()
		}
		if err == nil {
			return nil
		}
		for err != nil {
			var unusable indexError
			switch {
			case ctx.Err() != nil:
				return err
			case errors.Is(err, deploylog.ErrIndexMoved):
				if err = x.again(ctx); err == nil {
					err = start()
				}
			case errors.As(err, &unusable):
				x.index, x.base = nil, 0
				err = start()
			default:
				return err
			}
		}
	}
}

// lazy are values by name. Each is read from an index when it is first needed.
type lazy[V any] struct {
	under   string
	known   map[string]*V // nil is that there is none
	changed map[string]bool
}

func newLazy[V any](under string) lazy[V] {
	return lazy[V]{under, map[string]*V{}, map[string]bool{}}
}

// get returns the value of a name; nil is that there is none.
func (l *lazy[V]) get(ctx context.Context, x *indexed, name string) (*V, error) {
	err := l.prepare(ctx, x, []string{name})
	return l.known[name], err
}

// prepare reads the values of several names in one query.
func (l *lazy[V]) prepare(ctx context.Context, x *indexed, names []string) error {
	if x.index == nil { // all is known
		return nil
	}
	var keys []string
	for _, name := range names {
		if _, known := l.known[name]; !known {
			keys = append(keys, l.under+name)
		}
	}
	docs, err := x.read(ctx, keys...)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := l.take(key, docs[key]); err != nil {
			return err
		}
	}
	return nil
}

// take adds a value as the index has it; nil is that there is none.
func (l *lazy[V]) take(key string, text []byte) error {
	var v *V
	if text != nil {
		v = new(V)
		if err := decode(key, text, v); err != nil {
			return err
		}
	}
	l.known[strings.TrimPrefix(key, l.under)] = v
	return nil
}

// decode reads a document of an index.
func decode(key string, text []byte, into any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return indexError{fmt.Errorf("reading %q of the index of runs: %w", key, err)}
	}
	return nil
}

// set has another value have the name; nil is none.
func (l *lazy[V]) set(x *indexed, name string, v *V) {
	if l.known[name], l.changed[name] = v, true; v == nil && x.index == nil { // all is known
		delete(l.known, name)
		delete(l.changed, name)
	}
}

// all reads all of them.
func (l *lazy[V]) all(ctx context.Context, x *indexed) error {
	docs, err := x.under(ctx, l.under)
	if err != nil {
		return err
	}
	for key, text := range docs {
		if _, known := l.known[strings.TrimPrefix(key, l.under)]; known {
			continue
		}
		if err := l.take(key, text); err != nil {
			return err
		}
	}
	return nil
}

// changes are what is other than in the index.
func (l *lazy[V]) changes(to map[string][]byte) error {
	for name := range l.changed {
		v := l.known[name]
		if v == nil {
			to[l.under+name] = nil
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("writing %q of the index of runs: %w", l.under+name, err)
		}
		to[l.under+name] = text
	}
	return nil
}

// indexOf returns the index of a log, written anew where the log says much more than it. nil is that there is none.
// identify finds out the identities of what former versions recorded; it may be nil.
func indexOf(ctx context.Context, log deploylog.Log, identify func(Making) *report.Identity) (deploylog.Index, error) {
	keeper, can := log.(deploylog.IndexLog)
	if !can {
		return nil, nil
	}
	head := int64(0)
	for e, err := range log.Read(ctx, deploylog.Filter{Last: 1}) {
		if err != nil {
			return nil, err
		}
		head = e.Seq
	}
	if head < indexAfter {
		return nil, nil
	}
	index, err := keeper.Index(ctx, deploylog.SnapshotName(indexKind, indexVersion))
	if err != nil {
		return nil, nil //nolint:nilerr // there is no place for one
	}
	seq, docs, err := index.Read(ctx, keyFormer)
	former := docs[keyFormer] != nil
	switch {
	case err != nil, former && head-seq < indexFormer:
		return nil, nil //nolint:nilerr // as above
	case !former && head-seq < indexAfter:
		return index, nil
	}
	w := indexWriter{log, index, identify}
	written, err := w.write(ctx, seq, seq == 0 || former)
	if errors.As(err, &indexError{}) && ctx.Err() == nil { // what it has is damaged
		written, err = w.write(ctx, seq, true)
	}
	if err != nil && ctx.Err() == nil { // such as that another process was faster, or that the disk is full
		seq, docs, err = index.Read(ctx, keyFormer)
		written = err == nil && seq > 0 && docs[keyFormer] == nil
	}
	if err != nil || !written {
		return nil, ctx.Err()
	}
	return index, nil
}

// indexWriter writes the index of a log.
type indexWriter struct {
	log      deploylog.Log
	index    deploylog.Index
	identify func(Making) *report.Identity // may be nil
}

// write has an index, which is up to an event, be up to the end of the log; whole is from its beginning. It reports
// whether the index can be used.
func (w indexWriter) write(ctx context.Context, from int64, whole bool) (usable bool, err error) {
	h, p, changes := newHistory(w.log), NewPasts(w.log), map[string][]byte{}
	h.identify, p.opened = w.identify, true
	if whole {
		_, docs, err := w.index.Under(ctx, "")
		if err != nil {
			return false, err
		}
		for key := range docs {
			changes[key] = nil
		}
	} else {
		h.indexed, p.indexed = indexed{w.index, from}, indexed{w.index, from}
		h.clear()
		p.clear()
		if err := p.begin(ctx); err != nil {
			return false, err
		}
	}
	for e, err := range w.log.Read(ctx, deploylog.Filter{After: h.seq}) {
		if err == nil {
			err = h.foldNew(ctx, e)
		}
		if err == nil {
			p.seq, err = e.Seq, p.fold(ctx, e)
		}
		if err != nil {
			return false, err
		}
	}
	if h.former() || h.hadFormer && w.identify == nil {
		return false, w.index.Write(ctx, from, h.seq, map[string][]byte{keyFormer: {'1'}})
	}
	if err := errors.Join(h.changes(changes), p.changes(changes)); err != nil {
		return false, err
	}
	return true, w.index.Write(ctx, from, h.seq, changes)
}

// page is what is known to be there of one owner; what is in places is of these.
type page struct {
	owner  Owner
	things []*Thing
	keys   map[string]bool // by which the index finds it
}

// isOwned reports whether runs of a manifest made something on the page.
func (p *page) isOwned() bool {
	made := slices.ContainsFunc(p.things, func(t *Thing) bool { return !t.Claimed })
	return made && (p.owner.Name != "" || len(p.owner.Manifest) > 0)
}

// pageText is a page in an index.
type pageText struct {
	Owner  Owner
	Things []thingText
}

type thingText struct {
	Making

	Name, ID, Run    string
	At               int64 // nanoseconds since 1970
	Deposed, Claimed bool
	Order            int64
}

// findable are the keys under which an index has a page, and whether its owner is there.
func (p *page) findable(id string) map[string]bool {
	keys := map[string]bool{}
	if len(p.things) == 0 {
		return keys
	}
	put := func(under, what string) {
		keys[under+what+"\x00"+id] = under == underOwner || under == underFiles || under == underNamed
	}
	if p.isOwned() {
		put(underOwner, p.owner.Workspace)
	}
	if len(p.owner.Manifest) > 0 || p.owner.Name != "" {
		put(underFiles, strings.Join(p.owner.Manifest, "\x01"))
	}
	if p.owner.Name != "" {
		put(underNamed, p.owner.Name)
	}
	for _, t := range p.things {
		put(underResource, t.Name)
		for _, key := range t.keys() {
			put(underKey, key)
		}
		if t.key() == "" && !t.Claimed {
			put(underKeyless, t.Name+"\x00"+t.likeness())
		}
		if t.ID != "" {
			put(underID, t.ID)
		} else if !t.Claimed {
			put(underCalled, t.Name)
		}
	}
	return keys
}

// load has pages be here.
func (h *History) load(ctx context.Context, ids []string) error {
	ids = slices.DeleteFunc(ids, func(id string) bool { return h.pages[id] != nil })
	if h.index == nil || len(ids) == 0 {
		return nil
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = underPage + id
	}
	docs, err := h.read(ctx, keys...)
	if err != nil {
		return err
	}
	return h.take(docs)
}

// take has pages of the index be here.
func (h *History) take(docs map[string][]byte) error {
	for key, text := range docs {
		id := strings.TrimPrefix(key, underPage)
		if h.pages[id] != nil {
			continue
		}
		var read pageText
		if err := decode(key, text, &read); err != nil {
			return err
		}
		p := h.page(id, read.Owner)
		for _, t := range read.Things {
			h.put(p, &Thing{
				Making: t.Making, Name: t.Name, ID: t.ID, Run: t.Run, At: time.Unix(0, t.At).UTC(), Deposed: t.Deposed, Claimed: t.Claimed, order: t.Order,
			})
		}
		p.keys = p.findable(id)
	}
	return nil
}

// page returns a page, which is new where it is not here.
func (h *History) page(id string, of Owner) *page {
	p := h.pages[id]
	if p == nil {
		p = &page{owner: of}
		h.pages[id] = p
		files := sameFiles(of)
		h.same[files] = append(h.same[files], p)
		if of.Name != "" {
			h.same[of.Name] = append(h.same[of.Name], p)
		}
	}
	return p
}

func sameFiles(o Owner) string {
	return strings.Join(append([]string{"", o.Workspace}, o.Manifest...), "\x00")
}

// findAll has all pages be here.
func (h *History) findAll(ctx context.Context) error {
	if h.asked[underPage] {
		return nil
	}
	docs, err := h.under(ctx, underPage)
	if err == nil {
		err = h.take(docs)
	}
	h.asked[underPage] = err == nil
	return err
}

// find has all pages be here that the index finds below a key, of owners that meet a condition; nil is all.
func (h *History) find(ctx context.Context, under string, which func(Owner) bool) error {
	if h.index == nil || h.asked[under] {
		return nil
	}
	docs, err := h.under(ctx, under)
	if err != nil {
		return err
	}
	var ids []string
	for key, text := range docs {
		var owner Owner
		if which != nil {
			if err := decode(key, text, &owner); err != nil {
				return err
			}
		}
		if which == nil || which(owner) {
			ids = append(ids, key[strings.LastIndexByte(key, 0)+1:])
		}
	}
	if err := h.load(ctx, ids); err != nil {
		return err
	}
	h.asked[under] = which == nil
	return nil
}

// Prepare reads at once what a run of a manifest with some resources is going to ask for.
func (h *History) Prepare(ctx context.Context, of Owner, names []string) error {
	if h.index == nil {
		return nil
	}
	return h.sure(ctx, func() error {
		if err := h.findOwn(ctx, of); err != nil {
			return err
		}
		var under, none []string
		for _, name := range names {
			t := h.thing(of, name)
			if t == nil {
				none = append(none, name)
				under = append(under, underID+name+"\x00", underCalled+name+"\x00")
				continue
			}
			if t.Identity != nil {
				for _, key := range t.Identity.Known() {
					under = append(under, underKey+key+"\x00")
				}
			}
		}
		if err := h.first.prepare(ctx, &h.indexed, none); err != nil {
			return err
		}
		under = slices.DeleteFunc(under, func(prefix string) bool { return h.asked[prefix] })
		docs, err := h.under(ctx, under...)
		if err != nil {
			return err
		}
		var ids []string
		for key := range docs {
			ids = append(ids, key[strings.LastIndexByte(key, 0)+1:])
		}
		slices.Sort(ids)
		if err := h.load(ctx, slices.Compact(ids)); err != nil {
			return err
		}
		for _, prefix := range under {
			h.asked[prefix] = true
		}
		return nil
	})
}

// findNamed has all things of a name be here.
func (h *History) findNamed(ctx context.Context, name string) error {
	return h.find(ctx, underResource+name+"\x00", nil)
}

// findSame has all things be here that an owner has by what was recorded, and those of one in the place of a name.
func (h *History) findSame(ctx context.Context, o Owner, name string) error {
	return h.findOf(ctx, o, name, "same", o.same)
}

// findOwn has all things be here that an owner has.
func (h *History) findOwn(ctx context.Context, o Owner) error {
	return h.findOf(ctx, o, "", "own", func(was Owner) bool { return was.Is(o) })
}

func (h *History) findOf(ctx context.Context, o Owner, name, how string, is func(Owner) bool) error {
	id := pageID(o, name)
	if h.index == nil || h.asked[how+id] {
		return nil
	}
	if err := h.load(ctx, []string{id}); err != nil {
		return err
	}
	if o.Name != "" {
		if err := h.find(ctx, underNamed+o.Name+"\x00", is); err != nil {
			return err
		}
	}
	if len(o.Manifest) > 0 {
		if err := h.find(ctx, underFiles+strings.Join(o.Manifest, "\x01")+"\x00", is); err != nil {
			return err
		}
	}
	h.asked[how+id] = true
	return nil
}

// changes are what is other than in the index.
func (h *History) changes(to map[string][]byte) error {
	for id := range h.changed {
		p := h.pages[id]
		now := p.findable(id)
		owner, err := json.Marshal(p.owner)
		if err != nil {
			return err
		}
		for key := range p.keys {
			if _, still := now[key]; !still {
				to[key] = nil
			}
		}
		for key, owned := range now {
			if _, already := p.keys[key]; already {
				continue
			}
			if to[key] = []byte{}; owned {
				to[key] = owner
			}
		}
		if to[underPage+id] = nil; len(p.things) == 0 {
			continue
		}
		text := pageText{Owner: p.owner}
		for _, t := range p.things {
			text.Things = append(text.Things, thingText{t.Making, t.Name, t.ID, t.Run, t.At.UnixNano(), t.Deposed, t.Claimed, t.order})
		}
		if to[underPage+id], err = json.Marshal(text); err != nil {
			return err
		}
	}
	return h.first.changes(to)
}

// former reports whether the history has a thing whose identity a former version did not record. Each run works that
// identity out by itself, so no index can hold the thing.
func (h *History) former() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(h.things)), func(list []*Thing) bool {
		return slices.ContainsFunc(list, func(t *Thing) bool { return t.Legacy })
	})
}

// likeness tells what was made as something else was, by what is recorded.
func (m Making) likeness() string {
	if m.Protected != nil {
		return "protected"
	}
	var config any
	dec := json.NewDecoder(bytes.NewReader(m.Config))
	dec.UseNumber()
	if dec.Decode(&config) != nil {
		return "protected"
	}
	return likeness(m.Type, config)
}

func likeness(typ string, config any) string {
	text, err := json.Marshal([]any{typ, config})
	if err != nil {
		return "protected"
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}
