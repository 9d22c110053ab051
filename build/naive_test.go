package build_test

import (
	"slices"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
)

// naive is what follows from all events of a log, found without any counting: whatever is
// asked is looked up in all jobs.
type naive struct {
	groups map[string]*naiveGroup
	order  []*naiveGroup
	gone   map[string]bool // digests that are missing or altered
}

type naiveGroup struct {
	id    string
	state transition.Group
	head  record.Triggered
	jobs  []*naiveJob
	bad   bool // something of it cannot be built
}

type naiveJob struct {
	record.JobSpec
	state    transition.Job
	attempt  int
	artifact string
	inputs   string
}

func fold(log []deploylog.Event) *naive {
	n := &naive{groups: map[string]*naiveGroup{}, gone: map[string]bool{}}
	for _, e := range log {
		n.apply(e)
	}
	return n
}

func (n *naive) apply(e deploylog.Event) {
	id, number, ok := record.Parse(e.Target)
	if !ok {
		return
	}
	g := n.groups[id]
	if g == nil {
		if number > 0 || e.Name != record.GroupTriggered {
			return
		}
		g = &naiveGroup{id: id, head: record.Decode[record.Triggered](e)}
		n.groups[id], n.order = g, append(n.order, g)
	}
	switch {
	case number == 0:
		g.apply(e)
	case number <= len(g.jobs):
		n.applyToJob(g, number, e)
	}
}

func (g *naiveGroup) apply(e deploylog.Event) {
	switch e.Name {
	case record.JobsCreated:
		data := record.Decode[record.Jobs](e)
		for _, spec := range data.Jobs {
			g.jobs = append(g.jobs, &naiveJob{JobSpec: spec, state: transition.Pending})
		}
		g.bad = g.bad || len(data.Unbuildable) > 0
		return
	case record.JobsEligible:
		g.eligible(e)
		return
	}
	to, ok := transition.NextGroup(g.state, e.Name)
	if !ok {
		return
	}
	g.state = to
	retried := record.Decode[record.Retried](e)
	for i, j := range g.jobs {
		to, ok := transition.NextJob(j.state, e.Name)
		switch {
		case !ok, e.Name == record.GroupFailing && !g.head.FailFast, e.Name == record.GroupFailed && !g.head.FailFast, retried.FailedOnly && !g.again(i+1):
			continue
		}
		defer func() { j.state = to }()
	}
}

// again reports whether a job is tried again where only what failed is: it failed, or needs
// what did, or such a job needs it.
func (g *naiveGroup) again(number int) bool {
	j := g.jobs[number-1]
	if j.state == transition.JobFailed || j.state == transition.DependencyFailed {
		return true
	}
	for i, user := range g.jobs {
		if user.state.Unbuilt() && g.reaches(user, number) && g.again(i+1) {
			return true
		}
	}
	return false
}

// may reports whether a job may be dispatched, as far as others go: all that it uses is
// Built, also what that needs to run.
func (g *naiveGroup) may(j *naiveJob) bool {
	for i, needed := range g.jobs {
		if needed.state != transition.Built && g.reaches(j, i+1) {
			return false
		}
	}
	for _, n := range j.Waits {
		if !g.jobs[n-1].state.Ended() {
			return false
		}
	}
	return true
}

func (g *naiveGroup) goes() bool {
	return g.state == transition.Dispatching || g.state == transition.FailureCleanup
}

func (g *naiveGroup) eligible(e deploylog.Event) {
	for _, n := range record.Decode[record.Eligible](e).Jobs {
		j := g.jobs[n-1]
		if to, ok := transition.NextJob(j.state, e.Name); ok && g.goes() && g.may(j) {
			j.state = to
		}
	}
}

func (n *naive) applyToJob(g *naiveGroup, number int, e deploylog.Event) {
	j := g.jobs[number-1]
	to, ok := transition.NextJob(j.state, e.Name)
	switch e.Name {
	case record.JobDependentsEligible:
		g.eligible(e)
		return
	case record.JobDependentsFailed:
		for _, n := range record.Decode[record.DependentsFailed](e).Jobs {
			if to, ok := transition.NextJob(g.jobs[n-1].state, e.Name); ok {
				g.jobs[n-1].state = to
			}
		}
		return
	case record.JobSpoiled:
		if ok && j.state == transition.Built && g.goes() && !g.stops() {
			n.gone[j.artifact] = true
			j.state = to
			g.spoiled(number, e)
		}
		return
	case record.JobEligible:
		ok = ok && e.Attempt > j.attempt && g.may(j)
	case record.JobStarted:
		ok = ok && e.Attempt > j.attempt && g.may(j)
	default:
		ok = ok && e.Attempt == j.attempt
	}
	if !ok {
		return
	}
	j.state = to
	n.ended(j, e)
}

// ended takes note of what an event says of a job.
func (n *naive) ended(j *naiveJob, e deploylog.Event) {
	switch e.Name {
	case record.JobStarted:
		j.attempt = e.Attempt
	case record.JobFinished:
		data := record.Decode[record.Finished](e)
		j.artifact, j.inputs = data.Artifact, data.Inputs
		if data.Reused == "" {
			delete(n.gone, data.Artifact)
		}
	case record.JobLost:
		for _, digest := range record.Decode[record.Lost](e).Spoiled {
			n.gone[digest] = true
		}
	}
}

// spoiled has those wait that have not begun and use or wait for a job that is built again.
func (g *naiveGroup) spoiled(number int, e deploylog.Event) {
	for k, user := range g.jobs {
		if !user.state.Waiting() || k+1 == number || !g.reaches(user, number) && !slices.Contains(user.Waits, number) {
			continue
		}
		if to, ok := transition.NextJob(user.state, e.Name); ok {
			user.state = to
		}
	}
}

// stops reports whether nothing of the group begins any more.
func (g *naiveGroup) stops() bool {
	return g.head.FailFast && slices.ContainsFunc(g.jobs, func(j *naiveJob) bool { return j.state == transition.JobFailed })
}

// reaches reports whether a job uses another, or as what it uses needs that to run.
func (g *naiveGroup) reaches(j *naiveJob, number int) bool {
	for _, u := range j.Uses {
		if u.Job == number || u.Job > 0 && g.carries(u.Job, number) {
			return true
		}
	}
	return false
}

// carries reports whether whoever uses a job needs another, too.
func (g *naiveGroup) carries(job, number int) bool {
	for _, u := range g.jobs[job-1].Uses {
		if u.Run && (u.Job == number || u.Job > 0 && g.carries(u.Job, number)) {
			return true
		}
	}
	return false
}

// waiting are the jobs that may be dispatched.
func (g *naiveGroup) waiting() (numbers []int) {
	for i, j := range g.jobs {
		if j.state == transition.Eligible {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// reusable reports whether there is an artifact of some inputs.
func (n *naive) reusable(inputs string) bool {
	for _, g := range n.order {
		for _, j := range g.jobs {
			if j.state == transition.Built && j.inputs == inputs && !n.gone[j.artifact] {
				return true
			}
		}
	}
	return false
}
