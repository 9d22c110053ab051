package targets_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/targets"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// world is some hosts, and what they run.
type world struct {
	*testing.T
	*targets.Observed
	inbox chan func()

	mu      sync.Mutex
	hosts   []string
	trouble error               // with the inventory
	runs    map[string][]string // revisions for which all is VALID, by host
	silent  map[string]bool     // hosts that do not answer
	slow    time.Duration       // what an answer takes; 0 is answers
	broken  map[string]bool     // "HOST REVISION" that cannot be asked about
	state   map[string]map[string]any
	asked   int
	most    int // at once
	asking  int
	watches map[string]func()
	begun   int           // watches
	breaks  chan struct{} // closed to end all watches

	readFrom string // where the revision is read from the state; "" is not at all
}

// answers is how long a look at a host takes.
const answers = 10 * time.Millisecond

func inWorld(t *testing.T, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, inbox: make(chan func(), 100), runs: map[string][]string{}, silent: map[string]bool{}, broken: map[string]bool{}, state: map[string]map[string]any{}, watches: map[string]func(){}, breaks: make(chan struct{})}
		w.Observed = targets.New(targets.Options{
			Engines: w, Parallelism: 2, Now: time.Now, Changed: func(string) {},
			Selected: func(string) ([]string, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return append([]string{}, w.hosts...), w.trouble
			},
			Go: func(job func(context.Context) func()) func() {
				ctx, end := context.WithCancel(t.Context())
				go job(ctx)
				return end
			},
			Post: func(f func()) { w.inbox <- f },
		})
		test(w)
		w.Leave("hosts:shop/prod")
		synctest.Wait()
	})
}

func (w *world) ObserveTarget(ctx context.Context, q targets.Question) (tasks.ProbeResult, map[string]any) {
	w.mu.Lock()
	w.asked++
	w.asking++
	w.most = max(w.most, w.asking)
	silent, took := w.silent[q.Task.Host], cmp.Or(w.slow, answers)
	w.mu.Unlock()
	if silent {
		took = 30 * time.Second
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asking--
	if ctx.Err() != nil {
		return tasks.ProbeResult{Health: tasks.Unknown, Detail: "it was ended"}, nil
	}
	if silent {
		return tasks.ProbeResult{Health: tasks.Unknown, Detail: "host " + q.Task.Host + ": no answer within 30s"}, nil
	}
	revision := promotion.TextOf(q.Task.Spec.Vars["version"])
	if w.broken[q.Task.Host+" "+revision] {
		return tasks.ProbeResult{Health: tasks.Unknown, Detail: "its type failed"}, nil
	}
	if slices.Contains(w.runs[q.Task.Host], revision) {
		return tasks.ProbeResult{Health: tasks.Healthy}, w.state[q.Task.Host]
	}
	return tasks.ProbeResult{Health: tasks.Drifted, Detail: "web is not as configured"}, w.state[q.Task.Host]
}

func (w *world) Watch(ctx context.Context, host string, changed func()) {
	w.mu.Lock()
	w.watches[host] = changed
	w.begun++
	breaks := w.breaks
	w.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-breaks:
	}
	w.mu.Lock()
	delete(w.watches, host)
	w.mu.Unlock()
}

func (w *world) set(change func()) { w.mu.Lock(); defer w.mu.Unlock(); change() }

func (w *world) use(revisions ...string) {
	s := targets.Stage{
		Pipeline: "shop", Name: "prod", Place: "hosts:shop/prod", Variable: "version",
		Targets: definition.Targets{Manifest: "m", Hosts: "all", CheckEvery: definition.Duration(time.Minute), Revision: w.readFrom},
	}
	for _, r := range revisions {
		revision, former := strings.CutPrefix(r, "former ")
		s.Candidates = append(s.Candidates, promotion.Candidate{Revision: revision, Former: former})
	}
	w.Use(s)
}

func (w *world) after(d time.Duration) (promotion.Sighting, bool) {
	<-time.After(d)
	synctest.Wait()
	for {
		select {
		case f := <-w.inbox:
			f()
		default:
			return w.Seen("hosts:shop/prod")
		}
	}
}

func (w *world) wants(d time.Duration, want string) {
	seen, ok := w.after(d)
	text := seen.Why
	for _, h := range seen.Hosts {
		what := h.Revision
		switch {
		case h.Unknown:
			what = "unknown, " + h.Why
		case h.Revision == "":
			what = "none, " + h.Why
		}
		text += fmt.Sprintf("%s: %s. ", h.Host, what)
	}
	text = strings.TrimSpace(text)
	require.True(w, ok && text == want, "seen, %t: %s\nwant: %s", ok, text, want)
}

func TestHostsRunTheRevisionForWhichAllIsValid(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hosts = []string{"a", "b", "c"}
		w.runs = map[string][]string{"a": {"1"}, "b": {"2"}, "c": {"7"}}
		w.use("1", "2")
		w.wants(time.Second, "a: 1. b: 2. c: none, for revision 1: web is not as configured; for revision 2: web is not as configured.")
		assert.LessOrEqual(t, w.most, 2, "asked at once")
	})
}

func TestOnlyAHostThatRunsNoOtherRevisionIsAskedAboutTheFormerOne(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hosts = []string{"a", "b"}
		w.runs = map[string][]string{"a": {"2"}, "b": {"1"}}
		w.use("2", "former 1")
		w.wants(time.Second, "a: 2. b: 1.")
		w.set(func() { w.runs["a"], w.runs["b"] = []string{"1", "2"}, []string{"2"} })
		w.wants(time.Minute, "a: 2. b: 2.")
		w.set(func() { w.runs["a"] = []string{"1"} })
		w.wants(time.Minute, "a: 1. b: 2.")
	})
}

func TestAManifestThatIsValidForTwoRevisionsTellsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hosts = []string{"a"}
		w.runs["a"] = []string{"1", "2"}
		w.use("1", "2")
		w.wants(time.Second, "a: unknown, all resources are VALID for revision 1 and 2 alike, so the manifest does not tell them apart: it must read the variable version where the revision shows.")
	})
}

func TestWithoutAHostNothingIsKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.use("1")
		w.wants(time.Second, "all selects no host")
		w.set(func() { w.trouble = errors.New("inventory.yaml:3: no name") })
		w.wants(time.Minute, "inventory.yaml:3: no name")
		w.set(func() {
			w.trouble = nil
			for i := range 1001 {
				w.hosts = append(w.hosts, fmt.Sprint("h", i))
			}
		})
		w.wants(time.Minute, "all selects 1001 hosts, and at most 1000 of a stage are observed")
		w.set(func() { w.hosts = []string{"a"} })
		w.use()
		w.wants(time.Minute, "no revision is known yet that they could run")
	})
}

func TestAHostThatIsRemovedOrDoesNotAnswerMeanwhileDoesNotStayAsItWas(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hosts = []string{"a", "b"}
		w.runs = map[string][]string{"a": {"1"}, "b": {"1"}}
		w.use("1")
		w.wants(time.Second, "a: 1. b: 1.")
		w.set(func() { w.silent["b"] = true })
		w.wants(2*time.Minute, "a: 1. b: unknown, for revision 1: host b: no answer within 30s.")
		w.set(func() { w.hosts = []string{"a"} })
		w.wants(2*time.Minute, "a: 1.")
		assert.Equal(t, []string{"a"}, slices.Collect(maps.Keys(w.watches)))
	})
}

func TestWhatCannotBeAskedAboutDoesNotHideWhatRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hosts = []string{"a", "b"}
		w.runs["a"] = []string{"2"}
		w.broken = map[string]bool{"a 1": true, "b 1": true}
		w.use("1", "2")
		w.wants(time.Second, "a: 2. b: unknown, for revision 1: its type failed.")
	})
}

func TestHostsAreLookedAtWhenSomethingHappensThere(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hosts = []string{"a"}
		w.use("1")
		w.wants(time.Second, "a: none, for revision 1: web is not as configured.")
		before := 0
		w.set(func() {
			before = w.asked
			w.runs["a"] = []string{"1"}
			for range 100 {
				w.watches["a"]()
			}
		})
		w.wants(5*time.Second, "a: 1.")
		assert.LessOrEqual(t, w.asked-before, 2, "looks at what happened at once")
	})
}

func TestAnotherRevisionIsLookedForAtOnceAndNothingIsKnownBefore(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hosts = []string{"a"}
		w.runs["a"] = []string{"2"}
		w.use("1")
		w.wants(time.Second, "a: none, for revision 1: web is not as configured.")
		w.use("1", "2")
		_, ok := w.Seen("hosts:shop/prod")
		assert.False(t, ok, "what was seen counts for another revision")
		w.wants(100*time.Millisecond, "a: 2.")
		before := w.asked
		w.use("2", "1") // which is the same
		w.after(time.Second)
		assert.Equal(t, before, w.asked, "it looks again for the same")
	})
}

func TestNothingIsObservedThatNobodyUses(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hosts = []string{"a"}
		w.use("1")
		w.after(time.Second)
		w.Leave("hosts:shop/prod")
		w.after(time.Second)
		before := w.asked
		_, ok := w.after(time.Hour)
		assert.False(t, ok)
		assert.Equal(t, before, w.asked)
		assert.Empty(t, w.watches)
		w.use("1") // and again
		_, ok = w.after(time.Second)
		assert.True(t, ok)
	})
}

func TestTheRevisionIsReadFromTheState(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hosts, w.readFrom = []string{"a"}, "resources.web.tag"
		w.use()
		w.wants(time.Second, "a: none, web does not exist.")
		for _, tc := range []struct {
			state map[string]any
			runs  []string
			want  string
		}{
			{map[string]any{"tag": "7"}, []string{"7"}, "a: 7."},
			{map[string]any{"tag": int64(7)}, []string{"7"}, "a: 7."},
			{map[string]any{"tag": "7"}, nil, `a: none, revision "7" is not as its manifest says: web is not as configured.`},
			{map[string]any{}, nil, "a: none, the state of web has no tag."},
			{map[string]any{"tag": []any{"7"}}, nil, "a: none, tag of web is no text or number that can be a revision."},
			{map[string]any{"tag": ""}, nil, "a: none, tag of web is no text or number that can be a revision."},
			{map[string]any{"tag": strings.Repeat("x", 1000)}, nil, "a: none, tag of web is no text or number that can be a revision."},
			{map[string]any{"tag": "7\x1b[31m"}, nil, "a: none, tag of web is no text or number that can be a revision."},
		} {
			w.set(func() { w.state["a"], w.runs["a"] = tc.state, tc.runs })
			w.wants(time.Minute+time.Second, tc.want)
		}
		w.set(func() { w.silent["a"] = true })
		w.wants(2*time.Minute, "a: unknown, host a: no answer within 30s.")
		w.use("7")
		w.set(func() { w.silent["a"], w.state["a"], w.runs["a"] = false, map[string]any{"tag": "8"}, []string{"8"} })
		w.wants(2*time.Minute, "a: 8.")
	})
}

// However many hosts do not answer, about however many revisions: that is known soon, and the same is said of it each time.
func TestHostsThatDoNotAnswerAreSoonUnknown(t *testing.T) {
	inWorld(t, func(w *world) {
		want := ""
		for i := range 300 {
			host := fmt.Sprintf("h%03d", i)
			w.hosts = append(w.hosts, host)
			what := "unknown, it did not answer, and was not asked again, for others do not answer, either"
			if i%3 == 0 {
				w.runs[host] = []string{"1"}
				what = "1"
			} else {
				w.silent[host] = true
				if i < 6 {
					what = "unknown, for revision 1: host " + host + ": no answer within 30s"
				}
			}
			want += host + ": " + what + ". "
		}
		w.use("1", "2", "3")
		_, ok := w.after(2 * time.Minute)
		require.True(t, ok, "a look at hosts that do not answer takes longer")
		w.after(3 * time.Hour)
		w.wants(5*time.Minute, strings.TrimSpace(want))
		w.wants(5*time.Minute, strings.TrimSpace(want))
		w.set(func() {
			clear(w.silent)
			for _, host := range w.hosts {
				w.runs[host] = []string{"1"}
			}
		})
		w.wants(3*time.Minute, strings.Join(w.hosts, ": 1. ")+": 1.")
	})
}

// A host that answers slowly, about many revisions, holds up the look for a minute at most.
func TestAHostThatAnswersSlowlyIsUnknown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hosts, w.slow = []string{"a"}, 19*time.Second
		w.use("1", "2", "3", "4", "5")
		w.wants(61*time.Second, "a: unknown, host a has not answered about all revisions within 1m0s.")
		w.set(func() { w.slow, w.runs["a"] = 11*time.Second, []string{"5"} })
		w.wants(5*time.Minute, "a: 5.")
	})
}

// A watch that has ended by itself, such as with the connection of its host, begins again with the
// next look, and is the only one of its host.
func TestAWatchThatHasEndedBeginsAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hosts = []string{"a"}
		w.use("1")
		w.wants(time.Second, "a: none, for revision 1: web is not as configured.")
		w.set(func() { close(w.breaks); w.breaks = make(chan struct{}) })
		w.after(2 * time.Second)
		w.set(func() { assert.Empty(t, w.watches) })
		w.after(time.Minute)
		w.set(func() {
			require.True(t, w.begun == 2 && w.watches["a"] != nil, "%d watches have begun, and %d are under way", w.begun, len(w.watches))
			w.runs["a"] = []string{"1"}
			w.watches["a"]()
		})
		w.wants(5*time.Second, "a: 1.")
		w.after(time.Hour)
		w.set(func() { assert.Equal(t, 2, w.begun) })
	})
}
