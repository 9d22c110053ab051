package build

import "github.com/deployster-go/deployster/build/transition"

// move brings a job into a state, and counts what that changes for those that need it.
func (g *group) move(i int32, to transition.Job) {
	j := &g.jobs[i]
	from := j.state
	if from == to {
		return
	}
	g.note(j, -1)
	j.state = to
	g.note(j, 1)
	g.counts[from]--
	g.counts[to]++
	switch {
	case to == transition.Eligible:
		g.enqueue(j)
	case from == transition.Eligible && len(g.queues) > 0:
		g.queues[j.queue].eligible.Remove(int(j.position))
	}
	if is := to.InFlight(); is != from.InFlight() {
		if is {
			g.inFlight.Add(int(i))
		} else {
			g.inFlight.Remove(int(i))
		}
	}
	built, ended, unbuilt := change(from == transition.Built, to == transition.Built), change(from.Ended(), to.Ended()), change(from.Unbuilt(), to.Unbuilt())
	if built == 0 && ended == 0 {
		return
	}
	for _, e := range g.needed[j.first:j.last] {
		g.count(e, built, ended, unbuilt)
	}
	if len(g.more) > 0 {
		for _, e := range g.more[i] {
			g.count(e, built, ended, unbuilt)
		}
	}
}

// count counts for a job that what it needs has changed.
func (g *group) count(e edge, built, ended, unbuilt int32) {
	j := &g.jobs[e.job()]
	g.note(j, -1)
	if e&waits != 0 {
		j.unmet -= ended
	} else {
		j.unmet -= built
		j.broken += unbuilt
	}
	g.note(j, 1)
}

func change(before, after bool) int32 {
	switch {
	case before == after:
		return 0
	case after:
		return 1
	default:
		return -1
	}
}

// note counts a job among those of which something should be recorded.
func (g *group) note(j *job, by int) {
	switch {
	case j.broken > 0:
		if j.state.Waiting() {
			g.blocked += by
		}
	case j.unmet == 0 && (j.state == transition.Schedulable || j.state == transition.JobLost):
		g.ready += by
	}
}

// enqueue puts a job where it may be dispatched from, unless it rests.
func (g *group) enqueue(j *job) {
	if !j.backingOff && len(g.queues) > 0 {
		g.queues[j.queue].eligible.Add(int(j.position))
	}
}
