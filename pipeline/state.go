package pipeline

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// Status is how far a deployment has come.
type Status string

// The statuses of a deployment.
const (
	Running    Status = "running"
	Finished   Status = "finished"
	Failed     Status = "failed"
	Cancelled  Status = "cancelled"
	PassedOver Status = "skipped"    // while it waited
	Superseded Status = "superseded" // while it waited, by a newer revision
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
	changed    map[string]int64        // events of the members
	held       map[string]*heldMembers // of groups that hold instead of taking a selection over
	paused     map[deploylog.Target]PauseInfo
	stops      map[deploylog.Target]stop  // of stages
	fixes      map[deploylog.Target]fixAt // that began stages, the last of each
	through    map[deploylog.Target]int   // stages: the order of the last revision that finished them
	introduced map[string]int             // unit → number of revisions registered before it
	manifests  map[string]string          // of the definition, by unit
	layout     *layout                    // nil after a change, until it is needed

	revisions   []Registration
	byRevision  map[string]int // the last registration of a revision
	rollbacks   map[string]int // the last rollback to a revision
	deployments []*deployment  // not finished, in order of registration
	byID        map[string]*deployment
	finished    int                         // order of the newest revision that has
	visits      map[deploylog.Target]visits // of stages
	head        int64
	work        underway
	deleted     int64 // event of the deletion; 0 while there is a definition, or never was one
}

// Registration is what is kept of every revision that was ever released.
type Registration struct {
	Revision     string        `json:"revision"`
	Deployment   string        `json:"deployment"`
	Seq          int64         `json:"seq"` // event of its registration
	Status       Status        `json:"status"`
	Since        int64         `json:"since"`                   // event that gave it the status
	EndedBy      string        `json:"ended_by,omitempty"`      // the person who did
	SupersededBy string        `json:"superseded_by,omitempty"` // revision
	Cause        string        `json:"cause,omitempty"`         // why it ended, unless it finished
	Carries      Files         `json:"carries,omitzero"`        // nil of one that a former version released
	Rollback     *RollbackInfo `json:"rollback,omitempty"`      // nil of one that goes through the pipeline
	Fix          bool          `json:"fix,omitempty"`

	inputs inputs // once it has ended
}

// New returns the state of a pipeline without any events.
func New(name string) *State {
	return &State{
		name: name, target: Target(name), members: map[string][]string{}, changed: map[string]int64{},
		held: map[string]*heldMembers{}, paused: map[deploylog.Target]PauseInfo{}, visits: map[deploylog.Target]visits{},
		stops: map[deploylog.Target]stop{}, fixes: map[deploylog.Target]fixAt{}, through: map[deploylog.Target]int{},
		byRevision: map[string]int{}, rollbacks: map[string]int{}, byID: map[string]*deployment{},
	}
}

// Definition is the current definition, nil before the first and of a pipeline that
// was deleted. It must not be changed.
func (s *State) Definition() *definition.Definition { return s.definition }

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
		return maps.Clone(d.refs)
	}
	return nil
}

// Active reports whether an attempt of a deployment is in progress: neither ended nor
// followed by another.
func (s *State) Active(deployment string, attempt int) bool {
	d := s.byID[deployment]
	return d != nil && d.status == Running && d.attempt == attempt
}

// InProgress reports whether a deployment is, in whichever attempt.
func (s *State) InProgress(deployment string) bool {
	d := s.byID[deployment]
	return d != nil && d.status == Running
}

// Head is the Seq of the last event that was applied.
func (s *State) Head() int64 { return s.head }

// Apply folds in an event. Events of other pipelines are ignored, and so are those
// that contradict the state: history is never refused.
func (s *State) Apply(e deploylog.Event) {
	s.head = e.Seq
	switch {
	case e.Target == s.target:
		s.applyPipeline(e)
	case e.Name == EventMembersChanged, e.Name == EventMembersHeld:
		s.applyMembers(e)
	case e.Name == EventStagePaused, e.Name == EventStageResumed:
		s.applyPause(e)
	default:
		s.work.end(workKey{e.Deployment, e.Target, strings.TrimSuffix(e.Name, failedAfter)})
		if d := s.byID[e.Deployment]; d != nil {
			d.forgetTries(e)
			s.applyOutcome(d, e)
			s.visit(d, e)
			d.record(s.layout, e)
		}
	}
}

func (s *State) applyPipeline(e deploylog.Event) {
	switch e.Name {
	case EventDefined:
		if p := read(e.Data); p.Definition != nil && len(p.Definition.Stages) > 0 {
			s.define(p.Definition, p.Introduced, e.Seq)
			s.inventory = p.Inventory
			s.take(p)
		}
	case EventDeleted:
		if s.definition != nil {
			work := s.work // goes on
			*s = *New(s.name)
			s.head, s.deleted, s.work = e.Seq, e.Seq, work
		}
	case EventStepsBegun:
		s.applyBegun(e)
	case EventStepsEnded:
		s.applyWorkEnded(e)
	case EventPaused, EventResumed:
		s.applyPause(e)
	case pipelineStarted:
		if s.deleted == 0 {
			s.register(e)
		}
	case pipelineFinished:
		s.end(e, Finished)
	case pipelineFailed:
		s.end(e, Failed)
	case EventCancelled:
		s.end(e, Cancelled)
	case EventSkipped:
		s.end(e, PassedOver)
	case EventSuperseded:
		s.end(e, Superseded)
	case EventRetried:
		if d := s.byID[e.Deployment]; d != nil {
			d.retry(e.Attempt, e.CreatedAt)
			s.setStatus(d, e.Seq)
			s.layout = nil
		}
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
	maps.DeleteFunc(s.held, func(name string, _ *heldMembers) bool { return gone(name) })
	s.layout = nil
}

func (s *State) register(e deploylog.Event) {
	if _, known := s.byID[e.Deployment]; known {
		return
	}
	p := read(e.Data)
	carries := p.Carries
	if n := len(s.revisions); n > 0 && carries != nil && s.revisions[n-1].Carries != nil && maps.Equal(carries, s.revisions[n-1].Carries) {
		carries = s.revisions[n-1].Carries // most revisions of a long history carry the same
	}
	if p.Rollback == nil {
		s.byRevision[e.Revision] = len(s.revisions)
	} else {
		s.rollbacks[e.Revision] = len(s.revisions)
	}
	s.revisions = append(s.revisions, Registration{
		Revision: e.Revision, Deployment: e.Deployment, Seq: e.Seq, Status: Running, Since: e.Seq, Carries: carries, Fix: p.Fix,
	})
	d := &deployment{
		id: e.Deployment, revision: e.Revision, order: len(s.revisions), seq: e.Seq, attempt: 1, since: e.CreatedAt, status: Running, started: map[deploylog.Target]time.Time{},
		marks: map[deploylog.Target]*marks{}, refs: map[string]string{}, skipped: map[string]skippedStep{}, carries: carries, fix: p.Fix,
	}
	if carries != nil {
		d.manifests = s.manifests
	}
	s.deployments = append(s.deployments, d)
	s.byID[d.id] = d
	if p.Rollback != nil {
		s.rollBack(d, p.Rollback)
	}
	if s.layout != nil {
		d.derive(s.layout)
	}
}

// keptEnded is how many deployments that failed or were cancelled are kept, to be
// explained and retried.
const keptEnded = 10

// end removes a finished deployment, with those before it that ended otherwise. Of
// others that end, the last are kept; those that were superseded, which cannot be retried,
// leave room for the others.
func (s *State) end(e deploylog.Event, as Status) {
	d := s.byID[e.Deployment]
	if d == nil || d.status != Running && as != Finished {
		return
	}
	d.status, d.ended = as, mark{event: e.Name, seq: e.Seq, cause: read(e.Data).Error}
	if as != Failed {
		d.ended.cause = read(e.Data).Reason
	}
	s.setStatus(d, e.Seq)
	r := &s.revisions[d.order-1]
	r.EndedBy, r.Cause, r.SupersededBy = read(e.Data).By, d.ended.cause, read(e.Data).SupersededBy
	r.inputs = d.inputs()
	if as == Finished && d.rollback == nil {
		s.finished = max(s.finished, d.order)
	}
	surplus := map[bool]int{true: -keptEnded, false: -keptEnded}
	for _, o := range s.deployments {
		if o.status != Running && o.status != Finished {
			surplus[o.status == Superseded]++
		}
	}
	s.deployments = slices.DeleteFunc(s.deployments, func(o *deployment) bool {
		gone := o == d && as == Finished
		if o.status != Running && o.status != Finished {
			gone = surplus[o.status == Superseded] > 0 || as == Finished && o.order < d.order && d.rollback == nil
			surplus[o.status == Superseded]--
		}
		if gone {
			delete(s.byID, o.id)
		}
		return gone
	})
}

func (s *State) setStatus(d *deployment, seq int64) {
	r := &s.revisions[d.order-1]
	r.Status, r.Since, r.EndedBy, r.Cause = d.status, seq, "", ""
}

// currentLayout lays the pipeline out, anew after a change, and returns the layout;
// nil while there is no definition. Because it is lazy, a long history of which
// nothing is asked is cheap to fold.
func (s *State) currentLayout() *layout {
	if s.layout == nil && s.definition != nil {
		s.layout = newLayout(s.definition, s.members, s.held, s.introduced)
		for _, d := range s.deployments {
			d.derive(s.layout)
		}
		for _, w := range s.work.all {
			w.place = s.layout.placeOfWork(w.Target)
		}
	}
	return s.layout
}

// clone returns a copy to which events that have not happened may be applied.
func (s *State) clone() *State {
	c := *s
	c.layout, c.work = nil, s.work.clone()
	c.members, c.changed, c.held = maps.Clone(s.members), maps.Clone(s.changed), maps.Clone(s.held)
	c.paused, c.visits, c.stops, c.fixes, c.through = maps.Clone(s.paused), maps.Clone(s.visits), maps.Clone(s.stops), maps.Clone(s.fixes), maps.Clone(s.through)
	c.revisions, c.byRevision, c.rollbacks = slices.Clone(s.revisions), maps.Clone(s.byRevision), maps.Clone(s.rollbacks)
	c.byID, c.deployments = make(map[string]*deployment, len(s.byID)), make([]*deployment, len(s.deployments))
	for i, d := range s.deployments {
		copied := *d
		copied.refs, copied.started, copied.skipped, copied.adopted = maps.Clone(d.refs), maps.Clone(d.started), maps.Clone(d.skipped), maps.Clone(d.adopted)
		copied.tries, copied.reopened = maps.Clone(d.tries), maps.Clone(d.reopened)
		copied.marks = make(map[deploylog.Target]*marks, len(d.marks))
		for t, m := range d.marks {
			list := slices.Clone(*m)
			copied.marks[t] = &list
		}
		c.deployments[i], c.byID[d.id] = &copied, &copied
	}
	return &c
}
