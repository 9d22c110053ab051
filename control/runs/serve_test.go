package runs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner/report"
)

// closed is the story of a dead run once it is closed.
var closed = []string{
	"run-started run/web.yaml", "resource-started resource/db", "action-started action/db/create",
	"action-failed action/db/create abandoned", "resource-failed resource/db abandoned", "run-failed run/web.yaml abandoned",
}

func TestAProcessThatMayBeActingIsWaitedForBeforeTheResourceIsLookedAt(t *testing.T) {
	s := newSite(t)
	s.died("A")
	_, end := s.engine.Leave(s.serving("A"))
	b := s.begin("B")
	defer b.End()
	s.wantStory("A", closed[:3]...)

	waits := ""
	s.enter(b, func(text string) { waits = text; end(0) })()
	if !strings.Contains(waits, "run A") || !strings.Contains(waits, "serves") {
		t.Errorf("the user was told %q", waits)
	}
	s.wantStory("A", closed...)
	s.wantReason("A", "how this ended is not known")
	s.wantNoContainers()
}

// wantReason checks why an action has failed, as the log tells it.
func (s *site) wantReason(deployment, want string) {
	s.Helper()
	for e, err := range s.log.Read(s.Context(), deploylog.Filter{Deployment: deployment}) {
		if err != nil {
			s.Fatal(err)
		}
		if e.Name == string(report.ActionFailed) && !strings.Contains(string(e.Data), want) {
			s.Errorf("the log tells %s, not that %s", e.Data, want)
		}
	}
}

// Whoever looks whether a run is dead holds its lock for that long.
func TestAProcessThatMayBeActingIsWaitedForAlsoWhileAnotherRunLooks(t *testing.T) {
	s := newSite(t)
	s.died("A")
	_, end := s.engine.Leave(s.serving("A"))
	b := s.begin("B")
	defer b.End()
	unlock, err := s.log.TryLock("run/A")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	waited := false
	s.enter(b, func(string) { waited = true; end(0) })()
	if !waited {
		t.Error("the resource was entered in the middle of an action")
	}
	s.wantNoContainers()
}

func TestAProcessThatActsTooLongIsStopped(t *testing.T) {
	s := newSite(t)
	s.patience = time.Nanosecond
	s.died("A")
	s.engine.Leave(s.serving("A"))
	b := s.begin("B")
	defer b.End()
	s.enter(b, func(string) {})()
	s.wantStory("A", closed...)
	s.wantReason("A", "and is being stopped")
	s.wantNoContainers()
}

func TestAProcessThatActsForAnotherResourceIsLeftAlone(t *testing.T) {
	s := newSite(t)
	s.died("A")
	_, end := s.engine.Leave(s.serving("A"))
	b := s.begin("B")
	defer b.End()
	leave, err := b.Enter(t.Context(), "other", func(text string) { t.Errorf("it waits: %s", text) })
	if err != nil {
		t.Fatal(err)
	}
	leave()
	if left, err := s.engine.Containers(t.Context(), nil); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
	end(0)
}

func TestAProcessThatActsForNobodyIsRemovedAtOnce(t *testing.T) {
	s := newSite(t)
	for name, run := range map[string]func(){
		"of a run that ended its actions": func() {
			r := s.begin("A")
			s.record(r, report.Event{Kind: report.RunStarted}, report.Event{Kind: report.ResourceStarted, Resource: "db"},
				report.Event{Kind: report.ActionStarted, Resource: "db", Action: "create", Attempt: 1},
				report.Event{Kind: report.ActionFinished, Resource: "db", Action: "create", Attempt: 1})
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

func TestAProcessOfALivingRunIsLeftAlone(t *testing.T) {
	s := newSite(t)
	a := s.begin("A")
	defer a.End()
	s.engine.Leave(s.serving("A"))
	b := s.begin("B")
	defer b.End()
	s.enter(b, nil)()
	if left, err := s.engine.Containers(t.Context(), nil); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestAContainerMadeReadyForAnActionThatNeverBeganIsOnlyRemoved(t *testing.T) {
	s := newSite(t)
	s.died("A")
	s.engine.Leave(s.labels("A", "migrate"))
	b := s.begin("B")
	defer b.End()
	s.enter(b, func(string) {})()
	s.wantStory("A", closed...)
	s.wantNoContainers()
}
