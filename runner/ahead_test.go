package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// steps is a type whose resources need the actions a and b, each of which takes
// ten minutes. Each container tells what it does when its program begins.
func (w *world) steps(began func(action string) (exit int)) enginetest.FakeImage {
	done := 0
	return image(func(_ context.Context, c enginetest.Call) int {
		if len(c.Args) == 0 {
			fmt.Fprint(c.Stdout, `{"state_action":{"args":["state"]}}`)
			return 0
		}
		w.mu.Lock()
		exit, ready := began(c.Args[0]), done >= 2
		w.mu.Unlock()
		switch {
		case c.Args[0] != "state":
			<-time.After(10 * time.Minute)
			w.mu.Lock()
			done++
			w.mu.Unlock()
		case !ready:
			fmt.Fprint(c.Stdout, `{"status":"STALE","actions":[{"name":"a","args":["a"]},{"name":"b","args":["b"]}]}`)
		default:
			fmt.Fprint(c.Stdout, `{"status":"VALID","state":{}}`)
		}
		return exit
	})
}

// held lists what waits in the engine for its turn, by its argument.
func (w *world) held() []string {
	var actions []string
	for _, run := range w.engine.Runs() {
		if run.Spec.Hold == nil || run.Done {
			continue
		}
		select {
		case <-run.Spec.Hold:
		default:
			actions = append(actions, run.Spec.Args[0])
		}
	}
	return actions
}

func TestTheNextContainerIsMadeReadyWhileAnActionRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.engine.Images["steps"] = w.steps(func(action string) int {
			if action != "state" && !slices.Contains(w.names(), "action-started r0 "+action) {
				t.Errorf("%s runs before its start is recorded", action)
			}
			return 0
		})
		seen := map[string][]string{}
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			for _, during := range []string{"a", "b"} {
				<-time.After(7 * time.Minute)
				seen[during] = w.held()
			}
		}()
		got, err := w.apply(t, "resources: {r0: {type: steps, config: {}}}", func(o *options) { o.Parallelism = 1 })
		if err != nil {
			t.Fatal(err)
		}
		wantStatuses(t, got, map[string]report.Status{"r0": report.Changed})
		<-looked
		for during, want := range map[string]string{"a": "b", "b": "state"} {
			if !slices.Equal(seen[during], []string{want}) {
				t.Errorf("while %s ran, %v was ready", during, seen[during])
			}
		}
		if n := len(w.engine.Runs()); n != 5 {
			t.Errorf("%d containers were made, want 5", n)
		}
	})
}

func TestAContainerThatIsNotNeededNeverRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world, o *options)
		exit   int
		want   string
	}{
		"its predecessor fails": {func(*world, *options) {}, 7, "exited with 7"},
		"a person does not agree": {func(w *world, o *options) {
			o.Confirm = runner.ConfirmAction
			w.yes = func(q runner.Question) bool { return q.Actions[0].Name == "a" }
		}, 0, "declined"},
		"the run is stopped": {func(_ *world, o *options) {
			stop := make(chan struct{})
			o.Stop = stop
			time.AfterFunc(time.Minute, func() { close(stop) })
		}, 0, "interrupted"},
		"its start cannot be recorded": {func(w *world, _ *options) {
			time.AfterFunc(time.Minute, func() { w.told.Lock(); defer w.told.Unlock(); w.broken = errors.New("disk full") })
		}, 0, "disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.engine.Images["steps"] = w.steps(func(action string) int {
					if action == "b" {
						t.Error("b ran")
					}
					return tc.exit * len(strings.TrimPrefix(action, "state")) // of actions only
				})
				_, err := w.apply(t, "resources: {r0: {type: steps, config: {}}}", func(o *options) { tc.change(w, o) })
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v", err)
				}
				made := false
				for _, run := range w.engine.Runs() {
					made = made || run.Spec.Args != nil && run.Spec.Args[0] == "b"
					if !run.Done {
						t.Errorf("%v is still there", run.Spec.Args)
					}
				}
				if !made {
					t.Error("nothing was made ready")
				}
				if left, err := filepath.Glob(filepath.Join(w.workspace, ".deployster/work/RUN/r0/*-b*")); err != nil || len(left) > 0 {
					t.Errorf("kept was %v, %v", left, err)
				}
			})
		})
	}
}

func TestAContainerThatCanNotBeMadeReadyFailsWhenItIsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.engine.Images["steps"] = w.steps(func(string) int { return 0 })
		w.engine.Fail = func(spec engine.Spec) error {
			if spec.Hold != nil {
				return os.ErrPermission
			}
			return nil
		}
		_, err := w.apply(t, "resources: {r0: {type: steps, config: {}}}")
		if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "action b") {
			t.Errorf("got %v", err)
		}
		if names := w.names(); !slices.Contains(names, "action-finished-successfully r0 a") || !slices.Contains(names, "action-failed r0 b") {
			t.Errorf("the log tells %v", names)
		}
	})
}

func TestContainersThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		most := 0
		w.engine.Images["steps"] = w.steps(func(string) int { most = max(most, len(w.held())); return 0 })
		text := "resources:\n"
		for i := range 12 {
			text += fmt.Sprintf("  r%d: {type: steps, config: {}}\n", i)
		}
		looked := make(chan []string, 1)
		time.AfterFunc(7*time.Minute, func() { looked <- w.held() }) // the first three are at a
		// All share what is done, so that not all end well.
		_, _ = w.apply(t, text, func(o *options) { o.Parallelism, o.KeepGoing = 3, true })
		if during := <-looked; !slices.Equal(during, []string{"b", "b", "b"}) {
			t.Errorf("while three ran, %v were held", during)
		}
		if most > 3 || w.engine.MaxRunning() != 3 {
			t.Errorf("%d were held at once, %d ran", most, w.engine.MaxRunning())
		}
	})
}
