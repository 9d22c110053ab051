package runs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner/report"
)

// A run asks an engine once, however many of its resources a dead run left.
func TestAnEngineThatDoesNotAnswerIsAskedOnce(t *testing.T) {
	s := newEngineSite(t)
	s.diedAt("one", "A")
	s.away["one"] = engine.ErrUnavailable
	r := s.beginAt("two", "next")
	defer r.End()
	for range 3 {
		_, err := s.enterAt(r, "db", nil)
		assert.ErrorIs(t, err, engine.ErrUnavailable)
	}
	assert.Equal(t, 1, s.asked)
}

// An action of which the engine does not say that it ended has no end in the log,
// though its run has seen it fail.
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

// fadingAt is a runs.Engines whose engine "one" fades.
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
		_, err := s.beginFading("one", answers)
		assert.ErrorIs(t, err, engine.ErrUnavailable, answers)
	}
}

// beginFading begins a run for which the engine "one" fades.
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
	go func() {
		_, err := s.enterAt(r, "db", nil)
		entered <- err
	}()
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

// Runs of a process look together for what dead runs left and nobody waits for: at once,
// again after a while, and whenever there is reason to.
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
		r, err := begin(on)
		require.NoError(t, err)
		assert.Equal(t, step.looks, on.count > before, step.name)
		r.End()
		if left, err := s.engine.Containers(t.Context(), nil); err != nil || (len(left) == 0) != step.looks {
			t.Errorf("after %s there are %v (%v)", step.name, left, err)
		}
	}
	other := &looks{Fake: &enginetest.Fake{}, err: errors.New("out of order")}
	for range 2 {
		_, err := begin(other)
		assert.Error(t, err, "a run began on an engine that is out of order")
	}
	other.err = nil
	r, err := begin(other)
	require.NoError(t, err)
	r.End()
	assert.Equal(t, 3, other.count)
}

// What a run has to wait for, it looks for by itself.
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
