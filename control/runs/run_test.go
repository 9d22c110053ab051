package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
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

func (s *site) begin(id string) *runs.Run {
	s.Helper()
	r, err := runs.Begin(s.Context(), runs.Options{
		Log: s.log, Engine: s.engine, ID: id, Target: "run/web.yaml", Revision: "rev-" + id, OrphanTimeout: s.patience,
		Notice: func(text string) { s.mu.Lock(); defer s.mu.Unlock(); s.notices = append(s.notices, text) },
	})
	if err != nil {
		s.Fatal(err)
	}
	return r
}

func (s *site) record(r *runs.Run, events ...report.Event) {
	s.Helper()
	for _, e := range events {
		if err := r.Record(s.Context(), e); err != nil {
			s.Fatal(err)
		}
	}
}

// died is a run that started an action, "create" if nothing else is said, and
// is no more: its lock is free, and nothing says how it ended.
func (s *site) died(id string, action ...string) {
	s.Helper()
	r := s.begin(id)
	s.record(r, report.Event{Kind: report.RunStarted}, report.Event{Kind: report.ResourceStarted, Resource: "db"},
		report.Event{Kind: report.ActionStarted, Resource: "db", Action: append(action, "create")[0], Attempt: 1})
	r.End()
}

// serving are the labels of a process that serves.
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

// story returns the events of a deployment as "event target", with what is
// told of an abandoned one.
func (s *site) story(deployment string) []string {
	s.Helper()
	var story []string
	for e, err := range s.log.Read(context.Background(), deploylog.Filter{Deployment: deployment}) {
		if err != nil {
			s.Fatal(err)
		}
		var data struct {
			Abandoned bool
			Exit      *int `json:"exit_code"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			s.Fatal(err)
		}
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
	s.Helper()
	if got := s.story(deployment); !slices.Equal(got, want) {
		s.Errorf("the log tells of %s\n%s\nwant\n%s", deployment, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (s *site) enter(r *runs.Run, waiting func(string)) func() {
	s.Helper()
	if waiting == nil {
		waiting = func(text string) { s.Errorf("it waits: %s", text) }
	}
	leave, err := r.Enter(s.Context(), "db", waiting)
	if err != nil {
		s.Fatal(err)
	}
	return leave
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
		if err != nil || !ok || e.Deployment != "A" || e.Revision != "rev-A" {
			t.Errorf("latest of %s: %+v, %v, %v", target, e, ok, err)
		}
		if open, err := s.log.InProgress(t.Context(), target); err != nil || len(open) > 0 {
			t.Errorf("%s is in progress: %v, %v", target, open, err)
		}
	}
}

func TestTheNextRunClosesWhatADeadOneLeftOpen(t *testing.T) {
	s := newSite(t)
	s.died("A")
	s.begin("B").End()
	s.wantStory("A", "run-started run/web.yaml", "resource-started resource/db", "action-started action/db/create",
		"action-failed action/db/create abandoned", "resource-failed resource/db abandoned", "run-failed run/web.yaml abandoned")
	if len(s.notices) != 1 || !strings.Contains(s.notices[0], "run A, begun at") {
		t.Errorf("the user was told %q", s.notices)
	}
	s.begin("C").End()
	if len(s.notices) != 1 {
		t.Errorf("it was closed twice: %q", s.notices)
	}
}

func TestALivingRunIsLeftAlone(t *testing.T) {
	s := newSite(t)
	a := s.begin("A")
	defer a.End()
	s.record(a, report.Event{Kind: report.RunStarted})
	s.begin("B").End()
	s.wantStory("A", "run-started run/web.yaml")
}

func TestAnActionLeftRunningIsWaitedForBeforeTheResourceIsLookedAt(t *testing.T) {
	s := newSite(t)
	s.died("A")
	_, end := s.engine.Leave(s.labels("A", "create"))
	b := s.begin("B")
	defer b.End()
	s.wantStory("A", "run-started run/web.yaml", "resource-started resource/db", "action-started action/db/create")

	waits := ""
	leave := s.enter(b, func(text string) { waits = text; end(3) })
	defer leave()
	if !strings.Contains(waits, `"create"`) || !strings.Contains(waits, "run A") {
		t.Errorf("the user was told %q", waits)
	}
	s.wantStory("A", "run-started run/web.yaml", "resource-started resource/db", "action-started action/db/create",
		"action-failed action/db/create abandoned exit 3", "resource-failed resource/db abandoned", "run-failed run/web.yaml abandoned")
	s.wantNoContainers()
}

func (s *site) wantNoContainers() {
	s.Helper()
	left, err := s.engine.Containers(context.Background(), nil)
	if err != nil || len(left) > 0 {
		s.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAnActionLeftRunningTooLongIsStopped(t *testing.T) {
	s := newSite(t)
	s.patience = time.Nanosecond
	s.died("A")
	s.engine.Leave(s.labels("A", "create"))
	b := s.begin("B")
	defer b.End()
	s.enter(b, func(string) {})()
	if got := s.story("A"); !slices.Contains(got, "action-failed action/db/create abandoned") {
		t.Errorf("the log tells %v", got)
	}
	s.wantNoContainers()
}

// What a dead run left is closed whoever enters its resource next, and however
// often the one who closes it dies in turn.
func TestARunOfOtherManifestsClosesTheResourceToo(t *testing.T) {
	s := newSite(t)
	s.died("A")
	id, end := s.engine.Leave(s.labels("A", "create"))
	s.died("B") // meets A's action, and dies
	if err := s.engine.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_ = end
	c, err := runs.Begin(t.Context(), runs.Options{
		Log: s.log, Engine: s.engine, ID: "C", Target: "run/other.yaml", OrphanTimeout: s.patience, Notice: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.End()
	s.enter(c, nil)()
	for _, target := range []deploylog.Target{"run/web.yaml", "resource/db", "action/db/create"} {
		if open, err := s.log.InProgress(t.Context(), target); err != nil || len(open) > 0 {
			t.Errorf("%s is still in progress: %v, %v", target, open, err)
		}
	}
}

func TestAnActionCalledInitIsWaitedForLikeAnyOther(t *testing.T) {
	s := newSite(t)
	s.died("A", "init")
	_, end := s.engine.Leave(s.labels("A", "init"))
	b := s.begin("B")
	defer b.End()
	waited := false
	s.enter(b, func(string) { waited = true; end(0) })()
	if !waited {
		t.Error("it was not waited for")
	}
}

func TestObserversOfDeadRunsAreRemovedAndThoseOfLivingOnesAreNot(t *testing.T) {
	s := newSite(t)
	s.died("A")
	s.engine.Leave(s.labels("A", "state"))
	alive := s.begin("alive")
	defer alive.End()
	living, _ := s.engine.Leave(s.labels("alive", "state"))
	b := s.begin("B")
	defer b.End()
	s.enter(b, nil)()
	left, err := s.engine.Containers(t.Context(), nil)
	if err != nil || len(left) != 1 || left[0].ID != living {
		t.Errorf("left are %v, %v", left, err)
	}
}

// created is a container that the engine made for a run, and that nobody starts.
func (s *site) created(labels map[string]string) {
	s.Helper()
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
		left, err := s.engine.Containers(s.Context(), labels)
		if err != nil {
			s.Fatal(err)
		}
		if len(left) > 0 {
			return
		}
		runtime.Gosched()
	}
}

// An engine may make a container only after the run that asked for it has died.
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
			c, err := runs.Begin(t.Context(), runs.Options{Log: s.log, Engine: s.engine, ID: "C", Target: "run/other.yaml", Notice: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.End()
			s.wantNoContainers()
		})
	}
}

// A dead run may have asked for the start of what is not started yet: who enters the
// resource waits for it, and any other run leaves it alone.
func TestAContainerThatMayBeStartedForAnOpenActionIsLeftAlone(t *testing.T) {
	s := newSite(t)
	s.died("A")
	s.created(s.labels("A", "create"))
	c, err := runs.Begin(t.Context(), runs.Options{Log: s.log, Engine: s.engine, ID: "C", Target: "run/other.yaml", Notice: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	c.End()
	if left, err := s.engine.Containers(t.Context(), nil); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// stuck is an engine that cannot remove containers.
type stuck struct{ *enginetest.Fake }

func (stuck) Remove(context.Context, string) error { return errors.New("device or resource busy") }

func TestAContainerThatIsNotStartedAndCannotBeRemovedIsNoticed(t *testing.T) {
	s := newSite(t)
	s.created(s.labels("A", "state"))
	var notices []string
	c, err := runs.Begin(t.Context(), runs.Options{
		Log: s.log, Engine: stuck{s.engine}, ID: "C", Target: "run/other.yaml", Notice: func(text string) { notices = append(notices, text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	c.End()
	if want := "a container that run A never started was not removed: device or resource busy"; !slices.Equal(notices, []string{want}) {
		t.Errorf("the notices are %q", notices)
	}
}

func TestAContainerThatALivingRunHasNotStartedIsLeftAlone(t *testing.T) {
	s := newSite(t)
	s.died("A")
	alive := s.begin("alive")
	defer alive.End()
	s.created(s.labels("alive", "create"))
	s.begin("B").End()
	if left, err := s.engine.Containers(t.Context(), nil); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
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
		if err != nil {
			t.Error(err)
		}
		entered <- leave
	}()
	if text := <-waits; !strings.Contains(text, "another run") {
		t.Errorf("the user was told %q", text)
	}
	select {
	case <-entered:
		t.Fatal("two runs are at work on one resource")
	default:
	}
	leaveA()
	(<-entered)()
}

func TestWaitingForAResourceEndsWithTheContext(t *testing.T) {
	s := newSite(t)
	a, b := s.begin("A"), s.begin("B")
	defer a.End()
	defer b.End()
	defer s.enter(a, nil)()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := b.Enter(ctx, "db", func(string) { cancel() }); err == nil {
		t.Error("it entered")
	}
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
		if got := runs.RunTarget("/ws", tc.files); got != tc.want {
			t.Errorf("%v: got %s, want %s", tc.files, got, tc.want)
		}
	}
}

func TestARunLeavesNoLockBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	log, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for range 3 {
		r, err := runs.Watch(runs.Options{Log: log, ID: "RUN"})
		if err != nil {
			t.Fatal(err)
		}
		if !runs.Alive(log, "RUN") {
			t.Error("it is not known to be alive")
		}
		r.End()
		if runs.Alive(log, "RUN") {
			t.Error("it is alive after its end")
		}
		if left, err := os.ReadDir(path + ".locks"); len(left) > 0 || err != nil {
			t.Errorf("it left %v, %v", left, err)
		}
	}
}
