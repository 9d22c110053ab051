package environment

import (
	"strconv"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/acceptance"
	"github.com/deployster-go/deployster/internal/refusal"
)

// Ask asks for a revision that brings more than it may. An operator of everything accepts exactly that, or it expires.
type Ask struct {
	Update Update
	Excess []string // what it brings, a line each
	ID     string   // of a fresh deployment, for the event
}

// Accept makes the revision that was asked for, as it was then. It is the definition's own from then on.
type Accept struct {
	Revision int
	Content  string // the hash of what was asked for, which is what was looked at
	By       string
}

// Decline ends what was asked for: it is rejected, or its sender takes it back.
type Decline struct {
	Revision   int
	By, Reason string
}

func (Ask) isCommand()     {}
func (Accept) isCommand()  {}
func (Decline) isCommand() {}

// contentOf returns the hash of all that a revision brings, as it is read from the log.
func contentOf(environment string, p record.Payload) string {
	read := record.Read(p.Data())
	return acceptance.Content(struct {
		Environment string
		Base        int
		Definition  *definition.Definition
		Inventory   string
	}{environment, read.Base, read.Definition, read.Inventory})
}

// asks names the environment in what is said of requests.
func (s *State) asks() acceptance.Of {
	return acceptance.Of{Kind: "environment", Command: "env", Name: s.name, Unknown: ErrUnknown, Repeated: errRepeated}
}

// Asked returns the revision that waits to be accepted at a moment. It is the next one, so there is one at most.
func (s *State) Asked(now time.Time) (asked report.Asked, ok bool) {
	open := s.asked.Open(now)
	if len(open) == 0 {
		return asked, false
	}
	a := open[0]
	asked = report.Asked{
		Revision: len(s.revisions) + 1, Base: a.Payload.Base, By: a.By, Seq: a.Seq, Asks: a.Asks, Definition: a.Payload.Definition, Against: a.Payload.Base,
	}
	if own, ok := s.Owner(); ok {
		asked.Against = own.Number
	}
	return asked, true
}

func (s *State) ask(c Ask, now time.Time) ([]deploylog.Event, error) {
	events, err := s.change(c.Update)
	if err != nil {
		return nil, err
	}
	e := events[0]
	if err := s.asked.Check(s.asks(), e.Revision, now); err != nil {
		return nil, err
	}
	p := record.Read(e.Data)
	p.Bound = true
	p.Asks = &acceptance.Asks{Content: contentOf(s.name, p), Excess: c.Excess, Expires: now.Add(acceptance.Lasts).UTC()}
	e.Deployment, e.Name, e.Data = c.ID, record.UpdateAsked, p.Data()
	if n := len(e.Data); n > deploylog.MaxData {
		return nil, refusal.New(RevisionTooLarge, "revision %s of environment %s cannot be asked for: its event has %d bytes, and at most %d fit into the log", e.Revision, s.name, n, deploylog.MaxData)
	}
	return []deploylog.Event{e}, nil
}

func (s *State) accept(c Accept, now time.Time) ([]deploylog.Event, error) {
	a, err := s.asked.Find(s.asks(), strconv.Itoa(c.Revision), now)
	if err != nil {
		return nil, err
	}
	if err := a.Accept(s.asks(), c.Content, c.By, s.newest()); err != nil {
		return nil, err
	}
	if err := a.Altered(contentOf(s.name, a.Payload)); err != nil {
		return nil, err
	}
	events, err := s.change(Update{Base: a.Payload.Base, Definition: a.Payload.Definition, Inventory: a.Payload.Inventory, By: a.By})
	if err != nil {
		return nil, err
	}
	p := record.Read(events[0].Data)
	p.Accepted = a.Accepted(c.By)
	events[0].Data = p.Data()
	return events, nil
}

func (s *State) decline(c Decline, now time.Time) ([]deploylog.Event, error) {
	a, err := s.asked.Find(s.asks(), strconv.Itoa(c.Revision), now)
	if err != nil {
		return nil, err
	}
	return []deploylog.Event{{
		Deployment: a.ID, Target: s.target, Revision: a.Revision, Name: record.UpdateDeclined, Attempt: 1, Data: record.Payload{By: c.By, Reason: c.Reason}.Data(),
	}}, nil
}

// newest is the event of the newest revision.
func (s *State) newest() int64 { return s.revisions[len(s.revisions)-1].Seq }

// applyAsked folds in what is asked for.
func (s *State) applyAsked(e deploylog.Event, p record.Payload) {
	if e.Name == record.UpdateDeclined {
		s.asked = s.asked.Without(func(a acceptance.Request[record.Payload]) bool { return a.ID == e.Deployment })
		return
	}
	if !s.Exists() || p.Asks == nil || p.Definition == nil || e.Revision != strconv.Itoa(len(s.revisions)+1) {
		return
	}
	p.Definition.Name = s.name
	s.asked = s.asked.With(acceptance.Request[record.Payload]{
		Revision: e.Revision, By: p.By, Seq: e.Seq, ID: e.Deployment, Defined: s.newest(), Asks: *p.Asks, Payload: p,
	}, e.CreatedAt)
}
