package runs_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner/report"
)

// engineSite is a site with several engines, on each of which runs come and go.
type engineSite struct {
	*site
	engines map[string]*enginetest.Fake // by address

	mu    sync.Mutex
	away  map[string]error // why an engine can not be asked, by address
	ended map[string]bool  // nothing on it can exist any more
	asked int              // how often one was opened
}

func newEngineSite(t *testing.T) *engineSite {
	return &engineSite{
		site: newSite(t), engines: map[string]*enginetest.Fake{"one": {}, "two": {}, "three": {}},
		away: map[string]error{}, ended: map[string]bool{},
	}
}

// at is what a run on one of the engines knows of all. It is a runs.Engines.
type at struct {
	*engineSite
	address string
}

func (a at) Used(context.Context) runs.EngineUsed {
	return runs.EngineUsed{Kind: "fake", Address: a.address}
}

func (a at) ID(context.Context) (string, error) { return "", nil }

func (a at) Open(ctx context.Context, used runs.EngineUsed) (runs.Containers, func(), error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	switch e := a.engines[used.Address]; {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case a.ended[used.Address]:
		return nil, nil, nil
	case a.away[used.Address] != nil:
		return nil, nil, a.away[used.Address]
	case e == nil:
		return nil, nil, errors.New("there is no such engine")
	default:
		return e, nil, nil
	}
}

func (s *engineSite) beginAt(address, id string) *runs.Run {
	return s.begin(id, func(o *runs.Options) { o.Engine, o.Engines = s.engines[address], at{s, address} })
}

// diedAt is a run on an engine that started an action of db and is no more. Its container runs until end.
func (s *engineSite) diedAt(address, id string) (end func(int)) {
	s.startedAt(address, id, true).End()
	_, end = s.engines[address].Leave(s.labels(id, "create"))
	return end
}

func (s *engineSite) startedAt(address, id string, acting bool) *runs.Run {
	r := s.beginAt(address, id)
	s.record(r, report.Event{Kind: report.RunStarted, Data: map[string]string{"user": "anna", "host": "desk"}},
		report.Event{Kind: report.ResourceStarted, Resource: "db"})
	if acting {
		s.record(r, report.Event{Kind: report.ActionStarted, Resource: "db", Action: "create", Attempt: 1})
	}
	return r
}

func (s *engineSite) enterAt(r *runs.Run, resource string, waiting func(string)) (waits []string, err error) {
	leave, err := r.Enter(s.Context(), resource, func(text string) {
		waits = append(waits, text)
		if waiting != nil {
			waiting(text)
		}
	})
	if err == nil {
		leave()
	}
	return waits, err
}

func (s *engineSite) wantClosed() {
	s.wantEnded("run/web.yaml", "resource/db", "action/db/create")
	for address, e := range s.engines {
		left := must.Get(e.Containers(context.Background(), nil))(s)
		assert.Empty(s, left, "left on engine %s: %v", address, left)
	}
}

func TestTheEngineOfADeadRunIsAsked(t *testing.T) {
	noAnswer := errors.New("it does not answer\nat all")
	for name, tc := range map[string]struct {
		before func(*engineSite) (end []func(int))
		waits  []string // what the next run, on engine two, waits for
		held   []string // what it says that it is held by
		story  string   // what becomes of the action of the run A
	}{
		"its action runs": {
			before: func(s *engineSite) []func(int) { return []func(int){s.diedAt("one", "A")} },
			waits:  []string{`action "create" that run A left running on fake at one`},
			story:  "action-failed action/db/create abandoned exit 3",
		},
		"its action has ended": {
			before: func(s *engineSite) []func(int) { s.diedAt("one", "A")(0); return nil },
			story:  "action-finished-successfully action/db/create abandoned exit 0",
		},
		"its container is gone": {
			before: func(s *engineSite) []func(int) { s.startedAt("one", "A", true).End(); return nil },
			story:  "action-failed action/db/create abandoned",
		},
		"it is that of the next run": {
			before: func(s *engineSite) []func(int) { return []func(int){s.diedAt("two", "A")} },
			waits:  []string{`action "create" that run A left running`},
			story:  "action-failed action/db/create abandoned exit 3",
		},
		"it does not answer": {
			before: func(s *engineSite) []func(int) { s.diedAt("one", "A"); s.away["one"] = noAnswer; return nil },
			held:   []string{"run A", "begun 20", "by anna on desk", `action "create" of db`, "fake at one", "it does not answer\n", "--abandon A"},
		},
		"it does not answer, and nothing acted": {
			before: func(s *engineSite) []func(int) {
				s.startedAt("one", "A", false).End()
				s.away["one"] = noAnswer
				return nil
			},
		},
		"it does not answer, and its machine was started anew": {
			before: func(s *engineSite) []func(int) {
				s.startedAt("one", "A", true).End()
				s.ended["one"] = true
				return nil
			},
			story: "action-failed action/db/create abandoned",
		},
		"it does not answer, and the run is abandoned": {
			before: func(s *engineSite) []func(int) {
				s.startedAt("one", "A", true).End()
				s.away["one"] = noAnswer
				require.NoError(s, runs.Abandon(s.Context(), s.log, "A", map[string]string{"user": "anna"}))
				return nil
			},
			story: "action-failed action/db/create abandoned",
		},
		"it answers, and the run is abandoned": { // what can be known need not be believed
			before: func(s *engineSite) []func(int) {
				end := s.diedAt("one", "A")
				require.NoError(s, runs.Abandon(s.Context(), s.log, "A", nil))
				return []func(int){end}
			},
			waits: []string{`action "create" that run A left running on fake at one`},
			story: "action-failed action/db/create abandoned exit 3",
		},
		"a process that serves is there": {
			before: func(s *engineSite) []func(int) {
				s.startedAt("one", "A", true).End()
				_, end := s.engines["one"].Leave(s.serving("A"))
				return []func(int){end}
			},
			waits: []string{"an action that run A left running in a process that serves on fake at one"},
			story: "action-failed action/db/create abandoned",
		},
		"of two dead runs, and of the one that found them and died": {
			before: func(s *engineSite) []func(int) {
				a := s.diedAt("one", "A")
				b := s.diedAt("three", "B")
				s.startedAt("two", "C", false).End()
				return []func(int){a, b}
			},
			waits: []string{"run A left running on fake at one", "run B left running on fake at three"},
			story: "action-failed action/db/create abandoned exit 3",
		},
		"one of two does not answer": {
			before: func(s *engineSite) []func(int) {
				s.diedAt("three", "B")(0)
				s.diedAt("one", "A")
				s.away["one"] = noAnswer
				return nil
			},
			held: []string{"run A"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newEngineSite(t)
			ends := tc.before(s)
			r := s.beginAt("two", "next")
			defer r.End()
			waits, err := s.enterAt(r, "db", func(string) { ends[0](3); ends = ends[1:] })
			require.Len(t, waits, len(tc.waits), "it waited for %q, %v", waits, err)
			for i, text := range tc.waits {
				assert.True(t, strings.HasSuffix(waits[i], text))
			}
			var held *runs.HeldError
			got := errors.As(err, &held)
			require.True(t, got == (tc.held != nil) && (err == nil || got), "held: %v", err)
			if tc.held != nil {
				for _, text := range tc.held {
					assert.Contains(t, err.Error(), text, "held: %v does not say %q", err, text)
				}
				assert.Len(t, s.story("A"), 3)
				_, err = s.enterAt(r, "other", nil)
				assert.NoError(t, err, "another resource")
				return
			}
			story := s.story("A")
			assert.True(t, tc.story == "" || slices.Contains(story, tc.story), "the log tells %v, not %q", story, tc.story)
			s.wantClosed()
		})
	}
}

// Several applies may find a dead run at once, and one more may die of it.
func TestSeveralRunsThatRecoverAtOnceRecordOneEnd(t *testing.T) {
	s := newEngineSite(t)
	end := s.diedAt("one", "A")
	died := s.beginAt("two", "died")
	ctx, kill := context.WithCancel(t.Context())
	require.Error(t, must.Fail(died.Enter(ctx, "db", func(string) { kill() })), "it entered while the action ran")
	died.End()
	waits := make(chan string, 100)
	var all sync.WaitGroup
	for id, address := range map[string]string{"B": "one", "C": "two", "D": "three", "E": "two", "F": "one"} {
		all.Go(func() {
			r := s.beginAt(address, id)
			defer r.End()
			leave, err := r.Enter(t.Context(), "db", func(text string) { waits <- text })
			if err != nil {
				t.Error(err)
				return
			}
			leave()
		})
	}
	for text := range waits {
		if strings.Contains(text, "left running") {
			break
		}
	}
	end(0)
	all.Wait()
	ends := 0
	for _, line := range s.story("A") {
		if strings.HasPrefix(line, "action-f") {
			ends++
		}
	}
	assert.Equal(t, 1, ends)
	assert.Contains(t, s.story("A"), "action-finished-successfully action/db/create abandoned exit 0")
	s.wantClosed()
}

// Logs of versions that did not record the engine whole name it for people.
func TestAnOldLogTellsOfTheEngineWhatItCan(t *testing.T) {
	s := newSite(t)
	r := s.begin("A")
	s.record(r, report.Event{Kind: report.RunStarted, Data: map[string]string{
		"engine": "docker 20.10.24", "engine_address": "tcp://there:2376", "host": "desk", "user": "anna",
	}}, report.Event{Kind: report.ResourceStarted, Resource: "db"}, report.Event{Kind: report.ActionStarted, Resource: "db", Action: "create", Attempt: 1})
	r.End()
	want := runs.EngineUsed{Kind: "docker", Address: "tcp://there:2376", Host: "desk", User: "anna"}
	for _, target := range []deploylog.Target{"run/web.yaml", "resource/db", ""} {
		found, err := runs.UnfinishedRuns(t.Context(), s.log, target)
		if err != nil || len(found) != 1 || found[0].Run != "A" || found[0].Used != want || found[0].Alive || !slices.Equal(found[0].Acting, []runs.Acting{{Resource: "db", Action: "create"}}) {
			t.Errorf("unfinished at %q: %+v, %v", target, found, err)
		}
	}
}

func TestOnlyADeadRunThatHasNoEndIsAbandoned(t *testing.T) {
	s := newSite(t)
	s.died("dead")
	alive := s.begin("alive")
	defer alive.End()
	s.wantStory("dead", closed...)
	s.record(alive, report.Event{Kind: report.RunStarted})
	for run, want := range map[string]error{"dead": runs.ErrRunEnded, "alive": runs.ErrRunAlive, "none": runs.ErrNoSuchRun, "": runs.ErrNoSuchRun} {
		assert.ErrorIs(t, runs.Abandon(t.Context(), s.log, run, nil), want, run)
	}
	s.died("later")
	for range 2 {
		assert.NoError(t, runs.Abandon(t.Context(), s.log, "later", map[string]string{"user": "anna"}))
	}
	assert.Contains(t, s.story("later"), "run-abandoned run/web.yaml")
}

// A run asks an engine once, however many of its resources a dead run left.
func TestAnEngineThatDoesNotAnswerIsAskedOnce(t *testing.T) {
	s := newEngineSite(t)
	s.diedAt("one", "A")
	s.away["one"] = engine.ErrUnavailable
	r := s.beginAt("two", "next")
	defer r.End()
	for range 3 {
		assert.ErrorIs(t, must.Fail(s.enterAt(r, "db", nil)), engine.ErrUnavailable)
	}
	assert.Equal(t, 1, s.asked)
}

// An action of which the engine does not say that it ended has no end in the log, though its run has seen it fail.
func TestAnActionWhoseEndWasNotSeenHasNoEnd(t *testing.T) {
	for _, tc := range map[string]struct {
		gone, left bool
		exit       *int
		lost       bool
	}{
		"the engine has no such container":      {},
		"the engine has it, and it runs":        {left: true, lost: true},
		"the engine does not answer":            {gone: true, lost: true},
		"it has ended, whatever the engine has": {gone: true, left: true, exit: new(int)},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			e := &looks{Fake: s.engine}
			r := s.begin("A", func(o *runs.Options) { o.Engine = e })
			s.record(r, append(acting("create"), report.Event{Kind: report.ResourceStarted, Resource: "web"})...)
			end := func(int) {}
			if tc.left {
				_, end = s.engine.Leave(s.labels("A", "create"))
			}
			if tc.gone {
				e.err = engine.ErrUnavailable
			}
			s.record(r, report.Event{Kind: report.ActionFailed, Resource: "db", Action: "create", Attempt: 1, Exit: tc.exit, Error: "it broke"},
				report.Event{Kind: report.ResourceFailed, Resource: "db", Error: "it broke"}, report.Event{Kind: report.ResourceFailed, Resource: "web"})
			ending := map[bool]string{true: "lost", false: "failed"}[tc.lost]
			if tc.lost && !tc.left { // while the run is there, nobody can know
				b := s.begin("B")
				_, err := b.Enter(t.Context(), "db", func(string) {})
				assert.ErrorContains(t, err, "still works on other resources", "entered beside it")
				b.End()
			}
			s.record(r, report.Event{Kind: report.RunFailed})
			r.End()
			if !tc.left {
				s.wantStory("A", append(slices.Clone(closed[:3]), "resource-started resource/web", "action-"+ending+" action/db/create",
					"resource-"+ending+" resource/db", "resource-failed resource/web", "run-"+ending+" run/web.yaml")...)
			}
			c := s.begin("C")
			defer c.End()
			s.enter(c, func(string) { end(0) })()
			s.wantEnded("run/web.yaml", "resource/db", "resource/web", "action/db/create")
		})
	}
}

// fading is an engine that answers some questions, and then no more.
type fading struct {
	*enginetest.Fake
	answers int
}

func (f *fading) Containers(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	if f.answers--; f.answers < 0 {
		return nil, engine.ErrUnavailable
	}
	return f.Fake.Containers(ctx, labels)
}

type fadingAt struct {
	at
	one *fading
}

func (f fadingAt) Open(ctx context.Context, used runs.EngineUsed) (runs.Containers, func(), error) {
	if used.Address == "one" {
		return f.one, nil, nil
	}
	return f.at.Open(ctx, used)
}

// An engine that was opened and then stops answering is in the way of a run only
// if it is the run's own, or an action may be at work there.
func TestAnEngineOfAnotherRunThatStopsAnsweringHoldsNobody(t *testing.T) {
	for _, c := range []struct {
		name    string
		acting  bool
		answers int
		closed  bool
	}{
		{"before it is asked what is left", false, 0, true},
		{"before it is asked what serves", false, 1, true},
		{"in the middle of an action", true, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newEngineSite(t)
			s.startedAt("one", "A", c.acting).End()
			r, err := s.beginFading("two", c.answers)
			require.NoError(t, err)
			defer r.End()
			open, err := s.log.InProgress(t.Context(), "run/web.yaml")
			require.NoError(t, err)
			assert.Equal(t, c.closed, len(open) == 0)
			if !c.closed {
				_, err = s.enterAt(r, "db", nil)
				assert.ErrorIs(t, err, engine.ErrUnavailable, "its resource is entered")
			}
			assert.True(t, slices.ContainsFunc(s.notices, func(text string) bool { return strings.Contains(text, "stopped answering") }))
		})
	}
	for answers := range 2 {
		s := newEngineSite(t)
		s.startedAt("one", "A", false).End()
		assert.ErrorIs(t, must.Fail(s.beginFading("one", answers)), engine.ErrUnavailable, answers)
	}
}

func (s *engineSite) beginFading(own string, answers int) (*runs.Run, error) {
	faded := &fading{Fake: s.engines["one"], answers: answers}
	containers := map[string]runs.Containers{"one": faded, "two": s.engines["two"]}
	o := s.options("on " + own)
	o.Engine, o.Engines = containers[own], fadingAt{at{s, own}, faded}
	return runs.Begin(s.Context(), o)
}

// slow is a runs.Engines that takes its time to open one engine.
type slow struct {
	at
	opening, goOn chan struct{}
}

func (o slow) Open(ctx context.Context, used runs.EngineUsed) (runs.Containers, func(), error) {
	if used.Address == "one" {
		close(o.opening)
		<-o.goOn
	}
	return o.at.Open(ctx, used)
}

// While an engine takes its time, a run records, and asks others.
func TestAnEngineThatIsSlowToOpenHoldsUpNothingElse(t *testing.T) {
	s := newEngineSite(t)
	o := slow{at{s, "two"}, make(chan struct{}), make(chan struct{})}
	r := s.begin("next", ofOthers, func(with *runs.Options) { with.Engine, with.Engines = s.engines["two"], o })
	defer r.End()
	end := s.diedAt("one", "A")
	b := s.startedAt("three", "B", false)
	s.record(b, report.Event{Kind: report.ResourceStarted, Resource: "web"})
	b.End()
	entered := make(chan error, 1)
	go func() { _, err := s.enterAt(r, "db", nil); entered <- err }()
	<-o.opening
	s.record(r, report.Event{Kind: report.RunStarted}, report.Event{Kind: report.ResourceStarted, Resource: "mine"},
		report.Event{Kind: report.ActionStarted, Resource: "mine", Action: "create", Attempt: 1},
		report.Event{Kind: report.ActionFailed, Resource: "mine", Action: "create", Attempt: 1, Error: "it broke"})
	_, err := s.enterAt(r, "web", nil)
	assert.NoError(t, err)
	end(0)
	close(o.goOn)
	assert.NoError(t, <-entered)
}

// looks is an engine that counts how often it is asked for what a run left.
type looks struct {
	*enginetest.Fake
	count int
	err   error
}

func (l *looks) Containers(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	l.count++
	if l.err != nil {
		return nil, l.err
	}
	return l.Fake.Containers(ctx, labels)
}

func TestRunsOfAProcessLookTogetherForWhatDeadOnesLeft(t *testing.T) {
	s := newSite(t)
	now := time.Now()
	on := &looks{Fake: s.engine}
	sweeps := runs.NewSweeps(func() time.Time { return now })
	began := 0
	begin := func(on runs.Containers) (*runs.Run, error) {
		began++
		o := s.options("RUN" + string(rune('A'+began)))
		o.Engine, o.Sweeps = on, sweeps
		return runs.Begin(t.Context(), o)
	}
	for _, step := range []struct {
		name  string
		do    func()
		looks bool
	}{
		{"the first", func() {}, true},
		{"the next", func() {}, false},
		{"the next, a while later", func() { now = now.Add(9 * time.Second) }, false},
		{"one after that", func() { now = now.Add(time.Second) }, true},
		{"one after the clock was set back", func() { now = now.Add(-time.Hour) }, true},
		{"the next", func() {}, false},
		{"one after a run of the same target that died", func() { s.died("A") }, true},
		{"the next", func() {}, false},
	} {
		step.do()
		s.engine.Leave(s.serving("GONE"))
		before := on.count
		r := must.Get(begin(on))(t)
		assert.Equal(t, step.looks, on.count > before, step.name)
		r.End()
		left := must.Get(s.engine.Containers(t.Context(), nil))(t)
		assert.Equal(t, step.looks, (len(left) == 0), "after %s there are %v", step.name, left)
	}
	other := &looks{Fake: &enginetest.Fake{}, err: errors.New("out of order")}
	for range 2 {
		assert.Error(t, must.Fail(begin(other)), "a run began on an engine that is out of order")
	}
	other.err = nil
	r := must.Get(begin(other))(t)
	r.End()
	assert.Equal(t, 3, other.count)
}

func TestARunWaitsForWhatItsResourcesHave(t *testing.T) {
	s := newSite(t)
	sweeps := runs.NewSweeps(time.Now)
	for i, id := range []string{"B", "C"} {
		s.died("A" + id)
		_, end := s.engine.Leave(s.labels("A"+id, "create"))
		r := s.begin(id, ofOthers, func(o *runs.Options) { o.Sweeps = sweeps })
		waited := false
		s.enter(r, func(string) { waited = true; end(0) })()
		assert.True(t, waited, "run %d did not wait", i)
		r.End()
	}
}

// namedAt is a runs.Engines whose engine says which one it is.
type namedAt struct {
	at
	id string // with the machine that it is local to, if it is: "A on m1"
}

func (i namedAt) Used(ctx context.Context) runs.EngineUsed {
	used := i.at.Used(ctx)
	used.ID, used.Machine, used.Local = strings.Cut(i.id, " on ")
	return used
}

// What is applied in places, as the tasks of environments are, says once that another engine answers at an address.
func TestARunInAPlaceMentionsAnotherEngine(t *testing.T) {
	const says = `another engine answers at one than the one that run R0 used (it was "A", and is "B")`
	for name, test := range map[string]struct {
		place string
		ids   []string // of the engines that the runs find at the address
		new   bool     // the last run is of another process
		want  int      // how often it is said
	}{
		"the same":                       {"h1", []string{"A", "A", "A"}, false, 0},
		"another one":                    {"h1", []string{"A", "B"}, false, 1},
		"once":                           {"h1", []string{"A", "B", "B", "B"}, false, 1},
		"another process":                {"h1", []string{"A", "B"}, true, 1},
		"one that does not say which":    {"h1", []string{"A", ""}, false, 0},
		"after one that did not say":     {"h1", []string{"", "B"}, true, 0},
		"a manifest says so itself":      {"", []string{"A", "B"}, false, 0},
		"another process, and the same":  {"h1", []string{"A", "A"}, true, 0},
		"another process, and then once": {"h1", []string{"A", "B", "B"}, false, 1},
		"to who only looks":              {"look", []string{"A", "B"}, true, 1},
		"to who only looks, each time":   {"look", []string{"A", "B", "B"}, true, 2},
		"to who only looks, the same":    {"look", []string{"A", "A"}, true, 0},
		"another machine has its own":    {"h1", []string{"A on m1", "B on m2"}, true, 0},
		"a machine has another one":      {"h1", []string{"A on m1", "B on m1"}, true, 1},
		"an unknown machine":             {"h1", []string{"A on m1", "B on "}, true, 1},
		"one that is not local":          {"h1", []string{"A", "B on m1"}, true, 1},
		"looking on another machine":     {"look", []string{"A on m1", "B on m2"}, true, 0},
		"looking at another manifest":    {"look at other.yaml", []string{"A", "B"}, true, 0},
	} {
		s := newEngineSite(t)
		sweeps := runs.NewSweeps(time.Now)
		for i, id := range test.ids {
			if test.new && i == len(test.ids)-1 {
				sweeps = runs.NewSweeps(time.Now)
			}
			if look, manifest, _ := strings.Cut(test.place, " at "); look == "look" && i > 0 {
				held, err := runs.Watch(runs.Options{Log: s.log, ID: fmt.Sprint("R", i), Engines: namedAt{at{s, "one"}, id}, Notice: func(text string) { s.notices = append(s.notices, text) }})
				require.NoError(t, err)
				held.MentionEngine(t.Context(), runs.Owner{Manifest: []string{cmp.Or(manifest, "web.yaml")}})
				held.End()
				continue
			}
			r := s.begin(fmt.Sprint("R", i), func(o *runs.Options) {
				o.Engine, o.Engines, o.Place, o.Sweeps = s.engines["one"], namedAt{at{s, "one"}, id}, test.place, sweeps
			})
			s.record(r, report.Event{Kind: report.RunStarted}, report.Event{Kind: report.RunFinished})
			r.End()
		}
		said := 0
		for _, text := range s.notices {
			if strings.Contains(text, says) {
				said++
			}
		}
		assert.Equal(t, test.want, said, "%s: %q", name, s.notices)
	}
}
