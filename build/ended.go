package build

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
)

// Ended returns what is to be recorded of how a task ended, with all that it causes; nothing
// of an attempt that was given up. It counts the tasks that it was asked about before and
// whose events are not applied yet: of two that end at once the last unlocks what needs both.
func (s *State) Ended(t Task, r Result, _ time.Time) []deploylog.Event {
	g := s.group(t.Group)
	if g == nil || t.Job < 1 || t.Job > len(g.jobs) {
		return nil
	}
	i := int32(t.Job - 1)
	if g.jobs[i].asked {
		s.takeBack() // what was returned before was not recorded
	}
	if j := &g.jobs[i]; !j.state.InFlight() || int(j.attempt) != t.Attempt {
		return nil
	}
	e := ending{State: s, g: g, i: i, attempt: t.Attempt}
	switch {
	case r.Finished != nil:
		data := *r.Finished
		data.Inputs, data.Worker = cmp.Or(data.Inputs, t.Inputs), cmp.Or(data.Worker, t.Worker)
		e.finish(data)
	case r.Failed != nil:
		data := *r.Failed
		data.Worker = cmp.Or(data.Worker, t.Worker)
		e.fail(data)
	case r.Canceled != nil && g.jobs[i].state == transition.CancelPending:
		data := *r.Canceled
		data.Worker = cmp.Or(data.Worker, t.Worker)
		e.add(record.JobCanceled, data)
		s.try(g, i, transition.CancelComplete)
	case r.Lost != nil:
		data := *r.Lost
		data.Worker = cmp.Or(data.Worker, t.Worker)
		e.lose(data)
	default:
		e.lose(record.Lost{Cause: "it was stopped", Worker: t.Worker})
	}
	return append(e.events, s.conclude(g)...)
}

// ending is what is recorded of how a task ended.
type ending struct {
	*State
	g       *group
	i       int32
	attempt int
	events  []deploylog.Event

	foreseen bool // its events change what is tried, and nothing else
}

// add adds an event of the job.
func (e *ending) add(name string, data any) {
	e.events = append(e.events, e.g.jobEvent(e.i, name, e.attempt, data))
}

func (e *ending) finish(data record.Finished) {
	data = fitting(data)
	text := data.AppendText(e.text.Take(data.Room(), textBlock))
	e.events = append(e.State.events.Take(2, eventsBlock), e.g.writtenEvent(e.i, record.JobFinished, e.attempt, text))
	outcome, foreseen := data.Outcome()
	e.foreseen = foreseen && e.g.dispatches()
	from := len(e.tries.all)
	e.try(e.g, e.i, transition.Built)
	e.foresee(from, outcome)
	var room [16]int
	ready := record.Numbers(room[:0])
	from = len(e.tries.all)
	e.g.users(e.i, func(u edge) { ready = e.unlock(ready, u.job()) })
	e.unlocked(ready)
	if len(ready) > 0 {
		e.foresee(from, record.Outcome{})
	}
}

// foresee takes note of the last event: its changes are those that were tried last.
func (e *ending) foresee(from int, outcome record.Outcome) {
	if e.foreseen {
		last := &e.events[len(e.events)-1]
		e.tries.foreseen = append(e.tries.foreseen, foreseen{
			name: last.Name, target: last.Target, data: last.Data, attempt: int32(e.attempt), job: e.i, g: e.g,
			from: int32(from), to: int32(len(e.tries.all)), outcome: outcome,
		})
	}
}

// unlockable reports whether a job waits for nothing more, and that is not recorded.
func (g *group) unlockable(i int32) bool {
	j := &g.jobs[i]
	return j.state == transition.Schedulable && j.unmet == 0 && j.broken == 0
}

// unlock adds a job to those that may be dispatched, if it may.
func (e *ending) unlock(ready record.Numbers, i int32) record.Numbers {
	if len(ready) == maxListed || !e.g.unlockable(i) {
		return ready
	}
	e.try(e.g, i, transition.Eligible)
	return append(ready, int(i)+1)
}

// unlocked records jobs that need nothing more.
func (e *ending) unlocked(ready record.Numbers) {
	if len(ready) > 0 {
		slices.Sort(ready)
		data := record.Eligible{Jobs: ready}
		e.events = append(e.events, e.g.writtenEvent(e.i, record.JobDependentsEligible, e.attempt, data.AppendText(e.text.Take(data.Room(), textBlock))))
	}
}

func (e *ending) fail(data record.Failed) {
	data.Cause = deploylog.Cause(data.Cause)
	if len(data.Output) > maxOutput {
		data.Output = data.Output[len(data.Output)-maxOutput:]
	}
	for k := range data.Output {
		data.Output[k] = deploylog.Cause(data.Output[k])
	}
	e.add(record.JobFailed, data)
	e.failed()
}

// maxOutput is how many lines of output an event has at most, of each of which it has at most
// as much as of a cause.
const maxOutput = 40

// failed fails what needs the job, and unlocks what only waited for any of these.
func (e *ending) failed() {
	e.try(e.g, e.i, transition.JobFailed)
	failed, waiting := e.spread(e.g, e.i)
	if len(failed) > 0 {
		attempt := max(e.attempt, e.g.notes[note{e.i, record.JobDependentsFailed}]+1)
		e.events = append(e.events, e.g.jobEvent(e.i, record.JobDependentsFailed, attempt, record.DependentsFailed{Jobs: failed}))
	}
	var ready record.Numbers
	for _, i := range waiting {
		ready = e.unlock(ready, i)
	}
	e.unlocked(ready)
}

// spread fails all that needs a job that has ended unbuilt, and has not begun. It returns
// also what only waited for any of these.
func (s *State) spread(g *group, root int32) (failed record.Numbers, waiting []int32) {
	queue := []int32{root}
	for len(queue) > 0 && len(failed) < maxListed {
		from := queue[0]
		queue = queue[1:]
		g.users(from, func(u edge) {
			i := u.job()
			if u&waits != 0 {
				waiting = append(waiting, i)
				return
			}
			if to, ok := transition.NextJob(g.jobs[i].state, record.JobDependentsFailed); ok && len(failed) < maxListed {
				s.try(g, i, to)
				failed, queue = append(failed, int(i)+1), append(queue, i)
			}
		})
	}
	slices.Sort(failed)
	return failed, waiting
}

func (e *ending) lose(data record.Lost) {
	g, j := e.g, &e.g.jobs[e.i]
	data.Cause = deploylog.Cause(data.Cause)
	if len(data.Spoiled) > maxSpoiled {
		data.Spoiled = data.Spoiled[:maxSpoiled]
	}
	e.add(record.JobLost, data)
	if j.state == transition.CancelPending {
		e.try(g, e.i, transition.CancelComplete)
		return
	}
	lost := int(j.lost)
	counts := g.countsLoss(e.i, &data)
	if counts {
		lost++
	}
	e.try(g, e.i, transition.JobLost)
	switch {
	case g.stopping():
		e.add(record.JobCanceled, record.Canceled{Worker: data.Worker})
		e.try(g, e.i, transition.CancelComplete)
	case lost > g.triggered.MaxLost && counts:
		e.add(record.JobFailed, record.Failed{Cause: deploylog.Cause(lostCause(lost, data.Cause)), Worker: data.Worker})
		e.failed()
	default:
		e.rebuild(data.Spoiled)
		if j.state == transition.JobLost && j.unmet == 0 && j.broken == 0 && g.complete(e.i) {
			e.events = append(e.events, g.jobEvent(e.i, record.JobEligible, e.attempt+1, struct{}{}))
			e.try(g, e.i, transition.Eligible)
		}
	}
}

// maxSpoiled is how many artifacts a loss may name; whatever else is missing is found when
// these are there again.
const maxSpoiled = 1000

func lostCause(times int, cause string) string {
	if times == 1 {
		return "it was lost: " + cause
	}
	return fmt.Sprintf("it was lost %d times: %s", times, cause)
}

// rebuild has those jobs built again whose artifacts the job uses and are missing or altered.
func (e *ending) rebuild(spoiled []string) {
	if len(spoiled) == 0 {
		return
	}
	g, again := e.g, []int32(nil)
	for _, d := range g.dependencies(e.i, nil) {
		if d.Job == 0 || !slices.Contains(spoiled, d.Artifact) || g.jobs[d.Job-1].state != transition.Built {
			continue
		}
		i := int32(d.Job - 1)
		again = append(again, i)
		users, _ := g.usersOf(i)
		named := make(record.Numbers, 0, len(users))
		for _, user := range users {
			if g.jobs[user].state == transition.Eligible || g.jobs[user].state == transition.JobLost {
				named = append(named, int(user)+1)
			}
		}
		if len(named) > maxListed {
			named = nil // they follow from the job
		}
		attempt := max(int(g.jobs[i].attempt), g.notes[note{i, record.JobSpoiled}]+1)
		data := record.Spoiled{Artifact: d.Artifact, Cause: fmt.Sprintf("job %d could not use it", e.i+1), Jobs: named}
		e.events = append(e.events, g.jobEvent(i, record.JobSpoiled, attempt, data))
		e.try(g, i, transition.Schedulable)
		for _, user := range named {
			e.try(g, int32(user-1), transition.Schedulable)
		}
	}
	for _, i := range again {
		if g.unlockable(i) && g.complete(i) {
			e.events = append(e.events, g.jobEvent(i, record.JobEligible, int(g.jobs[i].attempt)+1, struct{}{}))
			e.try(g, i, transition.Eligible)
		}
	}
}

// fitting is data without what would make it too large for the log.
func fitting(data record.Finished) record.Finished {
	size := 0
	for k, v := range data.Metadata {
		size += len(k) + len(v)
	}
	if size > maxMetadata {
		data.Metadata = nil
	}
	return data
}

// maxMetadata is how many bytes of what a job has written an event has at most: so many that
// it fits also where each is written as six.
const maxMetadata = 128 << 10
