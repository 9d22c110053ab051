package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// site is a log and an engine on which runs come and go.
type site struct {
	*testing.T
	log      deploylog.Log
	engine   *enginetest.Fake
	patience time.Duration

	mu      sync.Mutex
	notices []string
}

func newSite(t *testing.T) *site {
	return &site{T: t, log: reconciletest.InMemory(t)(), engine: &enginetest.Fake{}, patience: time.Minute}
}

func (s *site) begin(id string, other ...func(*runs.Options)) *runs.Run {
	o := s.options(id)
	for _, change := range other {
		change(&o)
	}
	return must.Get(runs.Begin(s.Context(), o))(s)
}

func (s *site) options(id string) runs.Options {
	return runs.Options{
		Log: s.log, Engine: s.engine, ID: id, Target: "run/web.yaml", Revision: "rev-" + id, OrphanTimeout: s.patience,
		Notice: func(text string) { s.mu.Lock(); defer s.mu.Unlock(); s.notices = append(s.notices, text) },
	}
}

func ofOthers(o *runs.Options) { o.Target = "run/other.yaml" }

// acting are the events of a run up to the start of an action of db.
func acting(action string) []report.Event {
	return []report.Event{
		{Kind: report.RunStarted}, {Kind: report.ResourceStarted, Resource: "db"},
		{Kind: report.ActionStarted, Resource: "db", Action: action, Attempt: 1},
	}
}

func (s *site) record(r *runs.Run, events ...report.Event) {
	for _, e := range events {
		require.NoError(s, r.Record(s.Context(), e))
	}
}

// died is a run that started an action, "create" if nothing else is said, and
// is no more: its lock is free, and nothing says how it ended.
func (s *site) died(id string, action ...string) {
	r := s.begin(id)
	s.record(r, acting(append(action, "create")[0])...)
	r.End()
}

func (s *site) serving(run string) map[string]string {
	return map[string]string{invoke.LabelKind: invoke.KindServe, invoke.LabelLog: s.log.ID(), invoke.LabelRun: run}
}

func (s *site) labels(run, action string) map[string]string {
	kind := invoke.KindAct
	if action == "state" {
		kind = invoke.KindObserve
	}
	return map[string]string{
		invoke.LabelKind: kind,
		invoke.LabelLog:  s.log.ID(), invoke.LabelRun: run, invoke.LabelResource: "db",
		invoke.LabelAction: action, invoke.LabelAttempt: "1",
	}
}

// story returns the events of a deployment as "event target", with what is told of an abandoned one.
func (s *site) story(deployment string) []string {
	var story []string
	for e, err := range s.log.Read(context.Background(), deploylog.Filter{Deployment: deployment}) {
		require.NoError(s, err)
		var data struct {
			Abandoned bool
			Exit      *int `json:"exit_code"`
		}
		require.NoError(s, json.Unmarshal(e.Data, &data))
		text := fmt.Sprintf("%s %s", e.Name, e.Target)
		if data.Abandoned {
			text += " abandoned"
		}
		if data.Exit != nil {
			text += fmt.Sprintf(" exit %d", *data.Exit)
		}
		story = append(story, text)
	}
	return story
}

func (s *site) wantStory(deployment string, want ...string) {
	assert.Equal(s, want, s.story(deployment), deployment)
}

func (s *site) wantEnded(targets ...deploylog.Target) {
	for _, target := range targets {
		assert.Empty(s, must.Get(s.log.InProgress(context.Background(), target))(s), target)
	}
}

func (s *site) enter(r *runs.Run, waiting func(string)) func() {
	s.Helper()
	if waiting == nil {
		waiting = func(text string) { s.Errorf("it waits: %s", text) }
	}
	return must.Get(r.Enter(s.Context(), "db", waiting))(s)
}

func TestARunIsToldInItsOwnTargets(t *testing.T) {
	s := newSite(t)
	r := s.begin("A")
	zero := 0
	s.record(r,
		report.Event{Kind: report.RunStarted, Resources: []report.ResourceHeader{{Name: "db", Type: "thing"}}},
		report.Event{Kind: report.ResourceStarted, Resource: "db"},
		report.Event{Kind: report.ActionStarted, Resource: "db", Action: "create", Attempt: 1},
		report.Event{Kind: report.ActionFinished, Resource: "db", Action: "create", Attempt: 1, Exit: &zero, Duration: time.Second},
		report.Event{Kind: report.ResourceFinished, Resource: "db", Status: report.Changed},
		report.Event{Kind: report.RunFinished, Counts: report.Counts{Changed: 1}},
	)
	r.End()
	s.wantStory("A", "run-started run/web.yaml", "resource-started resource/db", "action-started action/db/create",
		"action-finished-successfully action/db/create exit 0", "resource-finished-successfully resource/db",
		"run-finished-successfully run/web.yaml")
	for _, target := range []deploylog.Target{"run/web.yaml", "resource/db", "action/db/create"} {
		e, ok, err := s.log.Latest(t.Context(), target, deploylog.Succeeded)
		assert.True(t, err == nil && ok && e.Deployment == "A" && e.Revision == "rev-A", "latest of %s: %+v, %v, %v", target, e, ok, err)
		s.wantEnded(target)
	}
}

func TestTheNextRunClosesWhatADeadOneLeftOpen(t *testing.T) {
	s := newSite(t)
	s.died("A")
	s.begin("B").End()
	s.wantStory("A", closed...)
	require.Len(t, s.notices, 1)
	assert.Contains(t, s.notices[0], "run A, begun at")
	s.begin("C").End()
	assert.Len(t, s.notices, 1, "it was closed twice: %q", s.notices)
}

func TestALivingRunIsLeftAlone(t *testing.T) {
	s := newSite(t)
	a := s.begin("A")
	defer a.End()
	s.record(a, report.Event{Kind: report.RunStarted})
	s.begin("B").End()
	s.wantStory("A", "run-started run/web.yaml")
}

func TestWhatADeadRunLeftIsWaitedForBeforeTheResourceIsLookedAt(t *testing.T) {
	for name, tc := range map[string]struct {
		action, left string   // that A was at, and that is there; "" is a process that serves
		looked       bool     // another run looks whether A is dead, and holds its lock for that long
		hurried      bool     // runs do not wait for what dead ones left
		waits        []string // all of which the user is told before it ends
		reason       string
	}{
		"an action that is called init":           {action: "init", left: "init", waits: []string{`"init"`, "run A"}},
		"a process that serves":                   {action: "create", waits: []string{"run A", "serves"}, reason: "how this ended is not known"},
		"that, while another run looks":           {action: "create", looked: true, waits: []string{"serves"}},
		"an action that takes too long":           {action: "create", left: "create", hurried: true},
		"a process that acts too long":            {action: "create", hurried: true, reason: "and is being stopped"},
		"what was made ready for one not yet due": {action: "create", left: "migrate"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.died("A", tc.action)
			labels := s.labels("A", tc.left)
			if tc.left == "" {
				labels = s.serving("A")
			}
			_, end := s.engine.Leave(labels)
			if tc.hurried {
				s.patience = time.Nanosecond
			}
			b := s.begin("B")
			defer b.End()
			if tc.looked {
				unlock := must.Get(s.log.TryLock("run/A"))(s)
				defer unlock()
			}
			told := ""
			s.enter(b, func(text string) {
				if told = text; tc.waits != nil {
					end(0)
				}
			})()
			for _, text := range tc.waits {
				assert.Contains(t, told, text)
			}
			s.wantReason("A", tc.reason)
			if !tc.looked {
				s.wantEnded("run/web.yaml", "resource/db", deploylog.Target("action/db/"+tc.action))
			}
			s.wantNoContainers()
		})
	}
}

// What a living run has, or may still need, and what acts for another resource stays.
func TestWhatIsOfOthersIsLeftAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		there  func(s *site, live func()) // live begins the run "alive"
		other  bool                       // the run is one of other manifests
		enters string                     // the resource; "" is none
		of     string                     // the run whose container stays
	}{
		"what a living run looks at": {
			func(s *site, live func()) {
				s.engine.Leave(s.labels("A", "state"))
				live()
				s.engine.Leave(s.labels("alive", "state"))
			}, false, "db", "alive",
		},
		"a process of a living run": {func(s *site, live func()) { live(); s.engine.Leave(s.serving("alive")) }, false, "db", "alive"},
		"a container that a living run has not started": {
			func(s *site, live func()) { live(); s.created(s.labels("alive", "create")) }, false, "", "alive",
		},
		"one that may still be started for a dead run":  {func(s *site, _ func()) { s.created(s.labels("A", "create")) }, true, "", "A"},
		"a process of a dead run, for another resource": {func(s *site, _ func()) { s.engine.Leave(s.serving("A")) }, false, "other", "A"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.died("A")
			tc.there(s, func() { t.Cleanup(s.begin("alive").End) })
			b := s.begin("B", func(o *runs.Options) {
				if tc.other {
					ofOthers(o)
				}
			})
			defer b.End()
			if tc.enters != "" {
				leave := must.Get(b.Enter(t.Context(), tc.enters, func(text string) { t.Errorf("it waits: %s", text) }))(t)
				leave()
			}
			left := must.Get(s.engine.Containers(t.Context(), nil))(t)
			require.Len(t, left, 1)
			assert.Equal(t, tc.of, left[0].Labels[invoke.LabelRun])
		})
	}
}

func (s *site) wantNoContainers() {
	assert.Empty(s, must.Get(s.engine.Containers(context.Background(), nil))(s))
}

// What a dead run left is closed whoever enters its resource next, and however often the one who closes it dies in turn.
func TestARunOfOtherManifestsClosesTheResourceToo(t *testing.T) {
	s := newSite(t)
	s.died("A")
	id, _ := s.engine.Leave(s.labels("A", "create"))
	s.died("B") // meets A's action, and dies
	require.NoError(t, s.engine.Remove(t.Context(), id))
	c := s.begin("C", ofOthers)
	defer c.End()
	s.enter(c, nil)()
	s.wantEnded("run/web.yaml", "resource/db", "action/db/create")
}

// created is a container that the engine made for a run, and that nobody starts.
func (s *site) created(labels map[string]string) {
	s.engine.Images = map[string]enginetest.FakeImage{"thing": {
		Entrypoint: []string{"/thing"}, Program: func(context.Context, enginetest.Call) int { return 0 },
	}}
	ctx, cancel := context.WithCancel(s.Context())
	var running sync.WaitGroup
	running.Go(func() {
		_, _ = s.engine.Run(ctx, engine.Spec{Image: "thing", Labels: labels, Hold: make(chan struct{})}, engine.IO{})
	})
	s.Cleanup(func() { cancel(); running.Wait() })
	for {
		left := must.Get(s.engine.Containers(s.Context(), labels))(s)
		if len(left) > 0 {
			return
		}
		runtime.Gosched()
	}
}

func TestAContainerThatIsMadeAfterItsRunDiedIsRemoved(t *testing.T) {
	for _, action := range []string{"state", "create"} {
		t.Run(action, func(t *testing.T) {
			s := newSite(t)
			s.died("A")
			b := s.begin("B")
			s.created(s.labels("A", action))
			b.End()
			s.wantNoContainers()
			s.created(s.labels("A", action))
			defer s.begin("C", ofOthers).End()
			s.wantNoContainers()
		})
	}
}

// stuck is an engine that cannot remove containers.
type stuck struct{ *enginetest.Fake }

func (stuck) Remove(context.Context, string) error { return errors.New("device or resource busy") }

func TestAContainerThatIsNotStartedAndCannotBeRemovedIsNoticed(t *testing.T) {
	s := newSite(t)
	s.created(s.labels("A", "state"))
	s.begin("C", ofOthers, func(o *runs.Options) { o.Engine = stuck{s.engine} }).End()
	assert.Equal(t, []string{"a container that run A never started was not removed: device or resource busy"}, s.notices)
}

func TestOneRunAtATimeWorksOnAResource(t *testing.T) {
	s := newSite(t)
	a, b := s.begin("A"), s.begin("B")
	defer a.End()
	defer b.End()
	leaveA := s.enter(a, nil)
	waits, entered := make(chan string, 1), make(chan func())
	go func() {
		leave, err := b.Enter(t.Context(), "db", func(text string) { waits <- text })
		assert.NoError(t, err)
		entered <- leave
	}()
	assert.Contains(t, <-waits, "another run", "the user was told")
	select {
	case <-entered:
		t.Fatal("two runs are at work on one resource")
	default:
	}
	leaveA()
	(<-entered)()
}

// Who waits for a thing is told which one, and not the name of its lock.
func TestARunWaitsForAThingThatPeopleKnow(t *testing.T) {
	s := newSite(t)
	a, b := s.begin("A"), s.begin("B")
	defer a.End()
	defer b.End()
	key := strings.Repeat("0f", 32)
	defer must.Get(a.EnterThing(t.Context(), key, "deployster/file conf (path a.conf)", func(string) {}))(t)()
	ctx, cancel := context.WithCancel(t.Context())
	said := ""
	_, err := b.EnterThing(ctx, key, "deployster/file motd (path a.conf)", func(text string) { said = text; cancel() })
	require.ErrorIs(t, err, context.Canceled)
	for _, text := range []string{said, err.Error()} {
		assert.Contains(t, text, "deployster/file motd (path a.conf)")
		assert.NotContains(t, text, key)
	}
}

func TestWaitingForAResourceEndsWithTheContext(t *testing.T) {
	s := newSite(t)
	a, b := s.begin("A"), s.begin("B")
	defer a.End()
	defer b.End()
	defer s.enter(a, nil)()
	ctx, cancel := context.WithCancel(t.Context())
	assert.Error(t, must.Fail(b.Enter(ctx, "db", func(string) { cancel() })))
}

func TestRunTarget(t *testing.T) {
	for _, tc := range []struct {
		files []string
		want  deploylog.Target
	}{
		{[]string{"/ws/web.yaml"}, "run/web.yaml"},
		{[]string{"/ws/a/web.yaml", "/ws/b.yaml"}, "run/a/web.yaml+b.yaml"},
		{[]string{"/elsewhere/web.yaml"}, "run//elsewhere/web.yaml"},
	} {
		assert.Equal(t, tc.want, runs.RunTarget("/ws", tc.files), tc.want)
	}
}

func TestARunLeavesNoLockBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	log := must.Get(sqlite.Open(t.Context(), path, sqlite.Options{}))(t)
	defer log.Close()
	for range 3 {
		r := must.Get(runs.Watch(runs.Options{Log: log, ID: "RUN"}))(t)
		assert.True(t, runs.Alive(log, "RUN"), "it is not known to be alive")
		r.End()
		assert.False(t, runs.Alive(log, "RUN"), "it is alive after its end")
		assert.Empty(t, must.Get(os.ReadDir(path+".locks"))(t))
	}
}

type shared struct{ deploylog.Log }

func (shared) Shared() bool { return true }

// A workspace of another machine is not here, and is not gone for that.
func TestWhoseAThingOfAnotherMachineIs(t *testing.T) {
	here, gone := t.TempDir(), filepath.Join(t.TempDir(), "gone")
	for name, tc := range map[string]struct {
		made, now      string // machines
		workspace, was string
		one            bool // the log is of one machine
		of, here       bool
	}{
		"the same":                                       {"one", "one", here, here, false, true, true},
		"a workspace that was moved":                     {"one", "one", here, gone, false, true, true},
		"a workspace of another machine":                 {"one", "two", here, gone, false, false, false},
		"the same workspace, such as that of a CI":       {"one", "two", here, here, false, true, false},
		"from when no machine was recorded":              {"", "two", here, gone, false, false, false},
		"on machines that nothing tells apart":           {"", "", here, gone, false, false, false},
		"another workspace that is there":                {"one", "one", here, os.TempDir(), false, false, true},
		"moved with its log to another machine":          {"one", "two", here, gone, true, true, true},
		"from when no machine was recorded, in one file": {"", "two", here, gone, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var log deploylog.Log = shared{reconciletest.InMemory(t)()}
			if tc.one {
				log = log.(shared).Log
			}
			o := runs.Options{
				Log: log, Engine: &enginetest.Fake{}, ID: "RUN1", Target: "run/x", Revision: "rev", OrphanTimeout: time.Minute, Notice: func(string) {},
				Manifest: []string{"a.yaml"}, Workspace: tc.was, Machine: tc.made,
			}
			r := must.Get(runs.Begin(t.Context(), o))(t)
			defer r.End()
			require.NoError(t, r.Record(t.Context(), makes("x", thing("x"))))
			h := must.Get(runs.ReadHistory(context.Background(), log, nil))(t)
			o.Workspace, o.Machine = tc.workspace, tc.now
			made := must.Get(h.All(t.Context()))(t)[0]
			assert.Equal(t, tc.of, made.Of(o.Owner()))
			assert.Equal(t, tc.here, made.Here(o.Owner()))
			moves := must.Get(h.Moves(t.Context(), o.Owner(), func(string) string { return "y" }))(t)
			all := must.Get(h.Undeclared(t.Context(), o.Owner(), none))(t)
			assert.True(t, (len(all) > 0) == tc.of && (len(moves) > 0) == tc.of, "not declared are %v, moves are %v", all, moves)
		})
	}
}

// to renames one thing, and leaves others.
func to(from, now string) func(string) string {
	return func(name string) string {
		if name == from {
			return now
		}
		return name
	}
}

func (m *maker) past(t *testing.T, past runner.PastFunc, name string) runner.Past {
	return must.Get(past(t.Context(), name, true))(t)
}

// What is called otherwise is the same thing, and keeps its identity; whoever gets the name that it
// had gets another one, as what it made is marked with the first.
func TestWhatIsRenamedKeepsItsIdentity(t *testing.T) {
	m := newMaker(t)
	past := runs.PastOf(runs.Options{Log: m.log, Protected: m.store})
	want := func(name, identity string) {
		assert.Equal(t, identity, m.past(t, past, name).Identity, name)
		assert.Equal(t, identity, m.past(t, runs.PastOf(runs.Options{Log: m.log, Protected: m.store}), name).Identity, name)
	}
	m.run(t, "m.yaml", nil, "", makes("a", thing("p")))
	want("a", "a")
	m.run(t, "m.yaml", to("a", "b"), "")
	want("b", "a")
	m.run(t, "m.yaml", nil, "", makes("a", thing("p")))
	first := m.past(t, past, "a").Identity
	assert.NotEqual(t, "a", first)
	assert.NotEmpty(t, first)
	m.run(t, "m.yaml", to("b", "c"), "")
	m.run(t, "m.yaml", to("a", "b"), "")
	want("c", "a")
	want("b", first)
	want("d", "d")
	assert.Equal(t, "c@host1", m.past(t, runs.PastOf(runs.Options{Log: m.log, Place: "host1"}), "c").Identity)
}

// What a plan says of what is to have another name is by what is known of it under the one that it has.
func TestThePastOfWhatIsToHaveAnotherName(t *testing.T) {
	m := newMaker(t)
	m.run(t, "m.yaml", nil, "", makes("a", thing("p")), report.Event{Kind: report.ResourceKept, Resource: "a", Attempt: 1, Keep: map[string]any{"id": "x"}, Protect: true})
	h := m.history(t)
	moves := must.Get(h.Moves(t.Context(), m.owner("m.yaml"), to("a", "b")))(t)
	past := must.Get(h.Moving(t.Context(), m.owner("m.yaml"), moves, runs.PastOf(runs.Options{Log: m.log, Protected: m.store})))(t)
	for _, when := range []string{"before", "after"} {
		p := m.past(t, past, "b")
		assert.True(t, p.Identity == "a" && p.Kept["id"] == "x", "%s the log says so it has %+v", when, p)
		m.run(t, "m.yaml", to("a", "b"), "", makes("a", thing("p")))
	}
}

// closed is the story of a dead run once it is closed.
var closed = []string{
	"run-started run/web.yaml", "resource-started resource/db", "action-started action/db/create",
	"action-failed action/db/create abandoned", "resource-failed resource/db abandoned", "run-failed run/web.yaml abandoned",
}

// wantReason checks why an action has failed, as the log tells it.
func (s *site) wantReason(deployment, want string) {
	s.Helper()
	for e, err := range s.log.Read(s.Context(), deploylog.Filter{Deployment: deployment}) {
		require.NoError(s, err)
		if e.Name == string(report.ActionFailed) && !strings.Contains(string(e.Data), want) {
			s.Errorf("the log tells %s, not that %s", e.Data, want)
		}
	}
}

func TestAProcessThatActsForNobodyIsRemovedAtOnce(t *testing.T) {
	s := newSite(t)
	for name, run := range map[string]func(){
		"of a run that ended its actions": func() {
			r := s.begin("A")
			s.record(r, append(acting("create"), report.Event{Kind: report.ActionFinished, Resource: "db", Action: "create", Attempt: 1})...)
			r.End()
		},
		"of a plan, which the log does not tell of": func() {},
	} {
		run()
		s.engine.Leave(s.serving("A"))
		s.begin("B").End()
		t.Log(name)
		s.wantNoContainers()
	}
}
