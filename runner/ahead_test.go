package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		got := w.mustApply(t, "resources: {r0: {type: steps, config: {}}}", func(o *options) { o.Parallelism = 1 })
		wantStatuses(t, got, map[string]report.Status{"r0": report.Changed})
		<-looked
		for during, want := range map[string]string{"a": "b", "b": "state"} {
			assert.Equal(t, []string{want}, seen[during])
		}
		assert.Equal(t, 5, len(w.engine.Runs()))
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
					assert.NotEqual(t, "b", action, "b ran")
					return tc.exit * len(strings.TrimPrefix(action, "state")) // of actions only
				})
				_, err := w.apply(t, "resources: {r0: {type: steps, config: {}}}", func(o *options) { tc.change(w, o) })
				assert.ErrorContains(t, err, tc.want)
				made := false
				for _, run := range w.engine.Runs() {
					made = made || run.Spec.Args != nil && run.Spec.Args[0] == "b"
					assert.True(t, run.Done)
				}
				assert.True(t, made, "nothing was made ready")
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
		assert.ErrorIs(t, err, os.ErrPermission)
		assert.ErrorContains(t, err, "action b")
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
		assert.Equal(t, []string{"b", "b", "b"}, <-looked, "while three ran")
		assert.LessOrEqual(t, most, 3)
		assert.Equal(t, 3, w.engine.MaxRunning())
	})
}

// What a type says of its network it says of its own image, and whoever runs it has the last word.
func TestATypeThatNeedsNoNetworkGetsNone(t *testing.T) {
	const plain = `"network":"none",`
	for name, c := range map[string]struct {
		members string // of the answer to init
		network string // that the run is given
		want    map[string]string
	}{
		"in containers of its own":       {plain, "", map[string]string{"init": "", "state": "offline", "set": "offline", "tool": ""}},
		"as a process":                   {plain + serves, "", map[string]string{"init": "", "serve": "offline", "tool": ""}},
		"as a process of another image":  {plain + `"serve_action":{"image":"server","args":["serve"]},`, "", map[string]string{"init": "", "serve": "", "tool": ""}},
		"that nobody asked it about":     {"", "", map[string]string{"init": "", "state": "", "set": "", "tool": ""}},
		"unless the run is to have one":  {plain, "lan", map[string]string{"init": "lan", "state": "lanoffline", "set": "lanoffline", "tool": "lan"}},
		"unless its process is to, also": {plain + serves, "lan", map[string]string{"init": "lan", "serve": "lanoffline", "tool": "lan"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.engine.Images["thing"] = w.tooled(c.members)
			w.engine.Images["server"] = w.engine.Images["thing"]
			w.engine.Images["tool"] = image(func(context.Context, enginetest.Call) int { return 0 })
			statuses, err := w.apply(t, "resources: {a: {type: thing, config: {value: 1}}}", func(o *options) {
				o.Network = c.network
			})
			require.NoError(t, err)
			wantStatuses(t, statuses, map[string]report.Status{"a": report.Changed})
			got := map[string]string{}
			for _, run := range w.engine.Runs() {
				name := "init"
				if len(run.Spec.Args) > 0 {
					name = run.Spec.Args[0]
				}
				network := run.Spec.Network
				if run.Spec.Offline {
					network += "offline"
				}
				if before, twice := got[name]; twice && before != network {
					t.Errorf("%s ran in the network %q and in %q", name, before, network)
				}
				got[name] = network
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// tooled is the good type, with these members in its answer to init, and a tool of another image
// as its first action.
func (w *world) tooled(members string) enginetest.FakeImage {
	return image(func(ctx context.Context, c enginetest.Call) int {
		if len(c.Args) == 0 {
			c.Stdout = replaced{c.Stdout, "{\n", "{" + members}
			return w.thing(ctx, c)
		}
		c.Stdout = replaced{c.Stdout, `"actions":[`, `"actions":[{"name":"tool","image":"tool","args":["tool"]},`}
		if c.Args[0] == "serve" {
			return w.serving(good).Program(ctx, c)
		}
		return w.thing(ctx, c)
	})
}

// replaced writes something else in place of a text.
type replaced struct {
	io.Writer
	old, new string
}

// Write implements io.Writer.
func (r replaced) Write(p []byte) (int, error) {
	_, err := r.Writer.Write(bytes.Replace(p, []byte(r.old), []byte(r.new), 1))
	return len(p), err
}
