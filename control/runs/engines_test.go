package runs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/enginetest"
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
	return s.begin(id, func(o *runs.Options) { o.Engine, o.Engines = s.engines[address], at{s, address} })
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
	s.record(r, report.Event{Kind: report.RunStarted, Data: map[string]string{"user": "anna", "host": "desk"}},
		report.Event{Kind: report.ResourceStarted, Resource: "db"})
	if acting {
		s.record(r, report.Event{Kind: report.ActionStarted, Resource: "db", Action: "create", Attempt: 1})
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
	s.wantEnded("run/web.yaml", "resource/db", "action/db/create")
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
			if got := errors.As(err, &held); got != (tc.held != nil) || err != nil && !got {
				t.Fatalf("held: %v", err)
			}
			if tc.held != nil {
				for _, text := range tc.held {
					assert.Contains(t, err.Error(), text, "held: %v does not say %q", err, text)
				}
				assert.Len(t, s.story("A"), 3)
				_, err = s.enterAt(r, "other", nil)
				assert.NoError(t, err, "another resource")
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
	_, err := died.Enter(ctx, "db", func(string) { kill() })
	require.Error(t, err, "it entered while the action ran")
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
