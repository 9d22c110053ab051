package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

func TestParallelismIsABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.before = func(string, string) { <-time.After(time.Second) }
		var text strings.Builder
		text.WriteString("resources:\n")
		for i := range 20 {
			fmt.Fprintf(&text, "  r%d: {type: thing, config: {value: 1}}\n", i)
		}
		if _, err := w.apply(t, text.String(), func(o *options) { o.Parallelism = 5 }); err != nil {
			t.Fatal(err)
		}
		if got := w.engine.MaxRunning(); got != 5 {
			t.Errorf("%d containers ran at once, want 5", got)
		}
	})
}

func TestStopLetsTheRunningActionFinishAndStartsNothingNew(t *testing.T) {
	w := newWorld(t)
	stop := make(chan struct{})
	w.before = func(action, _ string) {
		if action == "set" {
			close(stop)
		}
	}
	got, err := w.apply(t, chain, func(o *options) { o.Stop, o.Parallelism = stop, 1 })
	if !errors.Is(err, runner.ErrInterrupted) {
		t.Errorf("got %v", err)
	}
	if w.things["db"] == nil {
		t.Error("the running action did not finish")
	}
	wantStatuses(t, got, map[string]report.Status{"db": report.Failed, "api": report.Skipped, "other": report.Skipped})
	if last := w.logged[len(w.logged)-1]; last.Kind != report.RunFailed || last.Data["interrupted"] != "true" {
		t.Errorf("the log ends with %+v", last)
	}
	if !slices.Contains(w.names(), "action-finished-successfully db set") {
		t.Errorf("the log does not tell that the action finished: %v", w.names())
	}
}

func TestACancelledContextKillsTheAction(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.engine.Images["hang"] = image(func(run context.Context, c enginetest.Call) int {
		switch {
		case len(c.Args) == 0:
			fmt.Fprint(c.Stdout, `{"state_action":{"args":["state"]}}`)
		case c.Args[0] == "state":
			fmt.Fprint(c.Stdout, `{"status":"STALE","actions":[{"name":"wait","args":["wait"]}]}`)
		default:
			cancel()
			<-run.Done()
		}
		return 0
	})
	_, err := w.runner(t, "resources: {db: {type: hang, config: {}}}").Apply(ctx)
	if !errors.Is(err, runner.ErrInterrupted) {
		t.Errorf("got %v", err)
	}
	names := w.names()
	if !slices.Contains(names, "action-failed db wait") || names[len(names)-1] != "run-failed" {
		t.Errorf("the log does not tell the truth: %v", names)
	}
}

func TestWhatCanNotBeRecordedIsNotDone(t *testing.T) {
	w := newWorld(t)
	w.before = func(action, _ string) {
		if action == "state" {
			w.told.Lock()
			defer w.told.Unlock()
			w.broken = errors.New("disk full")
		}
	}
	_, err := w.apply(t, chain)
	if err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v", err)
	}
	if w.runs("set") != 0 {
		t.Error("an action ran that could not be recorded")
	}
}

func TestWalkProperties(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(outer)
		n := rapid.IntRange(1, 12).Draw(t, "resources")
		depends := make([][]int, n)
		var text strings.Builder
		text.WriteString("resources:\n")
		for i := range n {
			var deps []string
			if i > 0 {
				depends[i] = rapid.SliceOfNDistinct(rapid.IntRange(0, i-1), 0, min(i, 3), rapid.ID).Draw(t, "dependencies")
			}
			for _, d := range depends[i] {
				deps = append(deps, fmt.Sprintf("d%d: r%d", d, d))
			}
			fmt.Fprintf(&text, "  r%d: {type: thing, dependencies: {%s}, config: {value: 1}}\n", i, strings.Join(deps, ", "))
			w.fail[fmt.Sprintf("r%d", i)] = rapid.IntRange(0, 3).Draw(t, "luck") == 0
		}
		parallelism := rapid.IntRange(1, 6).Draw(t, "parallelism")
		got, _ := w.apply(outer, text.String(), func(o *options) { o.KeepGoing, o.Parallelism = true, parallelism })

		want := make([]report.Status, n)
		for i := range n {
			want[i] = report.Changed
			if w.fail[fmt.Sprintf("r%d", i)] {
				want[i] = report.Failed
			}
			for _, d := range depends[i] {
				if want[d] != report.Changed {
					want[i] = report.Skipped
				}
			}
		}
		for i := range n {
			name := fmt.Sprintf("r%d", i)
			if got[name] != want[i] {
				t.Fatalf("%s is %s, want %s in %s", name, got[name], want[i], text.String())
			}
			for _, d := range depends[i] {
				if want[i] != report.Skipped && !before(w.trace, fmt.Sprintf("set r%d", d), "state "+name) {
					t.Fatalf("%s was looked at before r%d was applied: %v", name, d, w.trace)
				}
			}
		}
		if w.engine.MaxRunning() > parallelism {
			t.Fatalf("%d ran at once", w.engine.MaxRunning())
		}
	})
}
