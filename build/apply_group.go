package build

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/build/compact"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
)

// applyToGroup folds an event of a group itself.
func (s *State) applyToGroup(g *group, e *deploylog.Event) {
	g.attempts[e.Name] = max(g.attempts[e.Name], e.Attempt)
	switch e.Name {
	case record.JobsCreated:
		s.applyJobs(g, e)
		return
	case record.JobsEligible:
		s.applyEligible(g, e)
		return
	case record.GroupStalled:
		g.stalled, g.cause = g.state.Runs(), record.Decode[record.Ended](*e).Cause
		return
	}
	to, ok := transition.NextGroup(g.state, e.Name)
	if !ok {
		return
	}
	from := g.state
	g.state, g.seq, g.stalled, g.cause = to, e.Seq, false, ""
	s.list(g, from)
	switch e.Name {
	case record.GroupCreated:
		g.created = record.Decode[record.Created](*e)
		for _, p := range append(slices.Clone(g.created.Places), record.Place{}) { // the last is that of jobs without one
			g.places = append(g.places, s.place(p))
		}
	case record.GroupQueued:
		g.link()
	case record.GroupStarted:
		g.startedAt = e.CreatedAt
		s.order(g)
		g.moveAll(e.Name)
	case record.GroupFinished:
		g.endedAt = e.CreatedAt
	case record.GroupFailing:
		g.cause = record.Decode[record.Ended](*e).Cause
		g.stop(e.Name)
	case record.GroupFailed:
		g.cause, g.endedAt = record.Decode[record.Ended](*e).Cause, e.CreatedAt
		g.stop(e.Name)
	case record.GroupCanceling:
		if from == transition.Triggered || from == transition.Created {
			g.link()
		}
		g.canceling = record.Decode[record.Canceling](*e)
		g.moveAll(e.Name)
	case record.GroupCanceled:
		g.endedAt = e.CreatedAt
	case record.GroupRetried:
		data := record.Decode[record.Retried](*e)
		g.retry(data.FailedOnly)
		if from := g.triggered.Pipeline; from != nil && data.Step != "" {
			again := *from
			again.Step = data.Step
			g.triggered.Pipeline = &again
		}
		g.startedAt, g.endedAt, g.canceling = time.Time{}, time.Time{}, record.Canceling{}
	}
}

// list keeps the lists of groups by what is to be done about them.
func (s *State) list(g *group, from transition.Group) {
	if from == transition.Queued {
		s.queued = without(s.queued, g)
	}
	if g.state == transition.Queued {
		s.queued = with(s.queued, g)
	}
	if runs := g.state.Runs(); runs != from.Runs() {
		if runs {
			s.active = with(s.active, g)
		} else {
			s.active = without(s.active, g)
		}
	}
}

func byAge(a, b *group) int { return a.at - b.at }

func with(all []*group, g *group) []*group {
	i, _ := slices.BinarySearchFunc(all, g, byAge)
	return slices.Insert(all, i, g)
}

func without(all []*group, g *group) []*group {
	if i, ok := slices.BinarySearchFunc(all, g, byAge); ok {
		return slices.Delete(all, i, i+1)
	}
	return all
}

// applyJobs adds jobs, a part that follows those that are there.
func (s *State) applyJobs(g *group, e *deploylog.Event) {
	data := record.Decode[record.Jobs](*e)
	if g.state != transition.Created || data.From != len(g.jobs)+1 || len(g.jobs)+len(data.Jobs) > maxJobs {
		return
	}
	data.Share()
	g.add(data.Jobs)
	g.created.Cycles = append(g.created.Cycles, data.Cycles...)
	g.created.Unbuildable = append(g.created.Unbuildable, data.Unbuildable...)
}

// applyEligible makes jobs Eligible that are named by an event.
func (s *State) applyEligible(g *group, e *deploylog.Event) {
	if !g.dispatches() {
		return
	}
	g.stalled = false
	s.named = record.JobsOf(e.Data, s.named)
	for _, n := range s.named {
		if n > len(g.jobs) {
			return
		}
		j := &g.jobs[n-1]
		if to, ok := transition.NextJob(j.state, e.Name); ok && j.unmet == 0 && j.broken == 0 {
			g.enter(int32(n-1), to, e)
		}
	}
}

// moveAll moves all jobs by an event of their group.
func (g *group) moveAll(event string) {
	for i := range g.jobs {
		if to, ok := transition.NextJob(g.jobs[i].state, event); ok {
			g.move(int32(i), to)
		}
	}
}

// stop ends what has not begun, where the group fails fast.
func (g *group) stop(event string) {
	if g.failFast() {
		g.moveAll(event)
	}
}

// enter brings a job into a state by an event.
func (g *group) enter(i int32, to transition.Job, e *deploylog.Event) {
	g.jobs[i].since, g.jobs[i].seq = compact.MomentOf(e.CreatedAt), e.Seq
	g.move(i, to)
}

// retry has jobs built that were not: all, or those that failed, those that failed because of
// these, and what they need.
func (g *group) retry(failedOnly bool) {
	for i := len(g.jobs) - 1; i >= 0; i-- {
		switch j := &g.jobs[i]; {
		case failedOnly && j.state == transition.CancelComplete:
		case j.state.Unbuilt():
			g.again(int32(i))
		}
	}
}

// again has a job built that was not, and all that it needs and was not.
func (g *group) again(i int32) {
	queue := []int32{i}
	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		j := &g.jobs[i]
		to, ok := transition.NextJob(j.state, record.GroupRetried)
		if !ok {
			continue
		}
		j.lost, j.excused, j.because, j.backingOff = 0, 0, 0, false
		g.move(i, to)
		queue = append(queue, g.uses(i)...)
	}
}

// uses are the jobs that one uses.
func (g *group) uses(i int32) (all []int32) {
	for _, u := range g.specs[i].Uses {
		if u.Job > 0 && u.Job <= len(g.jobs) {
			all = append(all, int32(u.Job-1))
		}
	}
	return append(all, g.lacks[i]...)
}
