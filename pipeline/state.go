package pipeline

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/acceptance"
	"github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/outcome"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// State is one pipeline as recorded in the log: its definition, the members of its
// host groups, and every deployment that has not finished. It is folded from events
// by Apply, and Decide yields what may happen next. It is not safe for concurrent
// use, not even its methods that only read.
type State struct {
	name       string
	target     deploylog.Target
	definition *definition.Definition
	defined    int64  // event of the definition
	inventory  string // that the queries of the definition are over; "" is any
	members    map[string][]string
	changed    map[string]int64                    // events of the members
	held       map[string]*deployment.HeldMembers  // of groups that hold instead of taking a selection over
	asked      acceptance.Requests[record.Payload] // that may have expired
	own        record.Files                        // what the definition names itself, or whoever may define it released last; nil is not known
	paused     map[deploylog.Target]PauseInfo
	outcomes   outcome.Stages
	introduced map[string]int     // unit → number of revisions registered before it
	taken      record.Payload     // with which that came, for what is done again later
	manifests  map[string]string  // of the definition, by unit
	layout     *deployment.Layout // nil after a change, until it is needed

	revisions   []Registration
	byRevision  map[string]int           // the release of a revision
	deployments []*deployment.Deployment // not finished, in order of registration
	byID        map[string]*deployment.Deployment
	finished    int                         // order of the newest revision that has
	visits      map[deploylog.Target]visits // of stages and host groups
	head        int64
	work        step.Underway
	keys        approval.Keys
	deleted     int64 // event of the deletion; 0 while there is a definition, or never was one
}

// Registration is what is kept of every revision that was ever released.
type Registration struct {
	Revision     string               `json:"revision"`
	Deployment   string               `json:"deployment"`
	Seq          int64                `json:"seq"` // event of its registration
	Status       deployment.Status    `json:"status"`
	Since        int64                `json:"since"`                   // event that gave it the status
	EndedBy      string               `json:"ended_by,omitempty"`      // the person who did
	SupersededBy string               `json:"superseded_by,omitempty"` // revision
	Cause        string               `json:"cause,omitempty"`         // why it ended, unless it finished
	Carries      record.Files         `json:"carries,omitzero"`        // nil of one that a former version released
	Rollback     *record.RollbackInfo `json:"rollback,omitempty"`      // nil of one that goes through the pipeline
	Redo         *record.RedoInfo     `json:"redo,omitempty"`          // nil of one that does no stage again
	Fix          bool                 `json:"fix,omitempty"`
	Bound        bool                 `json:"bound,omitempty"`
	Takes        []upstream.Input     `json:"inputs,omitempty"` // the revisions of other pipelines that it was released with

	inputs deployment.Inputs // once it has ended
}

// New returns the state of a pipeline without any events.
func New(name string) *State {
	return &State{
		name: name, target: record.Target(name), members: map[string][]string{}, changed: map[string]int64{},
		held: map[string]*deployment.HeldMembers{}, paused: map[deploylog.Target]PauseInfo{}, visits: map[deploylog.Target]visits{},
		byRevision: map[string]int{}, byID: map[string]*deployment.Deployment{},
	}
}

// Definition is the current definition, nil before the first and of a pipeline that
// was deleted. It must not be changed.
func (s *State) Definition() *definition.Definition { return s.definition }

// Own is what the definition names itself: its files, as they were when it was applied, or as whoever may define it
// released them since; nil is not known. It must not be changed.
func (s *State) Own() record.Files { return s.own }

// Keys are those that may sign approvals. They must not be changed.
func (s *State) Keys() *approval.Keys { return &s.keys }

// Deleted is the event that deleted the pipeline, 0 when it exists.
func (s *State) Deleted() int64 { return s.deleted }

// Members are the hosts of a group of the definition; ok is false while none are
// recorded. They must not be changed.
func (s *State) Members(group string) (hosts []string, ok bool) {
	hosts, ok = s.members[group]
	return hosts, ok
}

// Registrations are all revisions in order of registration. They must not be
// changed.
func (s *State) Registrations() []Registration { return s.revisions }

// Artifacts are the references of what was received for a deployment that has
// not finished, by kind.
func (s *State) Artifacts(deployment string) map[string]string {
	if d := s.byID[deployment]; d != nil {
		return maps.Clone(d.Refs)
	}
	return nil
}

// Pruning returns what a step knows of the others on its host if it is the last one there, else nil.
func (s *State) Pruning(step step.Step) *deployment.Pruning {
	return s.byID[step.Deployment].Pruning(s.layout, deployment.EntryKey{Target: step.Target, Event: step.Event})
}

// Active reports whether an attempt of a deployment is in progress: neither ended nor
// followed by another.
func (s *State) Active(id string, attempt int) bool {
	d := s.byID[id]
	return d != nil && d.Status == deployment.Running && d.Attempt == attempt
}

// InProgress reports whether a deployment is, in whichever attempt.
func (s *State) InProgress(id string) bool {
	d := s.byID[id]
	return d != nil && d.Status == deployment.Running
}

// Head is the Seq of the last event that was applied.
func (s *State) Head() int64 { return s.head }

// Apply folds in an event. Events of other pipelines are ignored, and so are those
// that contradict the state: history is never refused.
func (s *State) Apply(e deploylog.Event) {
	s.head = e.Seq
	s.keys.Apply(e)
	switch {
	case e.Target == s.target:
		s.applyPipeline(e)
	case e.Name == record.MembersChanged, e.Name == record.MembersHeld:
		s.applyMembers(e)
	case e.Name == record.StagePaused, e.Name == record.StageResumed:
		s.applyPause(e)
	case e.Name == record.StageApprovalGiven:
		s.applyApproval(e)
	default:
		s.work.End(step.Key{Deployment: e.Deployment, Target: e.Target, Event: strings.TrimSuffix(e.Name, record.FailedAfter)})
		if d := s.byID[e.Deployment]; d != nil {
			d.ForgetTries(e)
			s.outcomes.Apply(d, e)
			s.visit(d, e)
			d.Record(s.layout, e)
		}
	}
}

func (s *State) applyPipeline(e deploylog.Event) {
	switch e.Name {
	case record.PipelineDefined:
		s.applyDefined(e)
	case record.ReleaseAsked, record.ReleaseDeclined:
		s.applyAsked(e)
	case record.FilesDefined:
		if p := record.Read(e.Data); s.definition != nil && p.Files != nil {
			s.own = p.Files
		}
	case record.PipelineDeleted:
		s.applyDeleted(e)
	case record.StepsBegun:
		s.applyBegun(e)
	case record.StepsEnded:
		s.applyWorkEnded(e)
	case record.PipelinePaused, record.PipelineResumed:
		s.applyPause(e)
	case record.PipelineStarted:
		if s.deleted == 0 {
			s.register(e)
		}
	case record.PipelineFinished:
		s.end(e, deployment.Finished)
	case record.PipelineFailed:
		s.end(e, deployment.Failed)
	case record.PipelineCancelled:
		s.end(e, deployment.Cancelled)
	case record.PipelineSkipped:
		s.end(e, deployment.PassedOver)
	case record.PipelineSuperseded:
		s.end(e, deployment.Superseded)
	case record.EndRequested:
		s.requestEnd(e)
	case record.PipelineRetried:
		if d := s.byID[e.Deployment]; d != nil {
			d.Retry(e.Attempt, e.CreatedAt, s.closing())
			s.setStatus(d, e.Seq)
			s.layout = nil
			s.wantBack(d, e.Seq)
		}
	}
}

func (s *State) applyDefined(e deploylog.Event) {
	p := record.Read(e.Data)
	if p.Definition == nil || len(p.Definition.Stages) == 0 {
		return
	}
	s.define(p.Definition, p.Introduced, e.Seq)
	s.inventory = p.Inventory
	if p.Files != nil && !p.Bound {
		s.own = p.Files
	}
	s.take(p)
}

func (s *State) applyDeleted(e deploylog.Event) {
	if s.definition == nil {
		return
	}
	work, keys := s.work, s.keys.Forget() // it goes on
	*s = *New(s.name)
	s.head, s.deleted, s.work, s.keys = e.Seq, e.Seq, work, keys
}

// requestEnd notes how a deployment is to end once its stages for any case have run.
func (s *State) requestEnd(e deploylog.Event) {
	if d, p := s.byID[e.Deployment], record.Read(e.Data); d != nil && d.Status == deployment.Running {
		d.End = &deployment.End{As: deployment.Status(p.Ends), By: p.By, Cause: record.Cause(e), FailedAt: p.FailedAt, SupersededBy: p.SupersededBy, Seq: e.Seq}
	}
}

// define makes a definition the current one. Members of groups that it does not have
// are forgotten, so that a group that comes back waits for its current ones.
func (s *State) define(d *definition.Definition, introduced map[string]int, seq int64) {
	d.Name = s.name
	s.definition, s.introduced, s.defined, s.deleted = d, introduced, seq, 0
	groups := d.Groups()
	gone := func(name string) bool {
		return !slices.ContainsFunc(groups, func(g *definition.HostGroup) bool { return g.Name == name })
	}
	maps.DeleteFunc(s.members, func(name string, _ []string) bool { return gone(name) })
	maps.DeleteFunc(s.held, func(name string, _ *deployment.HeldMembers) bool { return gone(name) })
	s.layout = nil
}

func (s *State) register(e deploylog.Event) {
	if _, known := s.byID[e.Deployment]; known {
		return
	}
	p := record.Read(e.Data)
	carries := p.Carries
	if n := len(s.revisions); n > 0 && carries != nil && s.revisions[n-1].Carries != nil && maps.Equal(carries, s.revisions[n-1].Carries) {
		carries = s.revisions[n-1].Carries // most revisions of a long history carry the same
	}
	if p.Rollback == nil && p.Redo == nil {
		s.byRevision[e.Revision] = len(s.revisions)
	}
	s.revisions = append(s.revisions, Registration{
		Bound: p.Bound, Revision: e.Revision, Deployment: e.Deployment, Seq: e.Seq, Status: deployment.Running, Since: e.Seq, Carries: carries, Fix: p.Fix, Takes: p.Takes,
	})
	d := &deployment.Deployment{
		ID: e.Deployment, Revision: e.Revision, Order: len(s.revisions), Seq: e.Seq, Attempt: 1, Since: e.CreatedAt, Status: deployment.Running, Started: map[deploylog.Target]time.Time{},
		Marks: map[deploylog.Target]*record.Marks{}, Refs: map[string]string{}, Skipped: map[string]deployment.SkippedStep{}, Carries: carries, Fix: p.Fix, Takes: p.Takes,
		Bound: p.Bound, Own: s.own,
	}
	s.asked = s.asked.Without(func(a AskedFor) bool { return a.Revision == e.Revision })
	if carries != nil && !p.Bound && p.Accepted == nil && p.Rollback == nil && p.Redo == nil {
		s.own = carries // who may define it released that
	}
	if carries != nil {
		d.Manifests = s.manifests
	}
	s.deployments = append(s.deployments, d)
	s.byID[d.ID] = d
	if p.Rollback != nil {
		s.rollBack(d, p.Rollback)
	}
	if p.Redo != nil {
		s.doAgain(d, p.Redo)
	}
	if s.layout != nil {
		d.Derive(s.layout)
	}
}

// keptEnded is how many deployments that failed or were cancelled are kept, to be
// explained and retried.
const keptEnded = 10

// end removes a finished deployment, with those before it that ended otherwise. Of
// others that end, the last are kept; those that were superseded, which cannot be retried,
// leave room for the others.
func (s *State) end(e deploylog.Event, as deployment.Status) {
	d := s.byID[e.Deployment]
	if d == nil || d.Status != deployment.Running && as != deployment.Finished {
		return
	}
	d.Status, d.Ended = as, record.Mark{Event: e.Name, Seq: e.Seq, Cause: record.Read(e.Data).Error}
	if as != deployment.Failed {
		d.Ended.Cause = record.Read(e.Data).Reason
	}
	s.setStatus(d, e.Seq)
	r := &s.revisions[d.Order-1]
	r.EndedBy, r.Cause, r.SupersededBy = record.Read(e.Data).By, d.Ended.Cause, record.Read(e.Data).SupersededBy
	r.inputs = d.Inputs()
	if as == deployment.Cancelled {
		s.wantBackNoMore(d)
	}
	if as == deployment.Finished && d.Only() == "" {
		s.finished = max(s.finished, d.Order)
	}
	surplus := map[bool]int{true: -keptEnded, false: -keptEnded}
	for _, o := range s.deployments {
		if o.Status != deployment.Running && o.Status != deployment.Finished {
			surplus[o.Status == deployment.Superseded]++
		}
	}
	s.deployments = slices.DeleteFunc(s.deployments, func(o *deployment.Deployment) bool {
		gone := o == d && as == deployment.Finished
		if o.Status != deployment.Running && o.Status != deployment.Finished {
			gone = surplus[o.Status == deployment.Superseded] > 0 || as == deployment.Finished && o.Order < d.Order && d.Only() == ""
			surplus[o.Status == deployment.Superseded]--
		}
		if gone {
			delete(s.byID, o.ID)
			s.revisions[o.Order-1].inputs = o.Inputs() // which it may have adopted after it ended
		}
		return gone
	})
}

func (s *State) setStatus(d *deployment.Deployment, seq int64) {
	r := &s.revisions[d.Order-1]
	r.Status, r.Since, r.EndedBy, r.Cause = d.Status, seq, "", ""
}

// currentLayout lays the pipeline out, anew after a change, and returns the layout;
// nil while there is no definition. Because it is lazy, a long history of which
// nothing is asked is cheap to fold.
func (s *State) currentLayout() *deployment.Layout {
	if s.layout == nil && s.definition != nil {
		s.layout = deployment.NewLayout(s.definition, s.members, s.held, s.introduced)
		for _, d := range s.deployments {
			d.Derive(s.layout)
		}
		for _, w := range s.work.All {
			w.Place = s.layout.PlaceOfWork(w.Target)
		}
	}
	return s.layout
}

// clone returns a copy to which events that have not happened may be applied.
func (s *State) clone() *State {
	c := *s
	c.layout, c.work, c.keys = nil, s.work.Clone(), s.keys.Clone()
	c.members, c.changed, c.held = maps.Clone(s.members), maps.Clone(s.changed), maps.Clone(s.held)
	c.paused, c.visits, c.outcomes = maps.Clone(s.paused), maps.Clone(s.visits), s.outcomes.Clone()
	c.revisions, c.byRevision = slices.Clone(s.revisions), maps.Clone(s.byRevision)
	c.byID, c.deployments = make(map[string]*deployment.Deployment, len(s.byID)), make([]*deployment.Deployment, len(s.deployments))
	for i, d := range s.deployments {
		copied := *d
		copied.Refs, copied.Started, copied.Skipped, copied.Adopted = maps.Clone(d.Refs), maps.Clone(d.Started), maps.Clone(d.Skipped), maps.Clone(d.Adopted)
		copied.Tries, copied.Reopened, copied.FailedHosts, copied.Approvals = maps.Clone(d.Tries), maps.Clone(d.Reopened), maps.Clone(d.FailedHosts), maps.Clone(d.Approvals)
		copied.Marks = make(map[deploylog.Target]*record.Marks, len(d.Marks))
		for t, m := range d.Marks {
			list := slices.Clone(*m)
			copied.Marks[t] = &list
		}
		c.deployments[i], c.byID[d.ID] = &copied, &copied
	}
	return &c
}
