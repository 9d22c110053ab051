package build_test

import (
	"cmp"
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

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/internal/heap"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// distribution is a real build manifest of a distribution of Linux.
func distribution(t testing.TB) []record.JobSpec {
	t.Helper()
	text, err := os.ReadFile("plan/testdata/distribution.tsv")
	require.NoError(t, err)
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

// bound is how long it takes at least: as long as the longest path, and as all work on all
// workers. tight counts also that no job begins before what it needs, and none ends later
// than what needs it: whatever cannot begin before a time takes as much longer as its work
// on all workers, and then what follows the shortest way after any of it.
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
			if err != nil || expected.Left != took || expected.Measured != len(specs) {
				t.Errorf("%d workers, seed %d: it takes %s, and by the forecast %s, %v", workers, seed, took, expected.Left, err)
			}
			assert.LessOrEqual(t, took, simple, "%d workers, seed %d: it takes %s, and oldest first %s", workers, seed, took, simple)
			ratio := float64(took) / float64(tight)
			worst, sum, plain = max(worst, ratio), sum+ratio, max(plain, float64(took)/float64(least))
			gain += float64(simple) / float64(took)
		}
		t.Logf("%d workers: %.3f times what it takes at least, at worst %.3f; %.3f times the longest path or the work, at worst; oldest first takes %.3f times as long", workers, sum/float64(seeds), worst, plain, gain/float64(seeds))
		if worst > 1.05 {
			t.Errorf("%d workers: %.3f times what it takes at least", workers, worst)
		}
	}
}
