package runs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner"
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

// beginAt begins a run on an engine.
func (s *engineSite) beginAt(address, id string) *runs.Run {
	s.Helper()
	r, err := runs.Begin(s.Context(), runs.Options{
		Log: s.log, Engine: s.engines[address], Engines: at{s, address}, ID: id, Target: "run/web.yaml", Revision: "rev-" + id, OrphanTimeout: s.patience,
		Notice: func(text string) { s.site.mu.Lock(); defer s.site.mu.Unlock(); s.notices = append(s.notices, text) },
	})
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// diedAt is a run on an engine that started an action of db and is no more. Its
// container runs until end.
func (s *engineSite) diedAt(address, id string) (end func(int)) {
	s.Helper()
	s.startedAt(address, id, true).End()
	_, end = s.engines[address].Leave(s.labels(id, "create"))
	return end
}

func (s *engineSite) startedAt(address, id string, acting bool) *runs.Run {
	s.Helper()
	r := s.beginAt(address, id)
	s.record(r, runner.Event{Kind: runner.RunStarted, Data: map[string]string{"user": "anna", "host": "desk"}},
		runner.Event{Kind: runner.ResourceStarted, Resource: "db"})
	if acting {
		s.record(r, runner.Event{Kind: runner.ActionStarted, Resource: "db", Action: "create", Attempt: 1})
	}
	return r
}

// enterAt enters a resource with a run on an engine and says what it waited for.
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
	s.Helper()
	for _, target := range []deploylog.Target{"run/web.yaml", "resource/db", "action/db/create"} {
		if open, err := s.log.InProgress(context.Background(), target); err != nil || len(open) > 0 {
			s.Errorf("%s is still in progress: %v, %v", target, open, err)
		}
	}
	for address, e := range s.engines {
		if left, err := e.Containers(context.Background(), nil); err != nil || len(left) > 0 {
			s.Errorf("left on engine %s: %v, %v", address, left, err)
		}
	}
}

// Whatever engine a run uses, it asks those that dead runs used.
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
				if err := runs.Abandon(s.Context(), s.log, "A", map[string]string{"user": "anna"}); err != nil {
					s.Fatal(err)
				}
				return nil
			},
			story: "action-failed action/db/create abandoned",
		},
		"it answers, and the run is abandoned": { // what can be known need not be believed
			before: func(s *engineSite) []func(int) {
				end := s.diedAt("one", "A")
				if err := runs.Abandon(s.Context(), s.log, "A", nil); err != nil {
					s.Fatal(err)
				}
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
			if len(waits) != len(tc.waits) {
				t.Fatalf("it waited for %q, %v", waits, err)
			}
			for i, text := range tc.waits {
				if !strings.HasSuffix(waits[i], text) {
					t.Errorf("it waited for %q, not %q", waits[i], text)
				}
			}
			var held *runs.HeldError
			if got := errors.As(err, &held); got != (tc.held != nil) || err != nil && !got {
				t.Fatalf("held: %v", err)
			}
			if tc.held != nil {
				for _, text := range tc.held {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("held: %v does not say %q", err, text)
					}
				}
				if story := s.story("A"); len(story) != 3 {
					t.Errorf("held, and the log tells %v", story)
				}
				if _, err := s.enterAt(r, "other", nil); err != nil {
					t.Errorf("another resource: %v", err)
				}
				return
			}
			if story := s.story("A"); tc.story != "" && !slices.Contains(story, tc.story) {
				t.Errorf("the log tells %v, not %q", story, tc.story)
			}
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
	if _, err := died.Enter(ctx, "db", func(string) { kill() }); err == nil {
		t.Fatal("it entered while the action ran")
	}
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
	if ends != 1 || !slices.Contains(s.story("A"), "action-finished-successfully action/db/create abandoned exit 0") {
		t.Errorf("the log tells %v", s.story("A"))
	}
	s.wantClosed()
}

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

// Logs of versions that did not record the engine whole name it for people.
func TestAnOldLogTellsOfTheEngineWhatItCan(t *testing.T) {
	s := newSite(t)
	r := s.begin("A")
	s.record(r, runner.Event{Kind: runner.RunStarted, Data: map[string]string{
		"engine": "docker 20.10.24", "engine_address": "tcp://there:2376", "host": "desk", "user": "anna",
	}}, runner.Event{Kind: runner.ResourceStarted, Resource: "db"}, runner.Event{Kind: runner.ActionStarted, Resource: "db", Action: "create", Attempt: 1})
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
	s.wantStory("dead", "run-started run/web.yaml", "resource-started resource/db", "action-started action/db/create",
		"action-failed action/db/create abandoned", "resource-failed resource/db abandoned", "run-failed run/web.yaml abandoned")
	s.record(alive, runner.Event{Kind: runner.RunStarted})
	for run, want := range map[string]error{"dead": runs.ErrRunEnded, "alive": runs.ErrRunAlive, "none": runs.ErrNoSuchRun, "": runs.ErrNoSuchRun} {
		if err := runs.Abandon(t.Context(), s.log, run, nil); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", run, err, want)
		}
	}
	s.died("later")
	for range 2 {
		if err := runs.Abandon(t.Context(), s.log, "later", map[string]string{"user": "anna"}); err != nil {
			t.Error(err)
		}
	}
	if story := s.story("later"); !slices.Contains(story, "run-abandoned run/web.yaml") {
		t.Errorf("the log tells %v", story)
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
			s.record(r, runner.Event{Kind: runner.RunStarted}, runner.Event{Kind: runner.ResourceStarted, Resource: "db"},
				runner.Event{Kind: runner.ActionStarted, Resource: "db", Action: "create", Attempt: 1}, runner.Event{Kind: runner.ResourceStarted, Resource: "web"})
			end := func(int) {}
			if tc.left {
				_, end = s.engine.Leave(s.labels("A", "create"))
			}
			e.gone = tc.gone
			s.record(r, runner.Event{Kind: runner.ActionFailed, Resource: "db", Action: "create", Attempt: 1, Exit: tc.exit, Error: "it broke"},
				runner.Event{Kind: runner.ResourceFailed, Resource: "db", Error: "it broke"}, runner.Event{Kind: runner.ResourceFailed, Resource: "web"})
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
			s.record(r, runner.Event{Kind: runner.RunFailed})
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
	s.record(b, runner.Event{Kind: runner.ResourceStarted, Resource: "web"})
	b.End()
	entered := make(chan error, 1)
	go func() {
		_, err := s.enterAt(r, "db", nil)
		entered <- err
	}()
	<-o.opening
	s.record(r, runner.Event{Kind: runner.RunStarted}, runner.Event{Kind: runner.ResourceStarted, Resource: "mine"},
		runner.Event{Kind: runner.ActionStarted, Resource: "mine", Action: "create", Attempt: 1},
		runner.Event{Kind: runner.ActionFailed, Resource: "mine", Action: "create", Attempt: 1, Error: "it broke"})
	if _, err := s.enterAt(r, "web", nil); err != nil {
		t.Error(err)
	}
	end(0)
	close(o.goOn)
	if err := <-entered; err != nil {
		t.Error(err)
	}
}
