package pipelines

import (
	"context"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/runner"
)

// Worker does what steps of pipelines ask for.
type Worker interface {
	// Work applies the manifest of a step. What it does must be safe to do
	// again, for a scheduler that died may have had it done before. That it begins
	// is in the log. It returns the references of the artifacts that were made. It is
	// waited for, also when ctx ends. wanted is asked right before anything is applied, as
	// an engine may take its time to answer: its error says why nothing is to be by then.
	Work(ctx context.Context, s step.Step, artifacts map[string]string, wanted func() error) (made map[string]string, err error)

	// Settle waits until nothing of work is running any more that another process began,
	// which died. An error that says LeftRun names a run that may still be at work.
	Settle(ctx context.Context, w step.Work) error
}

// Observer is notified of what a scheduler does, see reconcile.Observer.
type Observer interface {
	reconcile.Observer
	Began(s step.Step) // its work, at each try
	Again(s step.Step, cause error, after time.Duration)
}

// Hosts knows the hosts.
type Hosts interface {
	// Members are the hosts of each group of a definition at present.
	Members(d *definition.Definition) (map[string][]string, error)

	// Slots is how many steps may run on a host at once.
	Slots(host string) int

	// Identity is what the inventory is known as at present; "" where none could be read.
	Identity() string
}

// Options describes a Scheduler. All fields are required but where it says otherwise.
type Options struct {
	reconcile.Options
	Worker   Worker
	Hosts    Hosts
	Observer Observer
	NewID    func() string // of fresh deployments
	By       string        // who schedules, in events about work that failed; "" is not said
}

// Scheduler carries revisions through pipelines (seed "Deployment Log"). All that it
// knows is in the log, so one that dies is replaced by another.
type Scheduler struct {
	Options
	reconcile.Bare
	loop      *reconcile.Loop[*pipeline.State, stepKey]
	pipelines *Pipelines
	hosts     map[string]selection         // by pipeline
	stale     reconcile.OrderedSet[string] // pipelines whose hosts are to be selected
	noticed   map[string]string            // the last trouble with the hosts of a pipeline
	inventory *string                      // what it is known as; nil is not known yet
	beginning map[string][]step.Step       // by the ID of the event that records it
	running   map[stepKey]*running
	holding   map[string]map[holder]bool // slots of hosts, by pipeline
	leaving   map[holder]bool            // of those, what is free when its work ends
	moved     map[string]bool            // pipelines of which others may hold slots now
}

// selection is what the host groups of a pipeline select.
type selection struct {
	definition *definition.Definition
	members    map[string][]string
	err        error
	recorded   bool
}

// NewScheduler prepares a scheduler.
func NewScheduler(o Options) *Scheduler {
	s := &Scheduler{
		Options: o, pipelines: New(o.Log, o.Now), hosts: map[string]selection{}, noticed: map[string]string{},
		beginning: map[string][]step.Step{}, running: map[stepKey]*running{},
		holding: map[string]map[holder]bool{}, leaving: map[holder]bool{}, moved: map[string]bool{},
	}
	s.loop = reconcile.New(reconcile.Setup[*pipeline.State, stepKey]{
		Options: o.Options, Fold: s.pipelines.Fold, Tenant: s, Observer: s,
		Role: "scheduler", Slots: o.Hosts.Slots, Interrupted: runner.ErrInterrupted,
	})
	return s
}

// Run schedules, see reconcile.Loop.Run.
func (s *Scheduler) Run(ctx context.Context) error { return s.loop.Run(ctx) }

// Declines implements reconcile.Tenant: a pipeline is served by who has the inventory that it
// is bound to.
func (s *Scheduler) Declines(state *pipeline.State) string {
	if state.Bound() == "" {
		return ""
	}
	if s.inventory == nil {
		s.refresh()
	}
	if why := state.OtherThan(*s.inventory); why != nil {
		why.Seq = 0 // of many pipelines, which are noticed together
		return why.Message() + "; what helps is " + why.Change()
	}
	return ""
}

// refresh finds out which inventory there is now.
func (s *Scheduler) refresh() {
	now := s.Hosts.Identity()
	if s.inventory != nil && *s.inventory != now {
		s.loop.Reconsider()
	}
	s.inventory = &now
}

// Acquired implements reconcile.Tenant.
func (s *Scheduler) Acquired(name string) {
	s.stale.Add(name)
	s.reclaim(name)
}

// Released implements reconcile.Tenant.
func (s *Scheduler) Released(name string) {
	delete(s.hosts, name)
	delete(s.noticed, name)
	s.reclaim(name)
}

// Received implements reconcile.Tenant.
func (s *Scheduler) Received(name string, e deploylog.Event) (more bool) {
	s.noticeHolding(name, e)
	if e.Target == record.Target(name) && e.Name != record.StepsBegun && e.Name != record.StepsEnded {
		s.giveUp(name)
	}
	return e.Name != record.StepsBegun
}

// Tick implements reconcile.Tenant.
func (s *Scheduler) Tick() {
	s.refresh()
	for name := range s.hosts {
		s.stale.Add(name)
	}
	s.loop.Forget(func(key stepKey, _ int) bool { return !s.underway(key) })
	s.freeStuck()
	for name := range s.holding {
		if s.loop.LeftOut(name) {
			s.reclaim(name)
		}
	}
}

// Observe implements reconcile.Tenant: it selects the hosts of the pipelines.
func (s *Scheduler) Observe() (found bool) {
	for s.stale.Len() > 0 {
		name := s.stale.Pop()
		d := s.pipelines.States[name].Definition()
		if d == nil || !s.loop.Controls(name) || s.loop.LeftOut(name) {
			delete(s.hosts, name)
			continue
		}
		members, err := s.Hosts.Members(d)
		if s.refresh(); s.Declines(s.pipelines.States[name]) != "" { // what was selected may be of another inventory
			delete(s.hosts, name)
			continue
		}
		s.hosts[name] = selection{definition: d, members: members, err: err}
		s.loop.Enqueue(name)
	}
	return false
}

// Probe implements reconcile.Tenant: only hosts are to be seen.
func (s *Scheduler) Probe() (next time.Time, seen bool) {
	if s.stale.Len() > 0 {
		return s.Now(), false
	}
	return time.Time{}, true
}

// Decide implements reconcile.Tenant. Nothing is decided before the hosts of the
// present definition are known, nor before they are recorded.
func (s *Scheduler) Decide(name string, state *pipeline.State, d *reconcile.Decision[stepKey]) {
	if s.refresh(); state.Definition() == nil || s.Declines(state) != "" {
		return
	}
	if s.hosts[name].definition != state.Definition() {
		s.stale.Add(name)
		return
	}
	if events := s.members(name, state); len(events) > 0 {
		d.Add(events)
		return
	}
	if s.moved[name] {
		delete(s.moved, name)
		s.reclaim(name)
	}
	d.WakeAt(state.Rests(d.Now))
	d.WakeAt(state.Deadline(d.Now))
	var begin []*reconcile.Work[stepKey]
	var steps []step.Step
	for step := range state.Decide(d.Now, pipeline.Can{}) {
		if step.Work() {
			slot := reconcile.Slot[stepKey]{ // one that only waits for an environment takes none of the loop's slots
				Key: stepKey{step.Deployment, step.Target, step.Event}, Host: step.Host, Unslotted: step.Environment != "", Attempt: step.Attempt,
			}
			h := holder{step.Deployment, step.Target}
			if step.Host != "" {
				slot.Holder = h.key()
			}
			if d.Can(slot) {
				if step.Host != "" {
					step.Prunes = state.Pruning(step)
				}
				begin, steps = append(begin, d.Begin(s.work(slot, step, state))), append(steps, step)
				if step.Host != "" {
					s.hold(name, h)
				}
			} else if d.Enough() {
				break
			}
		} else if events, err := step.Completed(nil); err == nil { // only artifacts can be wrong
			if d.Add(events); d.Full() {
				break
			}
		}
	}
	for _, left := range state.Left(func(w step.Work) bool { return s.loop.Busy(keyOf(w)) }) {
		slot := reconcile.Slot[stepKey]{Key: keyOf(left), Unslotted: true, Attempt: left.Attempt} // it is only waited for
		if d.Can(slot) {
			d.Add(nil, d.Begin(s.settle(slot, left)))
		}
	}
	for len(begin) > 0 {
		n := min(len(begin), mostBegun)
		id := s.NewID()
		s.beginning[id] = steps[:n]
		d.Add([]deploylog.Event{state.Begun(id, steps[:n])}, begin[:n]...)
		begin, steps = begin[n:], steps[n:]
	}
}

// mostBegun is how many beginnings an event records.
const mostBegun = 1000

// members are the events that record hosts that came or went.
func (s *Scheduler) members(name string, state *pipeline.State) (events []deploylog.Event) {
	seen := s.hosts[name]
	if seen.recorded {
		return nil
	}
	s.hosts[name] = selection{definition: seen.definition, recorded: true}
	err := seen.err
	if err == nil {
		events, err = state.Propose(pipeline.SetMembers{Members: seen.members, ID: s.NewID()}, s.Now())
	}
	trouble := ""
	if err != nil {
		trouble = fmt.Sprintf("pipeline %s goes on with the hosts it knows: %v", name, err)
	}
	if trouble != "" && s.noticed[name] != trouble {
		s.loop.Notify(func() { s.Observer.Notice(trouble) })
	}
	s.noticed[name] = trouble
	return events // none when there is trouble: the next selection may be better
}

// Recorded implements reconcile.Observer.
func (s *Scheduler) Recorded(e deploylog.Event) {
	switch e.Name {
	case record.StepsBegun:
	case record.StepsEnded: // of which Again was notified
		return
	default:
		s.Observer.Recorded(e)
		return
	}
	for _, step := range s.beginning[e.Deployment] {
		s.Observer.Began(step)
	}
	delete(s.beginning, e.Deployment)
}

// Notice implements reconcile.Observer.
func (s *Scheduler) Notice(text string) { s.Observer.Notice(text) }

// Inform implements reconcile.Informed.
func (s *Scheduler) Inform(text string) { reconcile.Inform(s.Observer, text) }

// Idle implements reconcile.Tenant.
func (s *Scheduler) Idle(state *pipeline.State) bool {
	now := s.Now()
	for range state.Decide(now, pipeline.Can{}) {
		return false
	}
	return state.Rests(now).IsZero()
}

// stepKey knows a step whatever its attempt is: work that was begun before a
// retry is not begun again beside it.
type stepKey struct {
	deployment string
	target     deploylog.Target
	event      string
}

// active reports whether the attempt of a step's deployment is under way, as far
// as is known.
func (s *Scheduler) active(key stepKey, attempt int) bool {
	name, _ := record.NameOf(key.target)
	state := s.pipelines.States[name]
	return state != nil && state.Active(key.deployment, attempt)
}
