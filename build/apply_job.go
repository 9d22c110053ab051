package build

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/build/compact"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
)

// applyToJob folds an event of a job.
func (s *State) applyToJob(g *group, i int32, e *deploylog.Event) {
	g.stalled = false
	j := &g.jobs[i]
	switch e.Name {
	case record.JobDependentsEligible:
		s.applyEligible(g, e)
		return
	case record.JobDependentsFailed:
		g.notes[note{i, e.Name}] = max(g.notes[note{i, e.Name}], e.Attempt)
		s.applyDependentsFailed(g, i, e)
		return
	case record.JobSpoiled:
		g.notes[note{i, e.Name}] = max(g.notes[note{i, e.Name}], e.Attempt)
		s.applySpoiled(g, i, e)
		return
	}
	to, ok := transition.NextJob(j.state, e.Name)
	if e.Name == record.JobStarted && !j.state.InFlight() {
		ok = ok && e.Attempt > int(j.attempt) && j.unmet == 0 && j.broken == 0
		j.attempt = int32(max(int(j.attempt), e.Attempt))
	}
	if !ok {
		return
	}
	switch e.Name {
	case record.JobStarted:
		j.began, j.started, j.ended, j.backingOff = compact.MomentOf(e.CreatedAt), e.Data, nil, false
	case record.JobEligible:
		if e.Attempt <= int(j.attempt) || j.unmet > 0 || j.broken > 0 {
			return
		}
		if j.state == transition.JobLost {
			s.backOff(g, i, e.CreatedAt)
		}
	default:
		if e.Attempt != int(j.attempt) {
			return // of an attempt that was given up
		}
		s.applyEnd(g, i, e)
	}
	g.enter(i, to, e)
}

// applyEnd takes note of how an attempt has ended.
func (s *State) applyEnd(g *group, i int32, e *deploylog.Event) {
	j := &g.jobs[i]
	switch e.Name {
	case record.JobFinished:
		outcome := record.OutcomeOf(e.Data)
		s.applyFinished(g, i, e, &outcome)
	case record.JobLost:
		data := record.Decode[record.Lost](*e)
		s.spoil(j, &data)
		if g.countsLoss(i, &data) {
			j.lost++
		}
		if g.excused(i, &data) {
			j.excused++
		}
	case record.JobFailed:
		j.because = 0
		s.notPushed(g, i, e)
	}
	j.ended = e.Data
}

// applyFinished takes note of what was built.
func (s *State) applyFinished(g *group, i int32, e *deploylog.Event, outcome *record.Outcome) {
	j := &g.jobs[i]
	delete(g.idents, i)
	if j.artifact, j.reused = outcome.Artifact, outcome.Reused; j.reused {
		g.reused++
	}
	if j.rebuilt > 0 {
		clear(g.idents) // it may be another than before
	}
	j.ended = e.Data
	s.finished(g, i, outcome, e.Seq)
}

// maxExcused is how often a job may be lost through no fault of its own before that counts: a
// job may be what ends the processes that have it done, fills the disk, or removes artifacts.
const maxExcused = 20

// countsLoss reports whether a loss is one of those of which a job may have only so many.
func (g *group) countsLoss(i int32, data *record.Lost) bool {
	return !data.Mistaken && (!g.excused(i, data) || g.jobs[i].excused >= maxExcused)
}

// excused reports whether a job was lost with the process that had it done, because another
// one had filled the disk, or for want of an artifact that its group builds again, whichever
// group has found first that it is missing. What was released nobody builds again.
func (g *group) excused(i int32, data *record.Lost) bool {
	return data.Abandoned || data.Crowded || len(data.Spoiled) > 0 && slices.ContainsFunc(g.dependencies(i, nil), func(d Dependency) bool {
		return d.Job > 0 && (g.jobs[d.Job-1].rebuilt > 0 || slices.Contains(data.Spoiled, d.Artifact))
	})
}

// backOff has a job that was lost wait before it is dispatched again: whatever was wrong may
// take a moment, and each loss counts.
func (s *State) backOff(g *group, i int32, at time.Time) {
	j := &g.jobs[i]
	pause := pauseAfter(int(j.lost))
	if j.backingOff = pause > 0; j.backingOff {
		s.backoffs.Push(backoff{until: at.Add(pause), pause: pause, g: g, job: i, attempt: j.attempt})
	}
}

// pauseAfter is how long a job rests that was lost so many times: a second at first, then
// four times as long, up to a minute.
func pauseAfter(lost int) time.Duration {
	if lost < 1 {
		return 0
	}
	return min(time.Second<<min(2*(lost-1), 6), time.Minute)
}

// wake lets jobs be dispatched that have rested. Where the clock was set back they have.
func (s *State) wake(now time.Time) {
	for len(s.backoffs) > 0 {
		if left := s.backoffs[0].until.Sub(now); left > 0 && left <= s.backoffs[0].pause {
			return
		}
		r := s.backoffs.Pop()
		j := &r.g.jobs[r.job]
		if !j.backingOff || j.attempt != r.attempt {
			continue
		}
		if j.backingOff = false; j.state == transition.Eligible {
			r.g.enqueue(j)
		}
	}
}

// applyDependentsFailed fails jobs that need one that has failed.
func (s *State) applyDependentsFailed(g *group, root int32, e *deploylog.Event) {
	because := root + 1
	if of := g.jobs[root].because; of > 0 {
		because = of
	}
	for _, n := range record.Decode[record.DependentsFailed](*e).Jobs {
		if n > len(g.jobs) {
			return
		}
		if to, ok := transition.NextJob(g.jobs[n-1].state, e.Name); ok {
			g.jobs[n-1].because = because
			g.enter(int32(n-1), to, e)
		}
	}
}

// applySpoiled has a job built again whose artifact is missing or altered. What uses it and
// has not begun waits for that.
func (s *State) applySpoiled(g *group, i int32, e *deploylog.Event) {
	if !g.dispatches() || g.stopping() {
		return
	}
	j := &g.jobs[i]
	to, ok := transition.NextJob(j.state, e.Name)
	if !ok || j.state != transition.Built {
		return
	}
	clear(g.idents)
	if j.rebuilt++; j.reused {
		g.reused--
	}
	s.spoiled[record.HashOf(j.artifact)] = true
	affected := g.affected(i)
	g.enter(i, to, e)
	for _, user := range affected {
		if to, ok := transition.NextJob(g.jobs[user].state, e.Name); ok && g.jobs[user].state != transition.Built {
			g.jobs[user].backingOff = false
			g.enter(user, to, e)
		}
	}
}
