package build

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
)

// settle returns the events of what has become true of a group and is not recorded. That is
// so where the consequences of an event are not in its append: there were too many, or it was
// recorded by a process that did not know yet what others had recorded.
func (s *State) settle(g *group) (events []deploylog.Event) {
	if len(s.tries.all) > 0 || g.ready == 0 && g.blocked == 0 && !g.concludes() {
		return nil
	}
	defer s.takeBack()
	if g.ready > 0 && g.counts[transition.JobLost] > 0 {
		events = append(events, s.settleLost(g)...)
	}
	if g.blocked > 0 {
		events = append(events, s.settleBlocked(g)...)
	}
	if g.ready > 0 {
		events = append(events, s.settleReady(g)...)
	}
	return append(events, s.conclude(g)...)
}

// settleReady lets jobs be dispatched that need nothing more.
func (s *State) settleReady(g *group) []deploylog.Event {
	var ready record.Numbers
	for i := range g.jobs {
		if len(ready) < maxListed && g.unlockable(int32(i)) {
			s.try(g, int32(i), transition.Eligible)
			ready = append(ready, i+1)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	return []deploylog.Event{g.event(record.JobsEligible, g.next(record.JobsEligible), record.Eligible{Jobs: ready})}
}

// settleLost ends that jobs are lost.
func (s *State) settleLost(g *group) (events []deploylog.Event) {
	for i := range g.jobs {
		j := &g.jobs[i]
		if j.state != transition.JobLost || j.unmet > 0 || j.broken > 0 {
			continue
		}
		at, name, to, attempt := int32(i), record.JobEligible, transition.Eligible, int(j.attempt)+1
		var data any = struct{}{}
		switch {
		case g.stopping():
			name, to, attempt, data = record.JobCanceled, transition.CancelComplete, int(j.attempt), record.Canceled{}
		case int(j.lost) > g.triggered.MaxLost:
			cause := decode[record.Lost](j.ended)
			name, to, attempt, data = record.JobFailed, transition.JobFailed, int(j.attempt), record.Failed{Cause: deploylog.Cause(lostCause(int(j.lost), cause.Cause)), Worker: cause.Worker}
		}
		events = append(events, g.jobEvent(at, name, attempt, data))
		s.try(g, at, to)
	}
	return events
}

// settleBlocked fails what waits for jobs that will not be built.
func (s *State) settleBlocked(g *group) (events []deploylog.Event) {
	for i := range g.jobs {
		if !g.jobs[i].state.Unbuilt() {
			continue
		}
		failed, _ := s.spread(g, int32(i))
		if len(failed) == 0 {
			continue
		}
		attempt := max(int(g.jobs[i].attempt), 1, g.notes[note{int32(i), record.JobDependentsFailed}]+1)
		events = append(events, g.jobEvent(int32(i), record.JobDependentsFailed, attempt, record.DependentsFailed{Jobs: failed}))
	}
	return events
}

// concludes reports whether the group comes into another state by what has become of its jobs.
func (g *group) concludes() bool {
	event, _ := g.conclusion()
	return event != ""
}

// fails reports whether jobs of the group could not be built.
func (g *group) fails() bool {
	return g.counts[transition.JobFailed]+g.counts[transition.DependencyFailed] > 0
}

// conclusion is the event that follows for a group from the states of its jobs, "" for none.
func (g *group) conclusion() (event string, to transition.Group) {
	left, running := g.left(), g.running()
	stops := g.failFast() && g.counts[transition.JobFailed] > 0
	switch {
	case g.state == transition.Canceling && running == 0:
		return record.GroupCanceled, transition.Canceled
	case !g.dispatches():
		return "", 0
	case left == 0 && g.state == transition.Dispatching && !g.fails() && g.counts[transition.CancelComplete] == 0 && len(g.created.Unbuildable) == 0:
		return record.GroupFinished, transition.Complete
	case left == 0 || stops && running == 0:
		return record.GroupFailed, transition.Failed
	case g.state == transition.Dispatching && (stops || g.fails() && left == running):
		return record.GroupFailing, transition.FailureCleanup
	default:
		return "", 0
	}
}

// conclude records what follows for a group from the states of its jobs.
func (s *State) conclude(g *group) []deploylog.Event {
	event, to := g.conclusion()
	if event == "" {
		return nil
	}
	data := record.Ended{}
	if event == record.GroupFailing || event == record.GroupFailed {
		data.Cause = g.failure()
	}
	s.tryGroup(g, to)
	if g.failFast() && (event == record.GroupFailing || event == record.GroupFailed) {
		for i := range g.jobs {
			if to, ok := transition.NextJob(g.jobs[i].state, event); ok {
				s.try(g, int32(i), to)
			}
		}
	}
	return []deploylog.Event{g.event(event, g.next(event), data)}
}

// failure is why a group fails.
func (g *group) failure() string {
	const named = 3
	var all, names []string
	if n := g.counts[transition.JobFailed]; n > 0 {
		for i := range g.jobs {
			if g.jobs[i].state == transition.JobFailed && len(names) < named {
				names = append(names, fmt.Sprintf("%d (%s)", i+1, phrase.Cut(g.specs[i].Package, 100)))
			}
		}
		text := phrase.Count(n, "job") + " failed: " + strings.Join(names, ", ")
		if n > named {
			text += fmt.Sprintf(" and %d more", n-named)
		}
		all = append(all, text)
	}
	if n := g.counts[transition.DependencyFailed]; n > 0 {
		all = append(all, phrase.Count(n, "job")+" could not be built because of that")
	}
	if n := len(g.created.Unbuildable); n > 0 {
		names = names[:0:0]
		for _, u := range g.created.Unbuildable[:min(n, named)] {
			names = append(names, phrase.Cut(u.Package, 100))
		}
		text := phrase.Count(n, "package") + " cannot be built: " + strings.Join(names, ", ")
		if n > named {
			text += fmt.Sprintf(" and %d more", n-named)
		}
		all = append(all, text)
	}
	if n := g.counts[transition.CancelComplete]; n > 0 && len(all) == 0 {
		all = append(all, phrase.Count(n, "job")+" that had been canceled were not tried again")
	}
	return strings.Join(all, "; ")
}

// stallCause says what is wrong with a group of which nothing moves.
func (g *group) stallCause() string {
	const named = 5
	var names []string
	for i := range g.jobs {
		if j := &g.jobs[i]; j.state.Waiting() && len(names) < named {
			names = append(names, fmt.Sprintf("%d (%s) waits for %s that do not begin", i+1, phrase.Cut(g.specs[i].Package, 100), phrase.Count(int(j.unmet), "job")))
		}
	}
	slices.Sort(names)
	return phrase.Count(g.left(), "job") + " can never begin: " + strings.Join(names, ", ")
}
