package build

import (
	"iter"
	"time"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
)

// Decide yields what may be done now: oldest groups first, within one the jobs with the
// longest remaining path. All that is yielded may begin together. Nothing may be applied to
// the state while it is iterated.
func (s *State) Decide(now time.Time, can Can) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		s.takeBack()
		s.wake(now)
		p := pass{State: s, can: can, full: make([]bool, len(s.places)), yield: yield}
		var dispatching []*group
		for _, g := range s.active {
			settled, ok := p.begun(g)
			if !ok {
				return
			}
			if settled && g.counts[transition.Eligible] > 0 {
				dispatching = append(dispatching, g)
			}
		}
		for _, g := range dispatching { // once all that was begun has its workers again
			if !p.dispatch(g) {
				return
			}
		}
		p.pull()
	}
}

// pass is one decision.
type pass struct {
	*State
	can   Can
	full  []bool // places that no worker has room for
	yield func(Step) bool
}

// begun yields what is to be recorded of a group, and what was begun and is not being done.
// It reports whether there was nothing to record, and whether more is asked for.
func (p *pass) begun(g *group) (settled, ok bool) {
	if events := p.settle(g); len(events) > 0 {
		return false, p.yield(Step{Kind: Settle, Group: g.id, Events: events})
	}
	if g.stalls() {
		if g.stalled {
			return true, true
		}
		cause := g.stallCause()
		events := []deploylog.Event{g.event(record.GroupStalled, g.next(record.GroupStalled), record.Ended{Cause: cause})}
		return false, p.yield(Step{Kind: Stalled, Group: g.id, Events: events, Cause: cause})
	}
	for i := g.inFlight.Next(0); i >= 0; i = g.inFlight.Next(i + 1) {
		j := &g.jobs[i]
		t := Task{Group: g.id, Job: i + 1, Attempt: int(j.attempt), Name: g.name, Package: g.specs[i].Package, Place: p.places[g.places[g.placeOf(int32(i))]], Canceling: j.state == transition.CancelPending}
		if p.can.Resume(t) && !p.yield(Step{Kind: Resume, Group: g.id, Task: p.resumed(g, int32(i))}) {
			return true, false
		}
	}
	return true, true
}

// dispatch yields the jobs of a group that workers have room for.
func (p *pass) dispatch(g *group) bool {
	at := make([]int, len(g.queues)) // the first jobs of the places
	for k := range g.queues {
		at[k] = g.queues[k].eligible.Next(0)
	}
	for begun := 1; ; {
		first := -1
		for k := range at {
			if at[k] >= 0 && !p.full[g.places[k]] && (first < 0 || g.rankAt(k, at[k]) < g.rankAt(first, at[first])) {
				first = k
			}
		}
		if first < 0 {
			return true
		}
		worker := p.worker(g.places[first])
		if worker == "" {
			continue
		}
		i := g.queues[first].jobs[at[first]]
		step := Step{Kind: Dispatch, Group: g.id}
		p.dispatched(&step.Task, g, i, worker)
		started := record.Started{Worker: worker, Inputs: step.Task.Inputs}
		text := started.AppendText(p.text.Take(started.Room(), textBlock))
		step.Events = append(p.events.Take(1, eventsBlock), g.writtenEvent(i, record.JobStarted, step.Task.Attempt, text))
		if g.state == transition.Dispatching && g.fails() && g.left() == g.running()+begun {
			step.Events = append(step.Events, g.event(record.GroupFailing, g.next(record.GroupFailing), record.Ended{Cause: g.failure()}))
		}
		begun++
		if !p.yield(step) {
			return false
		}
		at[first] = g.queues[first].eligible.Next(at[first] + 1)
	}
}

func (g *group) rankAt(queue, position int) int32 { return g.jobs[g.queues[queue].jobs[position]].rank }

// worker is one that has room for a job at a place.
func (p *pass) worker(place int) string {
	if p.full[place] {
		return ""
	}
	worker := p.can.Worker(p.places[place])
	p.full[place] = worker == ""
	return worker
}

// pull yields the start of the oldest group that a worker has room for: none of the groups
// that have started has anything for that.
func (p *pass) pull() {
	for _, g := range p.queued {
		for _, place := range g.serving() {
			if p.worker(place) != "" {
				p.yield(Step{Kind: Start, Group: g.id, Events: p.start(g)})
				return
			}
		}
		if len(g.jobs) == 0 {
			p.yield(Step{Kind: Start, Group: g.id, Events: p.start(g)})
			return
		}
	}
}

// serving are the places of the jobs of a group: a queued one has not been ordered by them.
func (g *group) serving() []int { return g.places[:max(0, len(g.places)-1)] }

// start are the events with which a group starts, and the jobs that may begin then.
func (s *State) start(g *group) []deploylog.Event {
	var first record.Numbers
	for i := range g.jobs {
		if j := &g.jobs[i]; j.state == transition.Pending && j.unmet == 0 && j.broken == 0 && len(first) < maxListed {
			first = append(first, i+1)
		}
	}
	events := []deploylog.Event{g.event(record.GroupStarted, g.next(record.GroupStarted), record.Ended{})}
	if len(first) > 0 {
		events = append(events, g.event(record.JobsEligible, g.next(record.JobsEligible), record.Eligible{Jobs: first}))
	}
	return events
}

// stalls reports whether nothing of a group moves and nothing but a fault of the program, or
// of the log, explains it: there is nothing to settle, nothing runs, and nothing only waits
// for a worker.
func (g *group) stalls() bool { return g.running() == 0 && g.counts[transition.Eligible] == 0 }

// Wake is when something may be done because time has passed: a lost job rests before it is
// dispatched again. Zero is never.
func (s *State) Wake() time.Time {
	defer s.recorded()()
	for len(s.backoffs) > 0 {
		r := s.backoffs[0]
		if j := &r.g.jobs[r.job]; j.backingOff && j.attempt == r.attempt {
			return r.until
		}
		s.backoffs.Pop()
	}
	return time.Time{}
}

// Idle reports whether nothing will be done until an event comes from outside. serves reports
// whether there is a worker for a place at all, busy or not; nil is always.
func (s *State) Idle(serves func(record.Place) bool) bool {
	defer s.recorded()()
	served := func(place int) bool { return serves == nil || serves(s.places[place]) }
	for _, g := range s.active {
		if g.running() > 0 && s.foreign(g, served) {
			continue
		}
		if g.running() > 0 || !g.stalled && g.counts[transition.Eligible] == 0 {
			return false
		}
		for k := range g.queues {
			if g.hasEligible(k) && served(g.places[k]) {
				return false
			}
		}
	}
	for _, g := range s.queued {
		if len(g.jobs) == 0 {
			return false
		}
		for _, place := range g.serving() {
			if served(place) {
				return false
			}
		}
	}
	return true
}

// Elsewhere is an inventory whose workers all groups need that have not ended; "" where a group
// may be done on ours, or is canceled and nothing of it runs any more, so that anybody may
// conclude it.
func (s *State) Elsewhere(ours func(record.Place) bool) (inventory string) {
	defer s.recorded()()
	for _, groups := range [][]*group{s.active, s.queued} {
		for _, g := range groups {
			if g.state == transition.Canceling && g.running() == 0 || len(g.serving()) == 0 {
				return ""
			}
			for _, place := range g.serving() {
				if inventory = s.places[place].Inventory; inventory == "" || ours(s.places[place]) {
					return ""
				}
			}
		}
	}
	return inventory
}

// foreign reports whether all that was begun of a group is left to who has another inventory.
func (s *State) foreign(g *group, served func(place int) bool) bool {
	for i := g.inFlight.Next(0); i >= 0; i = g.inFlight.Next(i + 1) {
		if place := g.places[g.placeOf(int32(i))]; s.places[place].Inventory == "" || served(place) {
			return false
		}
	}
	return true
}

// hasEligible reports whether jobs at a place may be dispatched, or rest before that.
func (g *group) hasEligible(queue int) bool {
	q := &g.queues[queue]
	if q.eligible.Len() > 0 {
		return true
	}
	for _, i := range q.jobs {
		if g.jobs[i].state == transition.Eligible {
			return true
		}
	}
	return false
}
