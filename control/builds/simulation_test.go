package builds_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/inventory"
)

// Random groups are built while workers come, go, lose jobs and are slow, artifacts are used again or get lost,
// dispatchers are killed, stopped and stand by, and people cancel and retry. The oracle reads the log.
func TestSimulatedBuilds(t *testing.T) {
	drawn := map[string]int{}
	for seed := range ringtest.Cases(40, 300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				s := &simulation{world: w, r: rand.New(rand.NewPCG(uint64(seed), 13))}
				w.shelf = &shelf{uneven: s.chance(50), there: map[string]bool{}, drawn: drawn}
				s.run()
			})
		})
	}
	for _, what := range []string{"reused", "mistaken", "spoiled"} {
		assert.NotEqual(t, 0, drawn[what], "no job was %s", what)
	}
}

// simulation is a world in which things happen at random.
type simulation struct {
	*world
	r           *rand.Rand
	dispatchers []*dispatcher
	groups      []string
}

// chance is true so many times in a hundred.
func (s *simulation) chance(percent int) bool { return s.r.IntN(100) < percent }

func (s *simulation) run() {
	hash := func(t build.Task) *rand.Rand { // independent of the order
		return rand.New(rand.NewPCG(uint64(t.Job)<<20+uint64(t.Attempt), uint64(len(t.Group))))
	}
	unreliable := s.chance(50)
	s.takes = func(t build.Task) time.Duration {
		if r := hash(t); r.IntN(20) > 0 {
			return time.Duration(r.IntN(5000)) * time.Millisecond
		}
		return time.Minute
	}
	s.ends = func(t build.Task) build.Result {
		switch n := hash(t).IntN(100); {
		case !unreliable, n >= 10:
			return s.shelf.make(t)
		case n < 2:
			return failed("it does not compile")
		default:
			return lost("it was killed by the system")
		}
	}
	s.hook = func(_ context.Context, t build.Task) *build.Result {
		if unreliable && hash(t).IntN(200) == 0 {
			panic("at random")
		}
		return nil
	}
	s.fleet()
	for range 120 {
		s.step()
		wait(time.Duration(s.r.IntN(3000)) * time.Millisecond)
	}
	s.settle()
	check(s.world)
}

func (s *simulation) step() {
	switch s.r.IntN(11) {
	case 0, 1:
		if len(s.groups) < 6 {
			s.groups = append(s.groups, s.submit("g", s.jobs(), func(b *build.Submit) { b.FailFast, b.NoReuse = s.chance(20), s.chance(50) }))
		}
	case 2:
		if len(s.dispatchers) < 3 {
			s.dispatchers = append(s.dispatchers, s.start())
		}
	case 3:
		if n := len(s.dispatchers); n > 0 {
			i := s.r.IntN(n)
			d := s.dispatchers[i]
			s.dispatchers = append(s.dispatchers[:i], s.dispatchers[i+1:]...)
			if s.chance(70) {
				d.Die()
			} else {
				close(d.Stop)
				wait(2 * time.Minute)
				d.Kill(nil)
			}
		}
	case 4:
		s.fleet()
	case 5:
		var down error
		if s.chance(50) {
			down = errDown
		}
		s.engine([]string{"a", "b", "c"}[s.r.IntN(3)], down)
	case 6:
		if n := len(s.groups); n > 0 && s.chance(40) {
			_, _ = s.builds.Command(context.Background(), build.Cancel{Group: s.groups[s.r.IntN(n)]})
		}
	case 7:
		if n := len(s.groups); n > 0 {
			_, _ = s.builds.Command(context.Background(), build.Retry{Group: s.groups[s.r.IntN(n)], FailedOnly: s.chance(50)})
		}
	case 8:
		s.set(func() { s.shelf.lose(s.r.IntN(1 << 20)) })
	}
}

func (s *simulation) fleet() {
	var hosts []inventory.Host
	for _, name := range []string{"a", "b", "c"} {
		if s.chance(70) {
			hosts = append(hosts, host(name, 4)) // of whom the slots change only when nothing runs there
		}
	}
	var err error
	if s.chance(10) {
		err = fmt.Errorf("line %d: no", s.r.IntN(9))
	}
	s.inventory(err, hosts...)
}

// jobs are some that use, and wait for, those before them.
func (s *simulation) jobs() (all []record.JobSpec) {
	for i := range 1 + s.r.IntN(30) {
		j := record.JobSpec{Package: fmt.Sprintf("p%d", i+1), Inputs: fmt.Sprintf("sha256:%064d", i%7)}
		for n := 1; n <= i; n++ {
			switch {
			case s.chance(15):
				j.Uses = append(j.Uses, record.Use{Package: fmt.Sprintf("p%d", n), Job: n, Run: s.chance(50)})
			case s.chance(3):
				j.Waits = append(j.Waits, n)
			}
		}
		all = append(all, j)
	}
	return all
}

// settle has everything end: all workers answer, and one dispatcher stays.
func (s *simulation) settle() {
	s.inventory(nil, host("a", 4), host("b", 4), host("c", 4))
	for _, name := range []string{"a", "b", "c"} {
		s.engine(name, nil)
	}
	ended := func() bool {
		return !slices.ContainsFunc(s.groups, func(id string) bool { return !s.state(id).Ended() })
	}
	d := s.start()
	for range 10 { // beside the others
		wait(time.Second)
	}
	for _, other := range s.dispatchers {
		other.Die()
	}
	for n := 0; n < 60 && !ended(); n++ {
		wait(time.Minute)
	}
	d.End()
}

// oracle reads a log as a person would, without knowing how dispatchers come to it.
type oracle struct {
	*world
	jobs             map[string][]record.JobSpec
	built            map[string]map[int]bool
	failed           map[string]map[int]bool // and is not tried again
	running          map[string]map[int]int  // the attempt
	attempts         map[string]map[int]int
	canceling, ended map[string]bool
	canceled         map[string]map[int]bool // and is not tried again
	noReuse          map[string]bool
	artifact         map[string]map[int]string // what a job has built last
	made             map[string]bool           // digests that somebody has built
}

// check complains of a log in which a job is built twice though its artifact is there, begins with another artifact
// than the last, before what it needs is built, beside itself or after a cancel, and of groups that have not ended or
// with jobs of which it is not known what became.
func check(w *world) {
	w.Helper()
	o := &oracle{
		world: w, jobs: map[string][]record.JobSpec{}, built: map[string]map[int]bool{}, failed: map[string]map[int]bool{}, running: map[string]map[int]int{}, attempts: map[string]map[int]int{},
		canceling: map[string]bool{}, ended: map[string]bool{}, canceled: map[string]map[int]bool{}, noReuse: map[string]bool{}, artifact: map[string]map[int]string{}, made: map[string]bool{},
	}
	for _, e := range w.Events() {
		id, job, ok := record.Parse(e.Target)
		if !ok {
			continue
		}
		switch e.Name {
		case record.GroupTriggered:
			o.built[id], o.failed[id], o.running[id], o.attempts[id] = map[int]bool{}, map[int]bool{}, map[int]int{}, map[int]int{}
			o.canceled[id], o.artifact[id], o.noReuse[id] = map[int]bool{}, map[int]string{}, record.Decode[record.Triggered](e).NoReuse
		case record.JobsCreated:
			o.jobs[id] = append(o.jobs[id], record.Decode[record.Jobs](e).Jobs...)
		case record.GroupCanceling:
			o.canceling[id] = true
		case record.GroupRetried:
			o.retries(id, record.Decode[record.Retried](e).FailedOnly)
		case record.GroupFinished, record.GroupFailed, record.GroupCanceled:
			o.ends(id, e.Name)
		case record.JobStarted:
			o.starts(id, job, e.Attempt)
		case record.JobFinished:
			o.finishes(id, job, record.Decode[record.Finished](e))
			delete(o.running[id], job)
		case record.JobSpoiled:
			assert.True(w, o.built[id][job], "the artifact of job %d of %s is missing, which is not built", job, id)
			o.built[id][job] = false
		case record.JobFailed:
			o.failed[id][job] = true
			delete(o.running[id], job)
		case record.JobDependentsFailed:
			for _, n := range record.Decode[record.DependentsFailed](e).Jobs {
				o.failed[id][n] = true
			}
		case record.JobLost, record.JobCanceled:
			delete(o.running[id], job)
		case record.GroupStalled:
			w.Errorf("%s is stalled: %s", id, e.Data)
		}
	}
	for id := range o.jobs {
		assert.True(w, o.ended[id], "%s has not ended: it tells", id)
	}
}

// retries has what failed be tried again. Where nothing else is, what was canceled stays that, unless it begins.
func (o *oracle) retries(id string, failedOnly bool) {
	failed := o.failed[id]
	o.canceling[id], o.ended[id], o.failed[id], o.canceled[id] = false, false, map[int]bool{}, map[int]bool{}
	for n := range o.jobs[id] {
		o.canceled[id][n+1] = failedOnly && !failed[n+1]
	}
}

func (o *oracle) starts(id string, job, attempt int) {
	what := "attempt " + strconv.Itoa(attempt) + " of job " + strconv.Itoa(job) + " of " + id
	switch {
	case o.canceling[id]:
		o.Errorf("%s begins after the cancel", what)
	case o.ended[id]:
		o.Errorf("%s begins after the end of the group", what)
	case o.built[id][job]:
		o.Errorf("%s begins, which is built", what)
	case o.running[id][job] > 0:
		o.Errorf("%s begins beside attempt %d", what, o.running[id][job])
	case attempt <= o.attempts[id][job]:
		o.Errorf("%s begins after attempt %d", what, o.attempts[id][job])
	}
	spec := o.jobs[id][job-1]
	for _, u := range spec.Uses {
		assert.True(o, u.Job <= 0 || o.built[id][u.Job], "%s begins before job %d is built", what, u.Job)
	}
	for _, n := range spec.Waits {
		if !o.built[id][n] && !o.failed[id][n] && !o.canceled[id][n] {
			o.Errorf("%s begins before job %d has ended, which it waits for", what, n)
		}
	}
	o.uses(id, job, attempt)
	o.canceled[id][job] = false
	o.running[id][job], o.attempts[id][job] = attempt, attempt
}

func (o *oracle) ends(id, how string) {
	assert.False(o, o.ended[id], "%s ends twice", id)
	o.ended[id] = true
	assert.Zero(o, len(o.running[id]), "%s: %s", id, how)
	built := 0
	for _, is := range o.built[id] {
		if is {
			built++
		}
	}
	if how == record.GroupFinished && built != len(o.jobs[id]) {
		o.Errorf("%s is complete, with %d of %d jobs", id, built, len(o.jobs[id]))
	}
}

type attempt struct {
	target deploylog.Target
	number int
}

// shelf is where the artifacts of a world are, for tests in which they may be missing.
type shelf struct {
	uneven bool            // equal inputs do not give equal artifacts
	there  map[string]bool // by digest
	drawn  map[string]int  // what happened, how often
}

// make is how a job ends that makes an artifact.
func (s *shelf) make(t build.Task) build.Result {
	r := built(t)
	if s.uneven {
		r.Finished.Artifact = fmt.Sprintf("sha256:%x", sha256.Sum256(fmt.Appendf(nil, "%s %s %d", t.Inputs, t.Target(), t.Attempt)))
	}
	return r
}

// begin is how a task ends for which there need not be a container: it takes what was built
// before, or misses something. nil is that it needs one.
func (s *shelf) begin(t build.Task) *build.Result {
	if t.Reuse != nil {
		artifact := t.Reuse.Finished.Artifact
		if !s.there[artifact] {
			s.drawn["mistaken"]++
			return &build.Result{Lost: &record.Lost{Cause: "what was built is gone", Mistaken: true, Spoiled: []string{artifact}}}
		}
		s.drawn["reused"]++
		return &build.Result{Finished: &record.Finished{Artifact: artifact, Reused: t.Reuse.Target()}}
	}
	var gone []string
	for _, d := range t.Uses {
		if d.Job > 0 && !s.there[d.Artifact] {
			gone = append(gone, d.Artifact)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	s.drawn["spoiled"]++
	return &build.Result{Lost: &record.Lost{Cause: "what it uses is gone", Spoiled: gone}}
}

func (s *shelf) lose(number int) {
	if all := slices.Sorted(maps.Keys(s.there)); len(all) > 0 {
		delete(s.there, all[number%len(all)])
	}
}

// uses complains of an attempt that begins with another artifact than the log says that the
// job has built last which it uses.
func (o *oracle) uses(id string, job, number int) {
	for _, d := range o.world.uses[attempt{record.Job(id, job), number}] {
		if d.Job > 0 && d.Artifact != o.artifact[id][d.Job] {
			o.Errorf("attempt %d of job %d of %s begins with %s of job %d, which has built %s", number, job, id, d.Artifact, d.Job, o.artifact[id][d.Job])
		}
	}
}

// finishes complains of a job that takes what no other has built, or is not to.
func (o *oracle) finishes(id string, job int, data record.Finished) {
	assert.False(o, o.built[id][job], "job %d of %s is built twice", job, id)
	if by, number, _ := record.Parse(data.Reused); data.Reused != "" {
		assert.True(o, !o.noReuse[id] && o.made[data.Artifact] && o.built[by] != nil &&
			number >= 1, "job %d of %s takes %s of %s", job, id, data.Artifact, data.Reused)
	}
	o.made[data.Artifact] = true
	o.built[id][job], o.artifact[id][job] = true, data.Artifact
}
