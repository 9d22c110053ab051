package runs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
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
		if _, err := s.enterAt(r, "db", nil); !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("it is %v", err)
		}
	}
	if s.asked != 1 {
		t.Errorf("it was asked %d times", s.asked)
	}
}

// deaf is an engine that stops answering.
type deaf struct {
	*enginetest.Fake
	gone bool
}

func (d *deaf) Containers(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	if d.gone {
		return nil, engine.ErrUnavailable
	}
	return d.Fake.Containers(ctx, labels)
}

// An action of which the engine does not say that it ended has no end in the log,
// though its run has seen it fail.
func TestAnActionWhoseEndWasNotSeenHasNoEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		gone, left bool
		exit       *int
		lost       bool
	}{
		"the engine has no such container":      {},
		"the engine has it, and it runs":        {left: true, lost: true},
		"the engine does not answer":            {gone: true, lost: true},
		"it has ended, whatever the engine has": {gone: true, left: true, exit: new(int)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			e := &deaf{Fake: s.engine}
			r, err := runs.Begin(t.Context(), runs.Options{
				Log: s.log, Engine: e, ID: "A", Target: "run/web.yaml", Revision: "r", OrphanTimeout: s.patience, Notice: func(string) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			s.record(r, report.Event{Kind: report.RunStarted}, report.Event{Kind: report.ResourceStarted, Resource: "db"},
				report.Event{Kind: report.ActionStarted, Resource: "db", Action: "create", Attempt: 1}, report.Event{Kind: report.ResourceStarted, Resource: "web"})
			end := func(int) {}
			if tc.left {
				_, end = s.engine.Leave(s.labels("A", "create"))
			}
			e.gone = tc.gone
			s.record(r, report.Event{Kind: report.ActionFailed, Resource: "db", Action: "create", Attempt: 1, Exit: tc.exit, Error: "it broke"},
				report.Event{Kind: report.ResourceFailed, Resource: "db", Error: "it broke"}, report.Event{Kind: report.ResourceFailed, Resource: "web"})
			ending := "failed"
			if tc.lost {
				ending = "lost"
			}
			if tc.lost && !tc.left { // while the run is there, nobody can know
				b := s.begin("B")
				if _, err := b.Enter(t.Context(), "db", func(string) {}); err == nil || !strings.Contains(err.Error(), "still works on other resources") {
					t.Errorf("entered beside it: %v", err)
				}
				b.End()
			}
			s.record(r, report.Event{Kind: report.RunFailed})
			r.End()
			want := []string{"run-started run/web.yaml", "resource-started resource/db", "action-started action/db/create", "resource-started resource/web"}
			if tc.exit == nil {
				want = append(want, "action-"+ending+" action/db/create")
			} else {
				want = append(want, "action-failed action/db/create exit 0")
			}
			want = append(want, "resource-"+ending+" resource/db", "resource-failed resource/web", "run-"+ending+" run/web.yaml")
			if !tc.left {
				s.wantStory("A", want...)
			}
			c := s.begin("C")
			defer c.End()
			s.enter(c, func(string) { end(0) })()
			for _, target := range []deploylog.Target{"run/web.yaml", "resource/db", "resource/web", "action/db/create"} {
				if open, err := s.log.InProgress(t.Context(), target); err != nil || len(open) > 0 {
					t.Errorf("%s is in progress: %v, %v", target, open, err)
				}
			}
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
			if err != nil {
				t.Fatal(err)
			}
			defer r.End()
			open, err := s.log.InProgress(t.Context(), "run/web.yaml")
			if err != nil || (len(open) == 0) != c.closed {
				t.Errorf("in progress are %v, %v", open, err)
			}
			if !c.closed {
				if _, err := s.enterAt(r, "db", nil); !errors.Is(err, engine.ErrUnavailable) {
					t.Errorf("its resource is entered: %v", err)
				}
			}
			if !slices.ContainsFunc(s.notices, func(text string) bool { return strings.Contains(text, "stopped answering") }) {
				t.Errorf("told was %q", s.notices)
			}
		})
	}
	for answers := range 2 {
		s := newEngineSite(t)
		s.startedAt("one", "A", false).End()
		if _, err := s.beginFading("one", answers); !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("a run on that engine, which answers %d times: %v", answers, err)
		}
	}
}

// beginFading begins a run for which the engine "one" fades.
func (s *engineSite) beginFading(own string, answers int) (*runs.Run, error) {
	faded := &fading{Fake: s.engines["one"], answers: answers}
	containers := map[string]runs.Containers{"one": faded, "two": s.engines["two"]}
	return runs.Begin(s.Context(), runs.Options{
		Log: s.log, Engine: containers[own], Engines: fadingAt{at{s, own}, faded}, ID: "on " + own, Target: "run/web.yaml",
		Revision: "r", OrphanTimeout: s.patience, Notice: func(text string) { s.notices = append(s.notices, text) },
	})
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
	r, err := runs.Begin(t.Context(), runs.Options{
		Log: s.log, Engine: s.engines["two"], Engines: o, ID: "next", Target: "run/other.yaml", Revision: "r", OrphanTimeout: s.patience, Notice: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := s.enterAt(r, "web", nil); err != nil {
		t.Error(err)
	}
	end(0)
	close(o.goOn)
	if err := <-entered; err != nil {
		t.Error(err)
	}
}
