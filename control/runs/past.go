package runs

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner/report"
)

// Pasts is what the log says of what was done to resources before. It is read once, and from then on
// what is new: a log has no order by resources, and where there are many of these, to look through it
// for each takes longer than all that a run does. It is safe for concurrent use.
type Pasts struct {
	log deploylog.Log

	mu         sync.Mutex
	seq        int64             // of the last event that is in them
	follows    *History          // is kept up to date with them; may be nil
	identities map[string]string // by name; one that is not here is its own
	unsettled  map[string]*unsettled
	kept       map[string]int64 // by name, the event that says what is kept
	steps      steps
}

// unsettled is a resource whose last action has not ended, or of which nobody knows how. One that is
// well since has none.
type unsettled struct {
	run       string // of the action
	abandoned bool   // it is recorded that nobody knows how it ended; else it has no end
}

// NewPasts returns those of a log. Nothing is read before the first question.
func NewPasts(log deploylog.Log) *Pasts {
	return &Pasts{log: log, identities: map[string]string{}, unsettled: map[string]*unsettled{}, kept: map[string]int64{}, steps: newSteps()}
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
	if err := p.catchUp(ctx); err != nil {
		return k, fmt.Errorf("reading what was done to %s before: %w", placed, err)
	}
	u := p.unsettled[cmp.Or(id, placed)]
	return known{cmp.Or(id, p.identity(placed)), u.interrupted(p.log), p.kept[cmp.Or(id, placed)]}, nil
}

// catchUp reads what is new in the log.
func (p *Pasts) catchUp(ctx context.Context) error {
	for e, err := range p.log.Read(ctx, deploylog.Filter{After: p.seq}) {
		if err != nil {
			return err
		}
		p.fold(e)
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
func (p *Pasts) fold(e deploylog.Event) {
	p.steps.fold(e)
	kind, name, _ := parts(e.Target)
	if bytes.Contains(e.Data, []byte(`"resource_id":`)) && e.Name != EventResourceMoved {
		name = cmp.Or(DataOf(e).ID, name)
	}
	switch {
	case kind == "action":
		p.settle(name, lastAction(e))
	case kind != "resource":
	case e.Name == e.Target.Succeeded():
		p.settle(name, nil)
	case e.Name == string(report.ResourceKept):
		p.kept[name] = e.Seq
	case e.Name == EventResourceMoved:
		if d := DataOf(e); d.ID == "" { // else it has an id that is no name
			p.move(d.From, name, e.Seq)
		}
	}
}

// lastAction is how it stands with a resource of whose actions this is the last event.
func lastAction(e deploylog.Event) *unsettled {
	switch {
	case e.Name == e.Target.Started():
		return &unsettled{run: e.Deployment}
	case e.Name == e.Target.Failed() && DataOf(e).Abandoned:
		return &unsettled{abandoned: true}
	default:
		return nil
	}
}

// settle says how it stands with the last action of a resource.
func (p *Pasts) settle(name string, u *unsettled) {
	if u == nil {
		delete(p.unsettled, name)
		return
	}
	p.unsettled[name] = u
}

// move gives a resource another name: it keeps its identity, and what was done to it. Whoever gets
// the name that another has left gets an identity of its own, as what the other one made is marked
// with the name.
func (p *Pasts) move(from, to string, seq int64) {
	if from == "" {
		return
	}
	p.identities[to] = p.identity(from)
	p.identities[from] = from + "#" + strconv.FormatInt(seq, 10)
	p.settle(to, p.unsettled[from])
}

// identity is the name that a resource had first.
func (p *Pasts) identity(name string) string {
	if identity, moved := p.identities[name]; moved {
		return identity
	}
	return name
}

// interrupted reports whether it is not known how the last action ended. One whose run is at work
// goes on.
func (u *unsettled) interrupted(log deploylog.Log) bool {
	return u != nil && (u.abandoned || !Alive(log, u.run))
}
