package pipeline

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/acceptance"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// Ask asks for a release that brings more than it may. An operator of everything accepts exactly that, or it expires.
type Ask struct {
	Release Release
	Excess  []string // what it brings, a line each

	now time.Time
}

// Accept releases what was asked for, as it was then.
type Accept struct {
	Revision string
	Content  string // the hash of what was asked for, which is what was looked at
	ID       string // of the fresh deployment
	By       string

	now time.Time
}

// Decline ends what was asked for: it is rejected, or its sender takes it back.
type Decline struct {
	Revision, By, Reason string

	now time.Time
}

// AskedFor is a release that was asked for and not decided.
type AskedFor = acceptance.Request[record.Payload]

// contentOf is the hash of all that a release brings.
func contentOf(pipeline string, r Release) string {
	return acceptance.Content(struct {
		Pipeline, Revision string
		Carries            record.Files
		Takes              []upstream.Input
		Fix                bool
	}{pipeline, r.Revision, r.Carries, r.Takes, r.Fix})
}

// Asked are the releases that wait to be accepted at a moment.
func (s *State) Asked(now time.Time) []AskedFor { return s.asked.Open(now) }

// asks names the pipeline in what is said of requests.
func (s *State) asks() acceptance.Of {
	return acceptance.Of{Kind: "pipeline", Command: "pipeline", Name: s.name, Unknown: ErrUnknown, Repeated: ErrRepeated}
}

func (c Ask) propose(s *State) ([]deploylog.Event, error) {
	if _, err := c.Release.propose(s); err != nil {
		return nil, err
	}
	if err := s.asked.Check(s.asks(), c.Release.Revision, c.now); err != nil {
		return nil, err
	}
	r := c.Release
	p := record.Payload{By: r.By, Carries: r.Carries, Takes: r.Takes, Fix: r.Fix, Bound: true, Asks: &acceptance.Asks{
		Content: contentOf(s.name, r), Excess: c.Excess, Expires: c.now.Add(acceptance.Lasts).UTC(),
	}}
	data := p.Data()
	if len(data) > deploylog.MaxData {
		return nil, refusal.New(InputsTooLarge, "revision %s of pipeline %s cannot be asked for: its event has %d bytes, and at most %d fit into the log", r.Revision, s.name, len(data), deploylog.MaxData)
	}
	return []deploylog.Event{{Deployment: r.ID, Target: s.target, Revision: r.Revision, Name: record.ReleaseAsked, Attempt: 1, Data: data}}, nil
}

// waiting finds what was asked for of a revision.
func (s *State) waiting(revision string, now time.Time) (AskedFor, error) {
	if err := s.isDefined(); err != nil {
		return AskedFor{}, err
	}
	return s.asked.Find(s.asks(), revision, now)
}

func (c Accept) propose(s *State) ([]deploylog.Event, error) {
	a, err := s.waiting(c.Revision, c.now)
	if err != nil {
		return nil, err
	}
	if err := a.Accept(s.asks(), c.Content, c.By, s.defined); err != nil {
		return nil, err
	}
	r := Release{Revision: a.Revision, Carries: a.Payload.Carries, Takes: a.Payload.Takes, Fix: a.Payload.Fix, ID: c.ID, By: a.By}
	if err := a.Altered(contentOf(s.name, r)); err != nil {
		return nil, err
	}
	events, err := r.propose(s)
	if err != nil {
		return nil, err
	}
	p := record.Read(events[0].Data)
	p.Accepted = a.Accepted(c.By)
	events[0].Data = p.Data()
	return events, nil
}

func (c Decline) propose(s *State) ([]deploylog.Event, error) {
	a, err := s.waiting(c.Revision, c.now)
	if err != nil {
		return nil, err
	}
	return []deploylog.Event{{Deployment: a.ID, Target: s.target, Revision: a.Revision, Name: record.ReleaseDeclined, Attempt: 1, Data: record.Payload{By: c.By, Reason: c.Reason}.Data()}}, nil
}

// applyAsked folds in what is asked for.
func (s *State) applyAsked(e deploylog.Event) {
	switch p := record.Read(e.Data); e.Name {
	case record.ReleaseAsked:
		if s.deleted > 0 || p.Asks == nil {
			return
		}
		s.asked = s.asked.With(AskedFor{Revision: e.Revision, By: p.By, Seq: e.Seq, ID: e.Deployment, Defined: s.defined, Asks: *p.Asks, Payload: p}, e.CreatedAt)
	case record.ReleaseDeclined:
		s.asked = s.asked.Without(func(a AskedFor) bool { return a.ID == e.Deployment })
	}
}

// askedReasons say what is asked for, also what has expired.
func (s *State) askedReasons() (all []reason.Reason) {
	for _, a := range s.asked {
		all = append(all, reason.Reason{
			Code: reason.AwaitsAcceptance, Revision: a.Revision, Deployment: a.ID, Target: s.target, Event: record.PipelineStarted,
			Name: a.Content, Actor: a.By, Cause: a.Cause(), Until: a.Expires, Seq: a.Seq, By: s.target, ByEvent: record.ReleaseAsked,
		})
	}
	return all
}
