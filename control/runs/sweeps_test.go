package runs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

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
		return runs.Begin(t.Context(), runs.Options{
			Log: s.log, Engine: on, Sweeps: sweeps, ID: "RUN" + string(rune('A'+began)), Target: "run/web.yaml", OrphanTimeout: time.Minute,
			Notice: func(text string) { t.Log(text) },
		})
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
		if err != nil {
			t.Fatal(err)
		}
		if looked := on.count > before; looked != step.looks {
			t.Errorf("%s: it looked: %v, want %v", step.name, looked, step.looks)
		}
		r.End()
		if left, err := s.engine.Containers(t.Context(), nil); err != nil || (len(left) == 0) != step.looks {
			t.Errorf("after %s there are %v (%v)", step.name, left, err)
		}
	}
	other := &looks{Fake: &enginetest.Fake{}}
	other.err = errors.New("out of order")
	for range 2 {
		if _, err := begin(other); err == nil {
			t.Error("a run began on an engine that is out of order")
		}
	}
	other.err = nil
	r, err := begin(other)
	if err != nil {
		t.Fatal(err)
	}
	r.End()
	if other.count != 3 {
		t.Errorf("it was looked at %d times, want 3", other.count)
	}
}

// What a run has to wait for, it looks for by itself.
func TestARunWaitsForWhatItsResourcesHave(t *testing.T) {
	s := newSite(t)
	sweeps := runs.NewSweeps(time.Now)
	for i, id := range []string{"B", "C"} {
		s.died("A" + id)
		_, end := s.engine.Leave(s.labels("A"+id, "create"))
		r, err := runs.Begin(t.Context(), runs.Options{
			Log: s.log, Engine: s.engine, Sweeps: sweeps, ID: id, Target: "run/other.yaml", OrphanTimeout: time.Minute, Notice: func(string) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		waited := false
		s.enter(r, func(string) { waited = true; end(0) })()
		if !waited {
			t.Errorf("run %d did not wait", i)
		}
		r.End()
	}
}
