package runs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner/report"
)

// Pasts is what the log says of what was done to resources before. It is read once, and from then on
// what is new: a log has no order by resources, and where there are many of these, to look through it
// for each takes longer than all that a run does. Of a long log it reads what it is asked about from an index,
// where there is one. It is safe for concurrent use.
type Pasts struct {
	log deploylog.Log

	mu      sync.Mutex
	opened  bool     // it was looked for an index
	seq     int64    // of the last event that is in them
	follows *History // is kept up to date with them; may be nil

	indexed
	identities lazy[string]    // by name; one that is not here is its own
	unsettled  lazy[unsettled] // by name or id
	kept       lazy[int64]     // by name or id, the event that says what is kept
	steps      steps
}

// unsettled is a resource whose last action has not ended, or of which nobody knows how. One that is
// well since has none.
type unsettled struct {
	Run       string `json:",omitempty"` // of the action
	Abandoned bool   `json:",omitempty"` // it is recorded that nobody knows how it ended; else it has no end
}

// NewPasts returns those of a log. Nothing is read before the first question.
func NewPasts(log deploylog.Log) *Pasts {
	p := &Pasts{log: log}
	p.clear()
	return p
}

func (p *Pasts) clear() {
	p.identities, p.unsettled, p.kept = newLazy[string](underIdentity), newLazy[unsettled](underUnsettled), newLazy[int64](underKept)
	p.steps, p.seq = newSteps(&p.indexed), p.base
}

// begin begins with what the index says of runs that have not ended.
func (p *Pasts) begin(ctx context.Context) error {
	docs, err := p.read(ctx, keyRuns)
	if text := docs[keyRuns]; err == nil && text != nil {
		if err := decode(keyRuns, text, &p.steps.runs); err != nil {
			return err
		}
	}
	return err
}

// start begins with what the index says, if there is one.
func (p *Pasts) start(ctx context.Context) error {
	p.clear()
	if err := p.begin(ctx); err != nil {
		return err
	}
	if p.follows != nil { // of what is not read here
		p.follows.mu.Lock()
		err := p.follows.Update(ctx)
		p.follows.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return p.readNew(ctx)
}

// sure does something for which the index may be read, with what is new in the log.
func (p *Pasts) sure(ctx context.Context, do func() error) error {
	if !p.opened {
		index, err := indexOf(ctx, p.log, nil)
		if err != nil {
			return err
		}
		if p.opened, p.index = true, index; index != nil {
			p.base = unread
		}
	}
	return p.indexed.sure(ctx, func() error { return p.start(ctx) }, func() error {
		if err := p.readNew(ctx); err != nil {
			return err
		}
		return do()
	})
}

// changes are what is other than in the index.
func (p *Pasts) changes(to map[string][]byte) (err error) {
	if to[keyRuns], err = json.Marshal(p.steps.runs); err != nil {
		return err
	}
	return errors.Join(p.identities.changes(to), p.unsettled.changes(to), p.kept.changes(to), p.steps.hosts.changes(to))
}

// Follow has a history be kept up to date with what is read. Of events before that it is up to date already.
func (p *Pasts) Follow(h *History) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follows = h
}

// known is what is known of one resource.
type known struct {
	identity    string
	interrupted bool  // it is not known how its last action ended, and no run found it well since
	kept        int64 // the event that says what is kept of it; 0 is none
}

// of returns what is known of a resource, by its name with its place, or by the id that it has instead.
func (p *Pasts) of(ctx context.Context, placed, id string) (k known, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := cmp.Or(id, placed)
	err = p.sure(ctx, func() error {
		u, err := p.unsettled.get(ctx, &p.indexed, name)
		if err != nil {
			return err
		}
		kept, err := p.kept.get(ctx, &p.indexed, name)
		if err != nil {
			return err
		}
		k = known{identity: id, interrupted: u.interrupted(p.log)}
		if kept != nil {
			k.kept = *kept
		}
		if id == "" {
			k.identity, err = p.identity(ctx, placed)
		}
		return err
	})
	if err != nil {
		return k, fmt.Errorf("reading what was done to %s before: %w", placed, err)
	}
	return k, nil
}

// Prepare reads at once what somebody is going to ask for of resources, by their names with their places or by the ids
// that they have instead.
func (p *Pasts) Prepare(ctx context.Context, names []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.sure(ctx, func() error {
		err := p.identities.prepare(ctx, &p.indexed, names)
		if err == nil {
			err = p.unsettled.prepare(ctx, &p.indexed, names)
		}
		if err == nil {
			err = p.kept.prepare(ctx, &p.indexed, names)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("reading what was done to resources before: %w", err)
	}
	return nil
}

// readNew reads what is new in the log.
func (p *Pasts) readNew(ctx context.Context) error {
	for e, err := range p.log.Read(ctx, deploylog.Filter{After: p.seq}) {
		if err == nil {
			err = p.fold(ctx, e)
		}
		if err != nil {
			return err
		}
		p.seq = e.Seq
		if p.follows != nil {
			if err := p.follows.follow(ctx, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// fold takes in an event.
func (p *Pasts) fold(ctx context.Context, e deploylog.Event) error {
	if err := p.steps.fold(ctx, e); err != nil {
		return err
	}
	kind, name, _ := parts(e.Target)
	if bytes.Contains(e.Data, []byte(`"resource_id":`)) && e.Name != EventResourceMoved {
		name = cmp.Or(DataOf(e).ID, name)
	}
	switch {
	case kind == "action":
		p.unsettled.set(&p.indexed, name, lastAction(e))
	case kind != "resource":
	case e.Name == e.Target.Succeeded():
		p.unsettled.set(&p.indexed, name, nil)
	case e.Name == string(report.ResourceKept):
		p.kept.set(&p.indexed, name, &e.Seq)
	case e.Name == EventResourceMoved:
		if d := DataOf(e); d.ID == "" { // else it has an id that is no name
			return p.move(ctx, d.From, name, e.Seq)
		}
	}
	return nil
}

// lastAction is how it stands with a resource of whose actions this is the last event.
func lastAction(e deploylog.Event) *unsettled {
	switch {
	case e.Name == e.Target.Started():
		return &unsettled{Run: e.Deployment}
	case e.Name == e.Target.Failed() && DataOf(e).Abandoned:
		return &unsettled{Abandoned: true}
	default:
		return nil
	}
}

// move gives a resource another name: it keeps its identity, and what was done to it. Whoever gets
// the name that another has left gets an identity of its own, as what the other one made is marked
// with the name.
func (p *Pasts) move(ctx context.Context, from, to string, seq int64) error {
	if from == "" {
		return nil
	}
	identity, err := p.identity(ctx, from)
	if err != nil {
		return err
	}
	u, err := p.unsettled.get(ctx, &p.indexed, from)
	if err != nil {
		return err
	}
	next := from + "#" + strconv.FormatInt(seq, 10)
	p.identities.set(&p.indexed, to, &identity)
	p.identities.set(&p.indexed, from, &next)
	p.unsettled.set(&p.indexed, to, u)
	return nil
}

// identity is the name that a resource had first.
func (p *Pasts) identity(ctx context.Context, name string) (string, error) {
	identity, err := p.identities.get(ctx, &p.indexed, name)
	if identity != nil {
		return *identity, err
	}
	return name, err
}

// interrupted reports whether it is not known how the last action ended. One whose run is at work
// goes on.
func (u *unsettled) interrupted(log deploylog.Log) bool {
	return u != nil && (u.Abandoned || !Alive(log, u.Run))
}
