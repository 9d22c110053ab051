package environment

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/ordered"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/acceptance"
	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/internal/heap"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/internal/unwatched"
)

// State is one environment as recorded in the log. It is not safe for concurrent
// use, not even its methods that only read.
//
// The status of each host is evaluated when something happens to it, and kept in
// sets, so that a decision costs what has changed and not what there is.
type State struct {
	name          string
	target        deploylog.Target
	revisions     []*revision // by number
	deployments   []report.Deployment
	deleted       bool
	orphans       []report.Orphan
	tasksLeft     bool   // once deleted: tasks on hosts of the inventory were left running
	inventory     string // that its query is over; "" is any
	firstRevision int    // since the environment was last created
	asked         acceptance.Requests[record.Payload]
	owner         int // the newest revision by who may define it; 0 is none
	head          int64

	hosts  []*hosts.Host
	byName map[string]*hosts.Host

	cordons    map[string]*report.Cordon // of hosts of those names, also of such as it has not
	cordonings int                       // how many events there were of that

	// Of the active deployment.
	active       *report.Deployment // the last of the deployments; nil before the first, and once deleted
	only         map[string]bool    // hosts that it restarts; none is all
	attempts     map[string]int
	hostsKnown   bool
	finished     bool
	started      bool // a task of it was started
	lastProgress time.Time
	unwatched    unwatched.Spans // of the active deployment
	heard        time.Time       // the last event of a controller
	pause        *report.PauseInfo
	kept         *report.HeldInfo // hosts that it keeps although they are not selected
	waiting      time.Time        // since when it waits for a person, and no deadline passes; zero is not
	resumed      time.Time
	clock        time.Time // the latest time of an event or decision
	lastFinished int       // the revision of the last deployment that has finished; 0 is none
	baked        int       // hosts that failed in its bake

	// Derived.
	sets      [hosts.Classes]ordered.Set
	overdue   ordered.Set
	adoptable ordered.Set
	repairs   ordered.Set
	zones     zones
	wave      wave
	timers    heap.Heap[timer] // of hosts to re-evaluate, of which some may be outdated
	total     totals
	current   map[int]int // tasks by revision; of the active one, those that are available
}

// revision is a Revision and what became of it.
type revision struct {
	report.Revision
	task       int  // the revision with which its task came; see State.taskOf
	owner      int  // of a bound one: the revision that says what it may bring; 0 is none
	replaced   bool // it was deployed, and another was deployed after it
	reverted   bool
	undeployed bool // replaced, and the one after it has finished
}

// New returns the state of an environment of which nothing is known yet.
func New(name string) *State {
	return &State{name: name, target: record.Target(name), byName: map[string]*hosts.Host{}, cordons: map[string]*report.Cordon{}, attempts: map[string]int{}, current: map[int]int{}}
}

// Name of the environment.
func (s *State) Name() string { return s.name }

// Head is the Seq of the last event that was applied.
func (s *State) Head() int64 { return s.head }

// Exists reports whether the environment was created, and not deleted since.
func (s *State) Exists() bool { return len(s.revisions) > 0 && !s.deleted }

// ActiveDeployment is the deployment that decides what runs where; ok is false
// when there is none.
func (s *State) ActiveDeployment() (d report.Deployment, ok bool) {
	if s.active == nil {
		return report.Deployment{}, false
	}
	return *s.active, true
}

// Idle reports whether nothing will be done until an event comes from outside: no
// deployment is running but those that are stuck or paused, and no work is to be done again
// whose result is missing. While it is paused nobody does that again: whoever began it may
// have died.
func (s *State) Idle() bool {
	switch {
	case s.active == nil, s.pause != nil:
		return true
	case s.total.inFlight > 0, s.draining(), s.repairing():
		return false
	case s.active.Status == report.DeploymentStuck:
		return true
	case s.hostsKnown && !s.adoptable.Empty():
		return false
	case !s.hostsKnown && s.kept != nil:
		return true
	case !s.finished && (s.waiting.IsZero() && !s.awaitsPromotion() && !s.AwaitsHosts() || s.done()) || !s.hostsKnown:
		return false
	}
	for c := hosts.Free; c < hosts.Classes; c++ {
		if s.room(c) > 0 && s.anyOf(c) {
			return false
		}
	}
	return s.total.retrying == 0
}

// InFlight reports whether work on a host was begun and has no result.
func (s *State) InFlight() bool {
	return s.active != nil && (s.total.inFlight > 0 || s.total.repairing > 0)
}

// anyOf reports whether a class has hosts but those that wait for a person to promote the
// deployment.
func (s *State) anyOf(c hosts.Class) bool {
	waits := s.awaitsPromotion()
	for i := range s.sets[c].All() {
		if !waits || !s.hosts[i].Status.Begins {
			return true
		}
	}
	return false
}

// Query is the query of the active revision, "" when there is none: then the
// environment has no hosts.
func (s *State) Query() string {
	if d := s.definition(); d != nil {
		return d.InstanceGroup.Query
	}
	return ""
}

// definition is that of the active revision.
func (s *State) definition() *definition.Definition {
	if s.active == nil || s.active.Kind == record.ByDelete {
		return nil
	}
	return s.revisions[s.active.Revision-1].Definition
}

// configuration is the one by which hosts are worked on now: that of the active
// deployment until it has finished, and its revision's own from then on. It must not
// be changed.
func (s *State) configuration() *definition.Configuration {
	if s.finished {
		return &s.revisions[s.active.Revision-1].Definition.Deployment
	}
	return &s.active.Configuration
}

// HostTasks yields the tasks that hosts have or should have. Those of a query of which it is
// not known what it selects are not among them.
func (s *State) HostTasks() iter.Seq[tasks.Task] {
	return func(yield func(tasks.Task) bool) {
		for _, h := range s.hosts {
			if s.hostsKnown && h.Desired && h.Find(s.activeTask()) == nil && !yield(s.Task(s.active.Revision, h.Name)) {
				return
			}
			for _, t := range h.Tasks {
				if !yield(s.Task(t.Revision, h.Name)) {
					return
				}
			}
		}
	}
}

// Task is the task of a revision on a host.
func (s *State) Task(revision int, host string) tasks.Task {
	t := tasks.Task{Environment: s.name, Host: host, Revision: revision}
	if revision >= 1 && revision <= len(s.revisions) {
		t.Revision, t.Spec, t.Bounds = s.taskOf(revision), s.revisions[revision-1].Definition.Task, s.bounds(revision)
	}
	return t
}

// bounds are what a revision may bring; nil is everything that it carries. A task that the active revision has, too, is
// bound as that is: its hosts may be others, and who made it answers for what it has of earlier ones.
func (s *State) bounds(revision int) *tasks.Bounds {
	r := s.revisions[revision-1]
	if s.active != nil && s.active.Revision <= len(s.revisions) {
		if active := s.revisions[s.active.Revision-1]; active.task == r.task {
			r = active
		}
	}
	if !r.Bound {
		return nil
	}
	b := &tasks.Bounds{Query: r.Definition.InstanceGroup.Query}
	if r.owner > 0 {
		own := s.revisions[r.owner-1].Definition
		b.Own, b.OwnVerify, b.OwnQuery = own.Task, own.Deployment.VerifyFiles, own.InstanceGroup.Query
	}
	if s.owner > 0 {
		b.Allow = s.revisions[s.owner-1].Definition.Allow
		b.Former = s.allowedSince(r.owner)
	}
	return b
}

// allowedSince are the different rules of revisions by who may define the environment, from one of them on, without
// those of the present one.
func (s *State) allowedSince(first int) (all []*allow.Rules) {
	present := s.revisions[s.owner-1].Definition.Allow
	for _, r := range s.revisions[min(max(first, s.firstRevision, 1), s.owner)-1 : s.owner-1] {
		same := func(other *allow.Rules) bool { return reflect.DeepEqual(other, r.Definition.Allow) }
		if !r.Bound && !same(present) && !slices.ContainsFunc(all, same) {
			all = append(all, r.Definition.Allow)
		}
	}
	return all
}

// Owner is the newest revision by who may define the environment; ok is false if there is none.
func (s *State) Owner() (r report.Revision, ok bool) {
	if s.owner == 0 || s.owner < s.firstRevision {
		return r, false
	}
	return s.revisions[s.owner-1].Revision, true
}

// StaysBound reports whether a revision that is made of the newest one, with other values of some variables, has anything
// of who may bring no more than the definition names and allows.
func (s *State) StaysBound(variables ...string) bool {
	if len(s.revisions) == 0 || !s.revisions[len(s.revisions)-1].Bound {
		return false
	}
	own, known := s.Owner()
	without := func(d *definition.Definition) *definition.Definition {
		other := *d
		other.Task.Vars = maps.Clone(d.Task.Vars)
		for _, name := range variables {
			delete(other.Task.Vars, name)
		}
		return &other
	}
	return !known || len(definition.Diff(without(own.Definition), without(s.revisions[len(s.revisions)-1].Definition))) > 0
}

// FirstRevision is the first revision since the environment was created last: those before
// are of one of this name that was deleted, and cannot be deployed any more.
func (s *State) FirstRevision() int { return max(s.firstRevision, 1) }

// Revisions returns all revisions, in order. They must not be changed.
func (s *State) Revisions() []report.Revision {
	all := make([]report.Revision, len(s.revisions))
	for i, r := range s.revisions {
		all[i] = r.Revision
	}
	return all
}

// Revision returns the revision of a number; the error names those that exist.
func (s *State) Revision(number int) (report.Revision, error) {
	if number >= 1 && number <= len(s.revisions) {
		return s.revisions[number-1].Revision, nil
	}
	if len(s.revisions) == 0 {
		return report.Revision{}, refusal.New(UnknownEnvironment, "%w environment %q", ErrUnknown, s.name)
	}
	has := "only revision 1"
	if n := len(s.revisions); n > 1 {
		has = fmt.Sprintf("revisions 1 to %d", n)
	}
	return report.Revision{}, refusal.New(UnknownRevision, "%w revision %d of environment %s: it has %s", ErrUnknown, number, s.name, has)
}

// Deployments returns all deployments, in order. They must not be changed.
func (s *State) Deployments() []report.Deployment { return s.deployments }
