package build_test

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
)

func (s *simulated) promised(n *naive, step build.Step) {
	g := n.groups[step.Group]
	switch step.Kind {
	case build.Stalled:
		s.t.Fatalf("group %s is stalled: %s", step.Group, step.Cause)
	case build.Dispatch:
		j := g.jobs[step.Task.Job-1]
		switch {
		case !g.goes():
			s.t.Fatalf("job %d of %s is dispatched, which is %s", step.Task.Job, g.id, g.state)
		case j.state != transition.Eligible || !g.may(j):
			s.t.Fatalf("job %d of %s is dispatched, which is %s", step.Task.Job, g.id, j.state)
		case step.Task.Attempt != j.attempt+1:
			s.t.Fatalf("job %d of %s is dispatched as attempt %d after %d", step.Task.Job, g.id, step.Task.Attempt, j.attempt)
		case step.Task.Reuse == nil && !g.head.NoReuse && !s.uneven && n.reusable(step.Task.Inputs):
			s.t.Fatalf("job %d of %s is built although there is an artifact of the same inputs", step.Task.Job, g.id)
		case step.Task.Reuse != nil && (g.head.NoReuse || n.gone[step.Task.Reuse.Finished.Artifact]):
			s.t.Fatalf("job %d of %s is to use an artifact that it must not", step.Task.Job, g.id)
		}
		for _, d := range step.Task.Uses {
			if of := g.jobs[d.Job-1]; of.state != transition.Built || of.artifact != d.Artifact {
				s.t.Fatalf("job %d of %s is dispatched with artifact %s of job %d, which is %s", step.Task.Job, g.id, d.Artifact, d.Job, of.state)
			}
		}
		for i := range g.jobs {
			used := slices.ContainsFunc(step.Task.Uses, func(d build.Dependency) bool { return d.Job == i+1 })
			require.Equal(s.t, g.reaches(j, i+1), used)
		}
	default:
	}
}

func (s *simulated) backingOff(id string, number int) bool {
	for _, r := range s.state.Explain(record.Job(id, number), s.now, nil) {
		return r.Code == reason.Rests
	}
	return false
}

// ordered checks that all was dispatched that workers have room for, older groups first.
func (s *simulated) ordered(n *naive, steps []build.Step) {
	last, settling := -1, map[string]bool{}
	for _, step := range steps {
		settling[step.Group] = settling[step.Group] || step.Kind == build.Settle
		at := slices.IndexFunc(n.order, func(g *naiveGroup) bool { return g.id == step.Group })
		if step.Kind != build.Dispatch {
			continue
		}
		require.GreaterOrEqual(s.t, at, last, "group %s comes after a younger one", step.Group)
		last = at
	}
	for _, g := range n.order {
		for _, number := range g.waiting() {
			begun := slices.ContainsFunc(steps, func(step build.Step) bool {
				return step.Kind == build.Dispatch && step.Group == g.id && step.Task.Job == number
			})
			place := record.Place{Platform: []string{amd, arm}[g.jobs[number-1].Place]}
			if !begun && !settling[g.id] && s.Worker(place) != "" && !s.backingOff(g.id, number) {
				s.t.Fatalf("job %d of %s is not dispatched although a worker has room", number, g.id)
			}
		}
	}
}

// agrees checks what was counted against what all events say.
func (s *simulated) agrees() {
	s.follow()
	require.True(s.t, s.state.Sums(), "the counts of jobs do not sum up")
	n := fold(s.log)
	for i, sum := range s.state.Groups() {
		g := n.order[i]
		require.Equal(s.t, g.id, sum.ID, "group %s is %s, and by all events", sum.ID, sum.State)
		require.Equal(s.t, g.state, sum.State, "group %s is %s, and by all events", sum.ID, sum.State)
		jobs, _ := s.state.Jobs(g.id)
		counts := map[transition.Job]int{}
		for k, j := range jobs {
			require.Equal(s.t, g.jobs[k].state, j.State, "job %d", k+1)
			require.Equal(s.t, g.jobs[k].attempt, j.Attempt, "job %d", k+1)
			counts[j.State]++
		}
		require.Equal(s.t, sum.Counts, counts)
	}
	again := build.New(record.Entity)
	for _, e := range s.log {
		again.Apply(e)
	}
	for range s.state.Decide(s.now, s) {
		break // whoever decides does not change anything
	}
	s.keepsSnapshot()
	if got, want := s.decided(s.state), s.decided(again); !slices.Equal(got, want) {
		s.t.Fatalf("it decides\n%q\nand by all events\n%q", got, want)
	}
	require.Equal(s.t, s.state.Comparable(), again.Comparable(), "folding all events again gives another state")
	s.crash2()
}

// crash2 goes on with what was not cleared for the comparison.
func (s *simulated) crash2() {
	doing := s.doing
	s.crash()
	s.doing = doing
}

// explained checks that whatever does not move has a reason, and that this is the one.
func (s *simulated) explained() {
	s.follow()
	workers := func(p record.Place) []build.Worker {
		return []build.Worker{{Name: p.Platform, Slots: s.slots[p.Platform]}}
	}
	steps := map[string]bool{}
	for range s.lost() {
		return // what was begun and is not being done takes no slots yet
	}
	for step := range s.state.Decide(s.now, idle{s}) {
		if step.Kind == build.Settle {
			return
		}
		steps[string(step.Task.Target())] = steps[string(step.Task.Target())] || step.Kind == build.Dispatch
	}
	for _, g := range s.state.Groups() {
		codes := map[string]reason.Code{}
		for _, r := range s.state.Explain(record.Group(g.ID), s.now, workers) {
			require.NotEmpty(s.t, r.Message, "%s is %s without a text", r.Target, r.Code)
			require.NotEmpty(s.t, r.Change, "%s is %s without a text", r.Target, r.Code)
			if codes[r.Target] == "" {
				codes[r.Target] = r.Code
			}
		}
		if codes["group/"+g.ID] == "" && g.State != transition.Complete && g.State != transition.Dispatching {
			s.t.Fatalf("nothing says why group %s is %s", g.ID, g.State)
		}
		jobs, _ := s.state.Jobs(g.ID)
		for _, j := range jobs {
			target := string(record.Job(g.ID, j.Number))
			code := codes[target]
			require.Equal(s.t, (j.State == transition.Built), (code == ""), "job %d of %s is %s since %q", j.Number, g.ID, j.State, code)
			if (code == reason.Ready) != steps[target] {
				s.t.Fatalf("job %d of %s is %s since %q, that it may be dispatched is %t", j.Number, g.ID, j.State, code, steps[target])
			}
		}
	}
}

func (s *simulated) lost() (all []build.Task) {
	for step := range s.state.Decide(s.now, s) {
		if step.Kind == build.Resume {
			all = append(all, step.Task)
		}
	}
	return all
}

// idle is what a process can that does not begin what it may.
type idle struct{ *simulated }

func (idle) Resume(build.Task) bool { return false }

// naive is what follows from all events of a log, found without any counting: whatever is asked is looked up in all jobs.
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
	state            transition.Job
	attempt          int
	artifact, inputs string
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

// may reports whether a job may be dispatched, as far as others go: all that it uses is Built, also what that needs to run.
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

func (g *naiveGroup) carries(job, number int) bool {
	for _, u := range g.jobs[job-1].Uses {
		if u.Run && (u.Job == number || u.Job > 0 && g.carries(u.Job, number)) {
			return true
		}
	}
	return false
}

func (g *naiveGroup) waiting() (numbers []int) {
	for i, j := range g.jobs {
		if j.state == transition.Eligible {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

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
