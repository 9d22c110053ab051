package pipeline

import (
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// Command is what a person, or an outside system, wants of a pipeline.
type Command interface {
	propose(s *State) ([]deploylog.Event, error)
}

// Propose returns the events that carry out a command, to be appended together:
// none when there is nothing to do. A *refusal.Error says why a command makes no sense
// now, and what to do instead. Commands that are proposed and appended at the same time
// by several processes need one lock around both.
func (s *State) Propose(c Command, _ time.Time) ([]deploylog.Event, error) {
	s.currentLayout()
	return c.propose(s)
}

// Define makes a definition the current one.
type Define struct {
	Definition *definition.Definition
	Carries    Files    // its manifests with what they include, for revisions that do not carry these
	Adopt      []string // revisions under way that are to be as if they had been released with it
	Inventory  string   // that its queries are over, as Bound says; "" is any
	ID         string   // of a fresh deployment, for the event
	By         string
}

// Release registers a revision and starts its deployment.
type Release struct {
	Revision string
	Carries  Files  // the manifests of the pipeline with what they include
	Fix      bool   // it enters stages in which earlier ones failed, and goes by those that wait there
	ID       string // of the fresh deployment
	By       string
}

// Cancel ends a deployment: none of its steps begins any more.
type Cancel struct {
	Revision, By, Reason string
}

// Retry does again what failed, or what a cancelled deployment left undone.
type Retry struct {
	Revision, By string
}

// Delete ends a pipeline: none of its steps begins any more, and what it was is
// history. A pipeline of its name that is defined later begins anew.
type Delete struct {
	ID         string // of a fresh deployment, for the event
	By, Reason string
	Cancel     bool // also the deployments in progress; without it they refuse the deletion
}

func (c Define) propose(s *State) ([]deploylog.Event, error) {
	switch {
	case c.Definition.Name != s.name:
		return nil, refusal.New(OtherPipeline, "the definition is of pipeline %s, not of %s", c.Definition.Name, s.name)
	case len(c.Definition.Stages) == 0:
		return nil, refusal.New(NoStages, "pipeline %s has no stages: give it one", s.name)
	}
	adopt, err := s.adopting(c)
	if err != nil {
		return nil, err
	}
	if len(adopt) == 0 && s.Defines(c.Definition) && c.Inventory == s.inventory {
		return nil, nil
	}
	p := payload{Version: keepsManifests, Definition: c.Definition, Introduced: s.introduce(c.Definition), By: c.By, Carries: c.Carries, Adopt: adopt, Inventory: c.Inventory}
	if n := len(s.revisions); n > 0 {
		p.Latest = s.revisions[n-1].Revision
	}
	return []deploylog.Event{{Deployment: c.ID, Target: s.target, Name: EventDefined, Attempt: 1, Data: p.data()}}, nil
}

// adopting are the revisions that adopt a definition, without those for which that changes
// nothing.
func (s *State) adopting(c Define) (adopt []string, err error) {
	for _, revision := range c.Adopt {
		r, err := s.registration(revision)
		if err != nil {
			return nil, err
		}
		d := s.byID[r.Deployment]
		if d == nil {
			return nil, refusal.New(NotRunning, "revision %s cannot adopt a definition: it is %s since event %d, and only what is under way or can be retried takes what changes", revision, r.Status, r.Since)
		}
		if s.gains(d, c) && !slices.Contains(adopt, revision) {
			adopt = append(adopt, revision)
		}
	}
	return adopt, nil
}

// gains reports whether a revision that adopts a definition takes anything else than it
// has.
func (s *State) gains(d *deployment, c Define) bool {
	introduced := s.introduce(c.Definition)
	for _, unit := range units(c.Definition) {
		if after, late := introduced[unit]; late && d.older(introduction{unit: unit, after: after}) {
			return true
		}
	}
	for unit, manifest := range manifestsOf(c.Definition) {
		if is := d.applies(unit, manifest); is.manifest != manifest || is.differs(c.Carries, nil) {
			return true
		}
	}
	return false
}

// introduce is, for the units of a definition, how many revisions were registered
// when they were introduced. What is in the first definition always was; what left
// is forgotten.
func (s *State) introduce(d *definition.Definition) map[string]int {
	if s.definition == nil {
		return nil
	}
	before := units(s.definition)
	introduced := map[string]int{}
	for _, unit := range units(d) {
		if n, ok := s.introduced[unit]; ok {
			introduced[unit] = n
		} else if !slices.Contains(before, unit) {
			introduced[unit] = len(s.revisions)
		}
	}
	return introduced
}

func (c Release) propose(s *State) ([]deploylog.Event, error) {
	if err := s.isDefined(); err != nil {
		return nil, err
	}
	if i, ok := s.byRevision[c.Revision]; ok {
		r := s.revisions[i]
		remedy := "release another revision"
		if s.byID[r.Deployment] != nil && r.Status != Running && r.Status != Superseded {
			remedy = "retry it, or release another revision"
		}
		return nil, refusal.New(AlreadyReleased, "revision %s of pipeline %s is %w released (event %d) and %s: %s", c.Revision, s.name, ErrRepeated, r.Seq, r.Status, remedy)
	}
	return []deploylog.Event{{
		Deployment: c.ID, Target: s.target, Revision: c.Revision, Name: pipelineStarted, Attempt: 1, Data: payload{By: c.By, Carries: c.Carries, Fix: c.Fix}.data(),
	}}, nil
}

func (c Cancel) propose(s *State) ([]deploylog.Event, error) {
	r, err := s.meant(c.Revision)
	if err != nil {
		return nil, err
	}
	d, err := s.inProgress(r, "be cancelled")
	if err != nil {
		return nil, err
	}
	return []deploylog.Event{d.event(s.target, EventCancelled, payload{By: c.By, Reason: c.Reason})}, nil
}

func (c Retry) propose(s *State) ([]deploylog.Event, error) {
	r, err := s.ended(c.Revision)
	if err != nil {
		return nil, err
	}
	d := s.byID[r.Deployment]
	switch {
	case r.Status == Running || r.Status == Finished:
		return nil, refusal.New(NothingToRetry, "revision %s is %s (event %d): only what failed, was cancelled or was skipped can be retried", c.Revision, r.Status, r.Since)
	case r.Status == Superseded:
		return nil, refusal.New(WasOvertaken, "revision %s cannot be retried: it was superseded by %s (event %d), and the newest revision wins in this pipeline; release another revision", c.Revision, r.SupersededBy, r.Since)
	case d == nil:
		return nil, refusal.New(TooLateToRetry, "revision %s cannot be retried any more: newer ones have finished, or %d others have ended otherwise since; release another revision", c.Revision, keptEnded)
	}
	stragglers := s.stragglers()
	for b, batch := range s.layout.batches {
		if w := straggler(stragglers, b, d); w != nil && d.within(batch) {
			return nil, refusal.New(BatchIsHeld, "revision %s cannot be retried yet: %s", c.Revision, w.reason().Message())
		}
	}
	for _, o := range s.deployments {
		for i := range d.stages {
			if o.order > d.order && o.stages[i].begun && !d.stages[i].passed {
				return nil, refusal.New(NewerIsAhead, "revision %s cannot be retried: the newer revision %s is at or past stage %s, and it would overwrite it; release another revision", c.Revision, o.revision, s.layout.stages[i].Name)
			}
		}
		for _, b := range s.layout.batches {
			if d.within(b) && o != d && o.holds(b) {
				return nil, refusal.New(BatchIsHeld, "revision %s cannot be retried yet: revision %s is in the batch of stages %s to %s; retry when it has passed %s",
					c.Revision, o.revision, s.layout.stages[b.from].Name, s.layout.stages[b.to].Name, s.layout.stages[b.to].Name)
			}
		}
	}
	if err := s.overtaken(d); err != nil {
		return nil, err
	}
	e := d.event(s.target, EventRetried, payload{By: c.By})
	e.Attempt = d.attempt + 1
	return []deploylog.Event{e}, nil
}

func (c Delete) propose(s *State) ([]deploylog.Event, error) {
	if err := s.isDefined(); err != nil {
		return nil, err
	}
	p := payload{By: c.By, Reason: c.Reason}
	var events []deploylog.Event
	var running []string
	for _, d := range s.deployments {
		if d.status == Running {
			running = append(running, d.revision)
			events = append(events, d.event(s.target, EventCancelled, p))
		}
	}
	if len(running) > 0 && !c.Cancel {
		return nil, refusal.New(DeploymentRunning, "pipeline %s cannot be deleted: %s is in progress; wait for its end, or cancel it with the pipeline (--cancel)", s.name, strings.Join(running, ", "))
	}
	return append(events, deploylog.Event{Deployment: c.ID, Target: s.target, Name: EventDeleted, Attempt: 1, Data: p.data()}), nil
}

func (d *deployment) event(t deploylog.Target, name string, p payload) deploylog.Event {
	return deploylog.Event{Deployment: d.id, Target: t, Revision: d.revision, Name: name, Attempt: d.attempt, Data: p.data()}
}

func (s *State) isDefined() error {
	if s.deleted > 0 {
		return refusal.New(UnknownPipeline, "%w pipeline %q: it was deleted (event %d); apply its definition to create it again", ErrUnknown, s.name, s.deleted)
	}
	if s.definition == nil {
		return refusal.New(UnknownPipeline, "%w pipeline %q: apply its definition first", ErrUnknown, s.name)
	}
	return nil
}

// running finds the deployment of a revision that is still in progress.
func (s *State) running(revision, to string) (*deployment, error) {
	r, err := s.registration(revision)
	if err != nil {
		return nil, err
	}
	return s.inProgress(r, to)
}

func (s *State) inProgress(r Registration, to string) (*deployment, error) {
	if r.Status != Running {
		remedy := ""
		if r.Status != Finished && r.Status != Superseded {
			remedy = "; retry it to continue"
		}
		return nil, refusal.New(NotRunning, "revision %s cannot %s: it is %s since event %d%s", r.Revision, to, r.Status, r.Since, remedy)
	}
	return s.byID[r.Deployment], nil
}

func (s *State) registration(revision string) (Registration, error) {
	if err := s.isDefined(); err != nil {
		return Registration{}, err
	}
	i, ok := s.byRevision[revision]
	if last, rolledBackTo := s.rollbacks[revision]; rolledBackTo && (!ok || s.revisions[i].Status != Running) {
		i, ok = last, true
	}
	if ok {
		return s.revisions[i], nil
	}
	var known []string
	for _, r := range s.revisions {
		known = append(known, r.Revision)
	}
	return Registration{}, s.unknown(UnknownRevision, "revision", revision, known)
}

func (s *State) unknown(code refusal.Code, what, name string, known []string) error {
	if meant := suggest.Closest(name, known); meant != "" {
		return refusal.New(code, "%w %s %q of pipeline %s: did you mean %s?", ErrUnknown, what, name, s.name, meant)
	}
	if len(known) == 0 {
		return refusal.New(code, "%w %s %q of pipeline %s: it has none", ErrUnknown, what, name, s.name)
	}
	const most = 10
	listed := strings.Join(known[max(0, len(known)-most):], ", ")
	if len(known) > most {
		listed = "…, " + listed
	}
	return refusal.New(code, "%w %s %q of pipeline %s: it has %s", ErrUnknown, what, name, s.name, listed)
}
