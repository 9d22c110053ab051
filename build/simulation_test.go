package build_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/heap"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// Whatever jobs fail, are lost or canceled, whenever the process dies, and however many end at once: what is counted is
// what all events say, no job begins before what it needs, none after a cancel, none twice, and every group ends.
func TestRandomSchedules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := simulate(t)
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			s.step()
			if n%5 == 0 {
				s.agrees()
			}
		}
		s.finish()
	})
}

func (s *simulated) step() {
	switch kind := rapid.IntRange(0, 19).Draw(s.t, "kind"); kind {
	case 0, 1:
		s.person(s.submit())
	case 2:
		s.person(build.Cancel{Group: s.some(), By: "ann"})
	case 3, 4:
		s.person(build.Retry{Group: s.some(), FailedOnly: kind == 3})
	case 5:
		s.crash()
	case 6:
		s.pass(rapid.IntRange(1, 2).Draw(s.t, "dies"))
	case 7:
		s.end(2, false, true, false)
	case 8:
		s.slots[amd], s.slots[arm] = rapid.IntRange(0, 4).Draw(s.t, "amd"), rapid.IntRange(0, 2).Draw(s.t, "arm")
	case 9:
		by := time.Duration(rapid.SampledFrom([]int64{-10, 1, 5, 100}).Draw(s.t, "time")) * time.Second
		if s.back = s.back || by < 0; by < 0 && s.latest.Before(s.now) {
			s.latest = s.now
		}
		s.now = s.now.Add(by)
	case 10:
		s.tooLate()
	case 11, 12, 13:
		s.end(rapid.IntRange(1, 4).Draw(s.t, "number"), false, kind == 11, true)
	case 14:
		s.explained()
	default:
		s.pass(0)
	}
}

func (s *simulated) tooLate() {
	s.follow()
	for _, t := range s.old {
		if j, err := s.state.Job(t.Group, t.Job); err == nil && (j.Attempt != t.Attempt || !j.State.InFlight()) {
			require.Empty(s.t, s.state.Ended(t, built(t), s.now))
		}
	}
}

// finish lets all be done, with enough workers.
func (s *simulated) finish() {
	s.slots = map[string]int{amd: 5, arm: 5}
	for round := 0; ; round++ {
		s.now = s.now.Add(100 * time.Second)
		for s.pass(0) {
			continue
		}
		if len(s.doing) == 0 {
			break
		}
		require.LessOrEqual(s.t, round, 5000, "it does not end")
		s.end(3, true, true, true)
	}
	s.agrees()
	for _, g := range s.state.Groups() {
		require.True(s.t, g.State.Ended(), "at the end group %s is %s", g.ID, g.State)
		if g.State == transition.Complete && g.Built != g.Jobs {
			s.t.Fatalf("group %s is complete with %d of %d jobs", g.ID, g.Built, g.Jobs)
		}
	}
	require.True(s.t, s.state.Idle(nil), "all groups have ended, and it is not idle")
	if s.settled != nil && s.late == 0 && s.faults == 0 {
		s.t.Fatalf("consequences were not recorded with what caused them: %s", s.settled)
	}
	s.kept()
}

// kept checks the log: nothing is dispatched after a cancel, and nothing that is built.
func (s *simulated) kept() {
	canceled, built := map[string]bool{}, map[string]bool{}
	for _, e := range s.log {
		target := string(e.Target)
		switch e.Name {
		case record.GroupCanceling:
			canceled[e.Deployment] = true
		case record.GroupRetried:
			canceled[e.Deployment] = false
		case record.JobFinished:
			built[target] = true
		case record.JobSpoiled:
			built[target] = false
		case record.JobStarted:
			require.False(s.t, canceled[e.Deployment], "%s is dispatched after its group was canceled", target)
			require.False(s.t, built[target], "%s is dispatched after it was built", target)
		}
	}
}

// simulated is a log that several write to, containers, and a process that dispatches jobs.
type simulated struct {
	t      *rapid.T
	log    []deploylog.Event
	unique map[string]int // events, by what they are unique by
	now    time.Time
	back   bool      // the clock was set back
	latest time.Time // that it was before that
	slots  map[string]int

	state      *build.State // of the process
	seen       int          // events that it has applied
	doing      []build.Task // by it
	containers map[string]build.Task
	old        []build.Task // whose end was recorded

	snapshot json.RawMessage // of the state, as it was at some time

	missing string   // the artifact that was last found to be
	uneven  bool     // equal inputs do not always give equal artifacts
	settled []string // events
	late    int      // results that were recorded without the newest events
	faults  int      // whatever may leave consequences to settle
}

func simulate(t *rapid.T) *simulated {
	s := &simulated{
		t: t, unique: map[string]int{}, now: start, slots: map[string]int{amd: 2, arm: 1}, containers: map[string]build.Task{},
		uneven: rapid.IntRange(0, 3).Draw(t, "uneven") == 0,
	}
	s.crash()
	return s
}

func (s *simulated) crash() {
	s.state, s.seen, s.doing = build.New(record.Entity), 0, nil
	if s.snapshot != nil && rapid.Bool().Draw(s.t, "from a snapshot") {
		restored := must.Get(build.Restore(record.Entity, s.snapshot))(s.t)
		s.state, s.seen = restored, int(restored.Head())
	}
	s.follow()
}

func (s *simulated) follow() {
	for ; s.seen < len(s.log); s.seen++ {
		s.state.Apply(s.log[s.seen])
	}
}

func (s *simulated) append(events []deploylog.Event, fact bool) {
	before := len(s.log)
	for _, e := range events {
		require.NoError(s.t, e.Validate(), "%s of %s", e.Name, e.Target)
		if s.there(e) {
			require.True(s.t, fact, "%s of %s, attempt %d, is in the log already", e.Name, e.Target, e.Attempt)
			s.single(events, before)
			return
		}
		s.note(e)
	}
}

// single records facts one by one, without those that are there already.
func (s *simulated) single(events []deploylog.Event, before int) {
	for _, e := range s.log[before:] {
		delete(s.unique, uniqueness(e))
	}
	s.log = s.log[:before]
	s.faults++
	for _, e := range events {
		if !s.there(e) {
			s.note(e)
		}
	}
}

func uniqueness(e deploylog.Event) string {
	return fmt.Sprint(e.Deployment, " ", e.Target, " ", e.Name, " ", e.Attempt)
}

func (s *simulated) there(e deploylog.Event) bool {
	_, there := s.unique[uniqueness(e)]
	return there
}

func (s *simulated) note(e deploylog.Event) {
	s.unique[uniqueness(e)] = len(s.log)
	e.Seq, e.CreatedAt = int64(len(s.log)+1), s.now
	s.log = append(s.log, e)
}

func (s *simulated) Worker(p record.Place) string {
	busy := 0
	for _, t := range s.doing {
		if t.Place.Platform == p.Platform {
			busy++
		}
	}
	if busy < s.slots[p.Platform] {
		return p.Platform
	}
	return ""
}

func (s *simulated) Resume(t build.Task) bool {
	return !slices.ContainsFunc(s.doing, func(o build.Task) bool { return same(o, t) })
}

func same(a, b build.Task) bool {
	return a.Group == b.Group && a.Job == b.Job && a.Attempt == b.Attempt
}

func containerOf(t build.Task) string { return fmt.Sprint(t.Target(), " ", t.Attempt) }

func (s *simulated) person(c build.Command) {
	state := build.New(record.Entity)
	for _, e := range s.log {
		state.Apply(e)
	}
	events, err := state.Propose(c, s.now)
	refused := (*refusal.Error)(nil)
	require.True(s.t, err == nil || errors.As(err, &refused), "%T is refused without a code: %v", c, err)
	if err == nil {
		s.append(events, false)
	}
}

// pass decides, and begins what may be done, unless the process dies before or after that is recorded.
func (s *simulated) pass(dies int) (any bool) {
	s.follow()
	n := fold(s.log)
	var steps []build.Step
	for step := range s.state.Decide(s.now, s) {
		steps = append(steps, step)
		s.promised(n, step)
		if step.Kind == build.Dispatch || step.Kind == build.Resume {
			s.doing = append(s.doing, step.Task)
		}
	}
	s.ordered(n, steps)
	if dies == 1 {
		s.crash()
		return true
	}
	for _, step := range steps {
		s.append(step.Events, false)
	}
	if dies == 2 {
		s.crash()
		return true
	}
	for _, step := range steps {
		if step.Kind == build.Dispatch {
			s.containers[containerOf(step.Task)] = step.Task
		}
		if step.Kind == build.Settle {
			for _, e := range step.Events {
				s.settled = append(s.settled, fmt.Sprintf("%s %s %s", e.Target, e.Name, e.Data))
			}
		}
	}
	s.follow()
	return len(steps) > 0
}

func (s *simulated) end(number int, good, follows, recorded bool) {
	if follows {
		s.follow()
	} else if s.seen < len(s.log) {
		s.late++
	}
	var events []deploylog.Event
	for range number {
		if len(s.doing) == 0 {
			break
		}
		k := rapid.IntRange(0, len(s.doing)-1).Draw(s.t, "ended")
		t := s.doing[k]
		s.doing = slices.Delete(s.doing, k, k+1)
		events = append(events, s.state.Ended(t, s.result(t, good), s.now)...)
		delete(s.containers, containerOf(t))
		s.old = append(s.old, t)
	}
	if !recorded {
		s.crash()
		return
	}
	s.append(events, true)
	s.follow()
}

func (s *simulated) result(t build.Task, good bool) build.Result {
	if _, ok := s.containers[containerOf(t)]; !ok {
		return build.Result{Lost: &record.Lost{Cause: "there is no container"}}
	}
	if t.Canceling || s.canceling(t) && rapid.Bool().Draw(s.t, "stopped") {
		return canceled
	}
	kind := rapid.IntRange(0, 11).Draw(s.t, "result")
	if !good {
		if r, bad := s.trouble(t, kind); bad {
			return r
		}
	}
	if t.Reuse != nil {
		return build.Result{Finished: &record.Finished{Artifact: t.Reuse.Finished.Artifact, Reused: t.Reuse.Target()}}
	}
	artifact := digest(t.Inputs)
	if s.uneven && kind > 8 {
		artifact += containerOf(t)
	}
	return build.Result{Finished: &record.Finished{Artifact: artifact, Took: time.Duration(kind) * time.Second}}
}

func (s *simulated) trouble(t build.Task, kind int) (r build.Result, bad bool) {
	missing := func(d build.Dependency) bool { return d.Artifact == s.missing }
	switch {
	case kind > 6 && slices.ContainsFunc(t.Uses, missing): // of several that run at once
		s.faults++
		return build.Result{Lost: &record.Lost{Cause: "it is gone, too", Spoiled: []string{s.missing}}}, true
	case kind == 0:
		return build.Result{Failed: &record.Failed{Cause: "exit 1"}}, true
	case kind == 1:
		return lost, true
	case kind == 2 && t.Reuse != nil:
		return build.Result{Lost: &record.Lost{Cause: "it is altered", Mistaken: true, Spoiled: []string{t.Reuse.Finished.Artifact}}}, true
	case kind == 3 && len(t.Uses) > 0:
		d := t.Uses[rapid.IntRange(0, len(t.Uses)-1).Draw(s.t, "gone")]
		s.missing = d.Artifact
		s.faults++
		return build.Result{Lost: &record.Lost{Cause: "it is gone", Spoiled: []string{d.Artifact}}}, true
	}
	return r, false
}

// canceling reports whether the process knows that a task is to be stopped.
func (s *simulated) canceling(t build.Task) bool {
	j, err := s.state.Job(t.Group, t.Job)
	return err == nil && j.State == transition.CancelPending
}

// submit makes a group of a few jobs, of a few kinds of inputs.
func (s *simulated) submit() build.Submit {
	draw := func(to int, what string) int { return rapid.IntRange(0, to).Draw(s.t, what) }
	c := build.Submit{Triggered: record.Triggered{Name: []string{"base", "apps"}[draw(1, "name")], MaxLost: draw(2, "max lost"), FailFast: draw(3, "fail fast") == 0, NoReuse: draw(4, "no reuse") == 0}}
	c.Places = []record.Place{{Platform: amd}, {Platform: arm}}
	if draw(9, "unbuildable") == 0 {
		c.Unbuildable = []record.Unbuildable{{Package: "x", Cause: "its plan is gone"}}
	}
	for i := range 1 + draw(9, "jobs") {
		spec := record.JobSpec{Package: fmt.Sprint("p", i), Inputs: fmt.Sprint(draw(3, "inputs")), Place: draw(4, "place") / 4}
		for k := range i {
			switch draw(5, "needs") {
			case 0:
				spec.Uses = append(spec.Uses, record.Use{Package: fmt.Sprint("p", k), Job: k + 1})
			case 1:
				spec.Uses = append(spec.Uses, record.Use{Package: fmt.Sprint("p", k), Job: k + 1, Run: true})
			case 2:
				spec.Waits = append(spec.Waits, k+1)
			}
		}
		c.Jobs = append(c.Jobs, spec)
	}
	return c
}

func (s *simulated) some() string {
	ids := map[string]bool{}
	for _, e := range s.log {
		ids[e.Deployment] = true
	}
	if len(ids) == 0 {
		return ""
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(ids))).Draw(s.t, "group")
}

func distribution(t testing.TB) []record.JobSpec {
	text := must.Get(os.ReadFile("plan/testdata/distribution.tsv"))(t)
	made := regexp.MustCompile(`^(.*)/[^/]*/N-([0-9]+)$`)
	var specs []record.JobSpec
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(strings.TrimSpace(line), "\t")
		s := record.JobSpec{Package: columns[0], Inputs: columns[1], Pass: len(specs) + 1}
		if len(columns) > 2 {
			for ident := range strings.SplitSeq(columns[2], ",") {
				if by := made.FindStringSubmatch(ident); by != nil {
					n, _ := strconv.Atoi(by[2])
					s.Uses = append(s.Uses, record.Use{Package: by[1], Job: n + 1})
				}
			}
		}
		specs = append(specs, s)
	}
	return specs
}

// alarm is when a job will have ended.
type alarm struct {
	at  time.Duration
	job int
}

// Before reports whether one comes before another.
func (a alarm) Before(o alarm) bool { return a.at < o.at || a.at == o.at && a.job < o.job }

// makespan builds a group with so many workers, and returns how long that takes.
func (f *fleet) makespan(c build.Submit, durations []time.Duration) time.Duration {
	f.do(c)
	var alarms heap.Heap[alarm]
	running, now := map[int]build.Task{}, time.Duration(0)
	for {
		known := len(f.doing)
		f.begin()
		for _, t := range f.doing[known:] {
			running[t.Job] = t
			alarms.Push(alarm{now + durations[t.Job-1], t.Job})
		}
		if len(alarms) == 0 {
			return now
		}
		a := alarms.Pop()
		now = a.at
		t := running[a.job]
		f.append(f.state.Ended(t, build.Result{Finished: &record.Finished{Artifact: t.Inputs, Took: durations[a.job-1]}}, start))
		for i := range f.doing {
			if f.doing[i].Job == a.job {
				f.doing = append(f.doing[:i], f.doing[i+1:]...)
				break
			}
		}
	}
}

// oldestFirst is how long it takes if the first job is dispatched of those that may be.
func oldestFirst(specs []record.JobSpec, durations []time.Duration, workers int) time.Duration {
	unmet, users := make([]int, len(specs)), make([][]int, len(specs))
	var may, alarms heap.Heap[alarm]
	for i, s := range specs {
		for _, u := range s.Uses {
			unmet[i]++
			users[u.Job-1] = append(users[u.Job-1], i)
		}
		if unmet[i] == 0 {
			may.Push(alarm{job: i})
		}
	}
	for now := time.Duration(0); ; {
		for len(alarms) < workers && len(may) > 0 {
			i := may.Pop().job
			alarms.Push(alarm{now + durations[i], i})
		}
		if len(alarms) == 0 {
			return now
		}
		a := alarms.Pop()
		now = a.at
		for _, user := range users[a.job] {
			if unmet[user]--; unmet[user] == 0 {
				may.Push(alarm{job: user})
			}
		}
	}
}

// bound is how long it takes at least: as long as the longest path, and as all work on all workers. tight counts also
// that no job begins before what it needs, and none ends later than what needs it: whatever cannot begin before a time
// takes as much longer as its work on all workers, and then what follows the shortest way after any of it.
func bound(specs []record.JobSpec, durations []time.Duration, workers int) (simple, tight time.Duration) {
	work, heads, tails := time.Duration(0), make([]time.Duration, len(specs)), make([]time.Duration, len(specs))
	for i, s := range specs {
		for _, u := range s.Uses {
			heads[i] = max(heads[i], heads[u.Job-1]+durations[u.Job-1])
		}
		simple, work = max(simple, heads[i]+durations[i]), work+durations[i]
	}
	for i := len(specs) - 1; i >= 0; i-- {
		for _, u := range specs[i].Uses {
			tails[u.Job-1] = max(tails[u.Job-1], tails[i]+durations[i])
		}
	}
	simple = max(simple, work/time.Duration(workers))
	tight = simple
	order := make([]int, len(specs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(tails[b], tails[a]) })
	for _, head := range heads {
		later := time.Duration(0)
		for _, i := range order { // those that begin not before head, by what follows them
			if heads[i] >= head {
				later += durations[i]
				tight = max(tight, head+later/time.Duration(workers)+tails[i])
			}
		}
	}
	return simple, tight
}

// A group whose jobs took as long before is built nearly as fast as it can be, and never
// slower than in the order of its jobs.
func TestTheLongestPathFirst(t *testing.T) {
	specs, seeds := distribution(t), ringtest.Cases(2, 10)
	for _, workers := range []int{8, 16, 32, 64} {
		worst, sum, plain, gain := 0.0, 0.0, 0.0, 0.0
		for seed := range seeds {
			random := rand.New(rand.NewPCG(uint64(seed), uint64(workers)))
			durations := make([]time.Duration, len(specs))
			for i := range durations {
				durations[i] = time.Duration((1 + 60*random.ExpFloat64()) * float64(time.Second))
			}
			c := group("base", specs...)
			c.Jobs, c.NoReuse = specs, true
			f := newFleet(workers)
			f.makespan(c, durations)
			took, simple := f.makespan(c, durations), oldestFirst(specs, durations, workers)
			least, tight := bound(specs, durations, workers)
			forecast := newFleet(workers)
			forecast.makespan(c, durations)
			forecast.do(c)
			expected, err := forecast.state.Forecast("base-2", start, func(record.Place) int { return workers })
			assert.True(t, err == nil && expected.Left == took && expected.Measured == len(specs),
				"%d workers, seed %d: it takes %s, and by the forecast %s, %v", workers, seed, took, expected.Left, err)
			assert.LessOrEqual(t, took, simple, "%d workers, seed %d: it takes %s, and oldest first %s", workers, seed, took, simple)
			ratio := float64(took) / float64(tight)
			worst, sum, plain = max(worst, ratio), sum+ratio, max(plain, float64(took)/float64(least))
			gain += float64(simple) / float64(took)
		}
		t.Logf("%d workers: %.3f times what it takes at least, at worst %.3f; %.3f times the longest path or the work, at worst; oldest first takes %.3f times as long", workers, sum/float64(seeds), worst, plain, gain/float64(seeds))
		assert.LessOrEqual(t, worst, 1.05, "%d workers", workers)
	}
}
