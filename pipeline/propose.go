package pipeline

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
	"github.com/deployster-go/deployster/pipeline/walk"
)

// Command is what a person, or an outside system, wants of a pipeline.
type Command interface {
	propose(s *State) ([]deploylog.Event, error)
}

// Propose returns the events that carry out a command, to be appended together:
// none when there is nothing to do. A *refusal.Error says why a command makes no sense
// now, and what to do instead. Commands that are proposed and appended at the same time
// by several processes need one lock around both.
func (s *State) Propose(c Command, now time.Time) ([]deploylog.Event, error) {
	s.currentLayout()
	switch of := c.(type) {
	case Approve:
		of.now = now
		c = of
	case Ask:
		of.now = now
		c = of
	case Accept:
		of.now = now
		c = of
	case Decline:
		of.now = now
		c = of
	}
	return c.propose(s)
}

// Define makes a definition the current one.
type Define struct {
	Definition *definition.Definition
	Carries    record.Files // its manifests with what they include, for revisions that do not carry these
	Files      record.Files // the same, as what the definition names itself; nil is not known
	Bound      bool         // by who may widen nothing
	Adopt      []string     // revisions under way that are to be as if they had been released with it
	Inventory  string       // that its queries are over, as Bound says; "" is any
	ID         string       // of a fresh deployment, for the event
	By         string
}

// Release registers a revision and starts its deployment.
type Release struct {
	Revision string
	Carries  record.Files     // the manifests of the pipeline with what they include
	Takes    []upstream.Input // the revisions of other pipelines that it takes; see upstream.Take
	Fix      bool             // it enters stages in which earlier ones failed, and goes by those that wait there
	Bound    bool             // it may bring no more than the definition names itself and allows
	Pending  bool             // if it may not be released as it is, it is asked for
	ID       string           // of the fresh deployment
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
	if err := s.keepsApprovals(c.Definition); err != nil {
		return nil, err
	}
	adopt, err := s.adopting(c)
	if err != nil {
		return nil, err
	}
	if len(adopt) == 0 && s.Defines(c.Definition) && c.Inventory == s.inventory {
		return s.namesFiles(c), nil
	}
	p := record.Payload{Version: record.KeepsManifests, Files: c.Files, Bound: c.Bound, Definition: c.Definition, Introduced: s.introduce(c.Definition), By: c.By, Carries: c.Carries, Adopt: adopt, Inventory: c.Inventory}
	if n := len(s.revisions); n > 0 {
		p.Latest = s.revisions[n-1].Revision
	}
	return []deploylog.Event{{Deployment: c.ID, Target: s.target, Name: record.PipelineDefined, Attempt: 1, Data: p.Data()}}, nil
}

// namesFiles records that the files which a definition names are others, though it is the same.
func (s *State) namesFiles(c Define) []deploylog.Event {
	if c.Bound || c.Files == nil || s.own != nil && sameFiles(c.Files, s.own) {
		return nil
	}
	return []deploylog.Event{{Deployment: c.ID, Target: s.target, Name: record.FilesDefined, Attempt: 1, Data: record.Payload{Files: c.Files, By: c.By}.Data()}}
}

// sameFiles reports whether a definition names the same files as it, or what was released of it, did before. A release
// also carries what is no file, which a definition need not have.
func sameFiles(now, before record.Files) bool {
	for name, digest := range now {
		if before[name] != digest {
			return false
		}
	}
	for name := range before {
		if _, has := now[name]; !has && !strings.HasPrefix(name, "/") {
			return false
		}
	}
	return true
}

// keepsApprovals refuses a stage that becomes an approval, or was one, under the same name: revisions
// that have passed the former stage would count as approved, or as if they had done its work. A stage
// that became one when that was not refused yet stays as it is, so that other edits go on.
func (s *State) keepsApprovals(d *definition.Definition) error {
	for i := range d.Stages {
		stage := &d.Stages[i]
		if s.hasStage(stage.Name, stage.Approval != nil) {
			continue
		}
		v := s.visits[record.StageTarget(s.name, stage.Name)]
		if was := v.ending.Kind; len(v.finished) > 0 && was != "" && (was == definition.KindApproval) != (stage.Approval != nil) {
			last := s.revisions[v.finished[len(v.finished)-1]].Revision
			return refusal.New(OtherStage, "stage %s cannot change from %s to %s: revision %s has passed it, which would count for the new stage; give that another name", stage.Name, was, stage.Kind(), last)
		}
	}
	return nil
}

// hasStage reports whether the present definition has a stage of a name that is an approval, or is none.
func (s *State) hasStage(name string, approval bool) bool {
	return s.definition != nil && slices.ContainsFunc(s.definition.Stages, func(stage definition.Stage) bool {
		return stage.Name == name && (stage.Approval != nil) == approval
	})
}

// adopting are the revisions that adopt a definition, without those for which that changes
// nothing.
func (s *State) adopting(c Define) (adopt []string, err error) {
	for _, revision := range c.Adopt {
		r, err := s.release(revision, "adopt a definition")
		if err != nil {
			return nil, err
		}
		d := s.byID[r.Deployment]
		if d == nil {
			return nil, refusal.New(NotRunning, "revision %s cannot adopt a definition: it is %s since event %d, and only what is under way or can be retried takes what changes", revision, r.Status, r.Since)
		}
		gains := s.gains(d, c)
		if at, seq := d.ApprovedAt(s.layout); gains && seq > 0 {
			return nil, refusal.New(AlreadyApproved, "revision %s cannot adopt a definition: it is %w approved at stage %s (event %d), for what it carries; release another revision", revision, ErrRepeated, at, seq)
		}
		if missing := upstream.Missing(c.Definition, d.Takes); missing != "" {
			return nil, refusal.New(InputsMissing, "revision %s cannot adopt a definition whose inputs it was not released with: it took %s; release another revision", revision, missing)
		}
		if gains && !slices.Contains(adopt, revision) {
			adopt = append(adopt, revision)
		}
	}
	return adopt, nil
}

// gains reports whether a revision that adopts a definition takes anything else than it
// has.
func (s *State) gains(d *deployment.Deployment, c Define) bool {
	introduced := s.introduce(c.Definition)
	for _, unit := range deployment.Units(c.Definition) {
		if after, late := introduced[unit]; late && d.Older(deployment.Introduction{Unit: unit, After: after}) {
			return true
		}
	}
	for unit, manifest := range deployment.ManifestsOf(c.Definition) {
		if is := d.Applies(unit, manifest); is.Manifest != manifest || is.Differs(c.Carries, nil) {
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
	before := deployment.Units(s.definition)
	introduced := map[string]int{}
	for _, unit := range deployment.Units(d) {
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
		if s.byID[r.Deployment] != nil && r.Status != deployment.Running && r.Status != deployment.Superseded {
			remedy = "retry it, or release another revision"
		}
		return nil, refusal.New(AlreadyReleased, "revision %s of pipeline %s is %w released (event %d) and %s: %s", c.Revision, s.name, ErrRepeated, r.Seq, r.Status, remedy)
	}
	if missing := upstream.Missing(s.definition, c.Takes); missing != "" {
		return nil, refusal.New(InputsMissing, "revision %s of pipeline %s cannot be released: it would take %s", c.Revision, s.name, missing)
	}
	data := record.Payload{By: c.By, Carries: c.Carries, Takes: c.Takes, Fix: c.Fix, Bound: c.Bound}.Data()
	if len(c.Takes) > 0 && len(data) > deploylog.MaxData {
		return nil, refusal.New(InputsTooLarge, "revision %s of pipeline %s cannot be released: with its inputs its event has %d bytes, and at most %d fit into the log; have fewer artifacts in these pipelines, or shorter references", c.Revision, s.name, len(data), deploylog.MaxData)
	}
	return []deploylog.Event{{
		Deployment: c.ID, Target: s.target, Revision: c.Revision, Name: record.PipelineStarted, Attempt: 1, Data: data,
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
	return []deploylog.Event{s.endEvent(d, deployment.Cancelled, record.PipelineCancelled, record.Payload{By: c.By, Reason: c.Reason})}, nil
}

func (c Retry) propose(s *State) ([]deploylog.Event, error) {
	r, err := s.ended(c.Revision)
	if err != nil {
		return nil, err
	}
	d := s.byID[r.Deployment]
	switch {
	case r.Status == deployment.Running || r.Status == deployment.Finished:
		return nil, refusal.New(NothingToRetry, "revision %s is %s (event %d): only what failed, was cancelled or was skipped can be retried", c.Revision, r.Status, r.Since)
	case r.Status == deployment.Superseded:
		return nil, refusal.New(WasOvertaken, "revision %s cannot be retried: it was superseded by %s (event %d), and the newest revision wins in this pipeline; release another revision", c.Revision, r.SupersededBy, r.Since)
	case d == nil:
		return nil, refusal.New(TooLateToRetry, "revision %s cannot be retried any more: newer ones have finished, or %d others have ended otherwise since; release another revision", c.Revision, keptEnded)
	}
	stragglers := s.stragglers()
	for b, batch := range s.layout.Batches {
		if w := walk.Straggler(stragglers, b, d); w != nil && d.Within(s.layout, batch) {
			return nil, refusal.New(BatchIsHeld, "revision %s cannot be retried yet: %s", c.Revision, w.Reason().Message())
		}
	}
	for _, o := range s.deployments {
		for i := range d.Stages {
			if d.Redo.Info == nil && !s.layout.Stages[i].Closing() && o.Rank() > d.Order && o.Stages[i].Begun && !d.Stages[i].Passed {
				return nil, refusal.New(NewerIsAhead, "revision %s cannot be retried: the newer revision %s is at or past stage %s, and it would overwrite it; release another revision", c.Revision, o.Revision, s.layout.Stages[i].Name)
			}
		}
		for _, b := range s.layout.Batches {
			if d.Within(s.layout, b) && s.excludes(o, d, b) {
				return nil, refusal.New(BatchIsHeld, "revision %s cannot be retried yet: revision %s is in the batch of stages %s to %s; retry when it has passed %s",
					c.Revision, o.Revision, s.layout.Stages[b.From].Name, s.layout.Stages[b.To].Name, s.layout.Stages[b.To].Name)
			}
		}
	}
	if err := s.retryOvertaken(d); err != nil {
		return nil, err
	}
	e := d.Event(s.target, record.PipelineRetried, record.Payload{By: c.By})
	e.Attempt = d.Attempt + 1
	return []deploylog.Event{e}, nil
}

func (c Delete) propose(s *State) ([]deploylog.Event, error) {
	if err := s.isDefined(); err != nil {
		return nil, err
	}
	p := record.Payload{By: c.By, Reason: c.Reason}
	var events []deploylog.Event
	var running []string
	for _, d := range s.deployments {
		if d.Status == deployment.Running {
			running = append(running, d.Revision)
			events = append(events, d.Event(s.target, record.PipelineCancelled, p))
		}
	}
	if len(running) > 0 && !c.Cancel {
		return nil, refusal.New(DeploymentRunning, "pipeline %s cannot be deleted: %s is in progress; wait for its end, or cancel it with the pipeline (--cancel)", s.name, strings.Join(running, ", "))
	}
	return append(events, deploylog.Event{Deployment: c.ID, Target: s.target, Name: record.PipelineDeleted, Attempt: 1, Data: p.Data()}), nil
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
func (s *State) running(revision, to string) (*deployment.Deployment, error) {
	r, err := s.release(revision, to)
	if err != nil {
		return nil, err
	}
	return s.inProgress(r, to)
}

func (s *State) inProgress(r Registration, to string) (*deployment.Deployment, error) {
	if r.Status != deployment.Running {
		remedy := ""
		if r.Status != deployment.Finished && r.Status != deployment.Superseded {
			remedy = "; retry it to continue"
		}
		return nil, refusal.New(NotRunning, "revision %s cannot %s: it is %s since event %d%s", r.Revision, to, r.Status, r.Since, remedy)
	}
	return s.byID[r.Deployment], nil
}

func (s *State) unknown(code refusal.Code, what, name string, known []string) error {
	return refusal.New(code, "%w %s", ErrUnknown, definition.Unknown(s.name, what, name, known))
}

// take lets the deployments that have not finished have a definition that has just become
// the current one. A step that a deployment had when its revision was released keeps its
// manifest, with the files that the revision carries: what changed in a step must not run
// for the first time in the middle of a rollout. A step that is new has the manifest of the
// first definition that has it, with the files of the first that brings them, so that all
// hosts get the same. A revision that adopts the definition is as if it had been released
// with it.
func (s *State) take(p record.Payload) {
	s.manifests, s.taken = deployment.ManifestsOf(s.definition), p
	present := deployment.Units(s.definition)
	for _, d := range s.deployments {
		maps.DeleteFunc(d.Adopted, func(unit string, _ bool) bool { return !slices.Contains(present, unit) })
		if slices.Contains(p.Adopt, d.Revision) {
			s.adopt(d, p.Carries, p.Bound)
		} else {
			d.Bring(s.manifests, p, s.own)
		}
	}
}

// adopt makes a revision one that was released with the present definition, and with files of who may bring no more
// if it is bound. Otherwise only its name and its artifacts may still be of such a one.
func (s *State) adopt(d *deployment.Deployment, carries record.Files, bound bool) {
	d.Manifests, d.Carries, d.Brought, d.BroughtBound, d.Adopted = nil, carries, nil, nil, map[string]bool{}
	if d.Own = carries; bound {
		d.Bound, d.Own = true, s.own
	}
	if carries != nil {
		d.Manifests = s.manifests
	}
	for _, unit := range deployment.Units(s.definition) {
		d.Adopted[unit] = true
	}
	s.revisions[d.Order-1].Carries = carries
}

// Takes reports whether there are revisions that a change of the definition may bring
// anything to: those that are under way, and those that are kept to be retried.
func (s *State) Takes() bool { return len(s.deployments) > 0 }
