package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// Ask asks for a release that brings more than it may. Somebody who may bring it accepts exactly that, or it expires.
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
type AskedFor struct {
	Revision string
	By       string
	Seq      int64
	Content  string
	Expires  time.Time

	id      string
	defined int64 // event of the definition then
	payload record.Payload
}

// The limits of what is asked for.
const (
	askedLasts = 7 * 24 * time.Hour
	mostAsked  = 20 // of a pipeline at once
)

// contentOf is the hash of all that a release brings.
func contentOf(pipeline string, r Release) string {
	text, err := json.Marshal(struct {
		Pipeline, Revision string
		Carries            record.Files
		Takes              []upstream.Input
		Fix                bool
	}{pipeline, r.Revision, r.Carries, r.Takes, r.Fix})
	if err != nil {
		return "" // no field of it can fail
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Asked are the releases that wait for somebody to accept them at a moment.
func (s *State) Asked(now time.Time) (all []AskedFor) {
	for _, a := range s.asked {
		if now.Before(a.Expires) {
			all = append(all, a)
		}
	}
	return all
}

func (c Ask) propose(s *State) ([]deploylog.Event, error) {
	if _, err := c.Release.propose(s); err != nil {
		return nil, err
	}
	if i := s.askedFor(c.Release.Revision, c.now); i >= 0 {
		return nil, refusal.New(AlreadyAsked, "revision %s of pipeline %s is %w asked for, by %s (event %d): deployster pipeline decline %s %s takes it back", c.Release.Revision, s.name, ErrRepeated, s.asked[i].By, s.asked[i].Seq, s.name, c.Release.Revision)
	}
	if n := len(s.Asked(c.now)); n >= mostAsked {
		return nil, refusal.New(TooManyAsked, "%s of pipeline %s wait to be accepted, and no more may: have some accepted or declined first", phrase.Count(n, "release"), s.name)
	}
	r := c.Release
	p := record.Payload{By: r.By, Carries: r.Carries, Takes: r.Takes, Fix: r.Fix, Bound: true, Asks: &record.AskInfo{
		Content: contentOf(s.name, r), Excess: c.Excess, Expires: c.now.Add(askedLasts).UTC(),
	}}
	data := p.Data()
	if len(data) > deploylog.MaxData {
		return nil, refusal.New(InputsTooLarge, "revision %s of pipeline %s cannot be asked for: its event has %d bytes, and at most %d fit into the log", r.Revision, s.name, len(data), deploylog.MaxData)
	}
	return []deploylog.Event{{Deployment: r.ID, Target: s.target, Revision: r.Revision, Name: record.ReleaseAsked, Attempt: 1, Data: data}}, nil
}

// askedFor is the index of what is asked for of a revision; negative is none.
func (s *State) askedFor(revision string, now time.Time) int {
	return slices.IndexFunc(s.asked, func(a AskedFor) bool { return a.Revision == revision && now.Before(a.Expires) })
}

// waiting finds what was asked for of a revision.
func (s *State) waiting(revision string, now time.Time) (AskedFor, error) {
	if err := s.isDefined(); err != nil {
		return AskedFor{}, err
	}
	if i := s.askedFor(revision, now); i >= 0 {
		return s.asked[i], nil
	}
	for _, a := range slices.Backward(s.asked) {
		if a.Revision == revision {
			return a, refusal.New(NothingAsked, "revision %s of pipeline %s was asked for by %s (event %d), and that has expired (%s): it has to be asked for again", revision, s.name, a.By, a.Seq, a.Expires.Format(time.RFC3339))
		}
	}
	var names []string
	for _, a := range s.Asked(now) {
		names = append(names, a.Revision)
	}
	has := "none waits"
	if len(names) > 0 {
		has = "those that wait are " + strings.Join(names, ", ")
	}
	return AskedFor{}, refusal.New(NothingAsked, "%w release of revision %s: nobody asks for it of pipeline %s; %s", ErrUnknown, revision, s.name, has)
}

func (c Accept) propose(s *State) ([]deploylog.Event, error) {
	a, err := s.waiting(c.Revision, c.now)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Content == "":
		return nil, refusal.New(CarriesOther, "which content of revision %s do you accept? pipeline explain %s shows it: deployster pipeline accept %s %s --content %s", c.Revision, s.name, s.name, c.Revision, a.Content)
	case c.Content != a.Content:
		return nil, refusal.New(CarriesOther, "revision %s is asked for with the content %s, and not with %s: look at it again (deployster pipeline explain %s)", c.Revision, a.Content, c.Content, s.name)
	case c.By == a.By:
		return nil, refusal.New(AskedByYou, "revision %s was asked for by %s, who does not accept it: somebody else does, who is operator of everything", c.Revision, a.By)
	case a.defined != s.defined:
		return nil, refusal.New(CarriesOther, "pipeline %s was defined anew since revision %s was asked for (event %d): decline it, and have it asked for again", s.name, c.Revision, s.defined)
	}
	r := Release{Revision: a.Revision, Carries: a.payload.Carries, Takes: a.payload.Takes, Fix: a.payload.Fix, ID: c.ID, By: a.By}
	if contentOf(s.name, r) != a.Content {
		return nil, refusal.New(CarriesOther, "what was asked for as revision %s (event %d) is not what it says: decline it, and have it asked for again", c.Revision, a.Seq)
	}
	events, err := r.propose(s)
	if err != nil {
		return nil, err
	}
	p := record.Read(events[0].Data)
	p.Accepted = &record.AcceptInfo{By: c.By, Asked: a.id, Content: a.Content}
	events[0].Data = p.Data()
	return events, nil
}

func (c Decline) propose(s *State) ([]deploylog.Event, error) {
	a, err := s.waiting(c.Revision, c.now)
	if err != nil {
		return nil, err
	}
	return []deploylog.Event{{Deployment: a.id, Target: s.target, Revision: a.Revision, Name: record.ReleaseDeclined, Attempt: 1, Data: record.Payload{By: c.By, Reason: c.Reason}.Data()}}, nil
}

// applyAsked folds in what is asked for.
func (s *State) applyAsked(e deploylog.Event) {
	switch p := record.Read(e.Data); e.Name {
	case record.ReleaseAsked:
		if s.deleted > 0 || p.Asks == nil {
			return
		}
		s.asked = slices.DeleteFunc(slices.Clone(s.asked), func(a AskedFor) bool { return !e.CreatedAt.Before(a.Expires) })
		s.asked = append(s.asked, AskedFor{
			Revision: e.Revision, By: p.By, Seq: e.Seq, Content: p.Asks.Content, Expires: p.Asks.Expires, id: e.Deployment, defined: s.defined, payload: p,
		})
	case record.ReleaseDeclined:
		s.forgetAsked(func(a AskedFor) bool { return a.id == e.Deployment })
	}
}

func (s *State) forgetAsked(is func(AskedFor) bool) {
	if slices.ContainsFunc(s.asked, is) {
		s.asked = slices.DeleteFunc(slices.Clone(s.asked), is)
	}
}

// askedReasons say what is asked for. Whoever tells of them leaves out what has expired.
func (s *State) askedReasons() (all []reason.Reason) {
	for _, a := range s.asked {
		all = append(all, reason.Reason{
			Code: reason.AwaitsAcceptance, Revision: a.Revision, Deployment: a.id, Target: s.target, Event: record.PipelineStarted,
			Name: a.Content, Actor: a.By, Cause: strings.Join(a.payload.Asks.Excess, "; "), Until: a.Expires, Seq: a.Seq, By: s.target, ByEvent: record.ReleaseAsked,
		})
	}
	return all
}
