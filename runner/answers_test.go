package runner_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner/report"
)

func answering(init, state string, exit int) enginetest.FakeImage {
	return image(func(_ context.Context, c enginetest.Call) int {
		_, _ = io.Copy(io.Discard, c.Stdin)
		if len(c.Args) == 0 && init != "" {
			_, _ = io.WriteString(c.Stdout, init)
			return 0
		}
		_, _ = io.WriteString(c.Stdout, state)
		return exit
	})
}

func TestAnswersThatAreNotTheProtocol(t *testing.T) {
	const init = `{"state_action":{"args":["state"]}}`
	for name, tc := range map[string]struct {
		init, state string
		exit        int
		want        []string
	}{
		"empty init":            {"", "", 0, []string{"bad", "init"}},
		"init exits with 137":   {"", "", 137, []string{"init exited with 137 (killed)"}},
		"init without state":    {`{"plugs":{}}`, "", 0, []string{"init", "state_action"}},
		"empty state":           {init, "", 0, []string{"state", "stdout was empty"}},
		"two documents":         {init, `{"status":"VALID","state":{}} {"status":"VALID","state":{}}`, 0, []string{"state", `{"status"`}},
		"text before JSON":      {init, "hello\n" + `{"status":"VALID","state":{}}`, 0, []string{"state", "hello"}},
		"VALID with actions":    {init, `{"status":"VALID","state":{},"actions":[{"name":"x"}]}`, 0, []string{"state", "VALID", "actions"}},
		"STALE without actions": {init, `{"status":"STALE"}`, 0, []string{"state", "STALE", "actions"}},
		"unknown status":        {init, `{"status":"MAYBE","state":{}}`, 0, []string{"state", "MAYBE"}},
		"invalid UTF-8":         {init, "{\"status\":\"VALID\",\"state\":{\"a\":\"\xff\"}}", 0, []string{"state", "UTF-8"}},
		"state exits with 137":  {init, "half an ans", 137, []string{"state exited with 137", "half an ans"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.engine.Images["bad"] = answering(tc.init, tc.state, tc.exit)
			_, err := w.apply(t, "resources: {db: {type: bad, config: {}}}")
			require.Error(t, err, "it was accepted")
			for _, want := range append(tc.want, "db") {
				assert.Contains(t, err.Error(), want, "%q does not say %q", err, want)
			}
		})
	}
}

func TestAnswersAreBounded(t *testing.T) {
	w := newWorld(t)
	written := 0
	w.engine.Images["endless"] = image(func(_ context.Context, c enginetest.Call) int {
		block := []byte(strings.Repeat("x", 1<<20))
		for written = 0; written < 1<<10; written++ {
			if _, err := c.Stdout.Write(block); err != nil {
				return 1
			}
		}
		return 0
	})
	_, err := w.apply(t, "resources: {db: {type: endless, config: {}}}")
	assert.ErrorContains(t, err, "8 MiB")
	assert.ErrorContains(t, err, "init")
	assert.LessOrEqual(t, written, 64)
}

func TestAnActionThatHangsIsEndedByItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.engine.Images["hang"] = image(func(ctx context.Context, c enginetest.Call) int {
			switch {
			case len(c.Args) == 0:
				fmt.Fprint(c.Stdout, `{"state_action":{"args":["state"]}}`)
			case c.Args[0] == "state":
				fmt.Fprint(c.Stdout, `{"status":"STALE","actions":[{"name":"wait","args":["wait"]}]}`)
			default:
				fmt.Fprintln(c.Stdout, "waiting for godot")
				<-ctx.Done()
				return 137
			}
			return 0
		})
		started := time.Now()
		_, err := w.apply(t, "resources: {db: {type: hang, timeout: 90s, config: {}}}")
		assert.ErrorIs(t, err, engine.ErrTimeout)
		assert.ErrorContains(t, err, `db: action wait`)
		assert.EqualValues(t, 90*time.Second, time.Since(started))
		i := slices.IndexFunc(w.logged, func(e report.Event) bool { return e.Kind == report.ActionFailed })
		require.GreaterOrEqual(t, i, 0)
		assert.Contains(t, w.logged[i].Output, "waiting for godot")
	})
}

func TestAResourceThatStaysStaleFails(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["liar"] = answering(`{"state_action":{"args":["state"]}}`, `{"status":"STALE","staleState":{"a":1},"actions":[{"name":"nothing"}]}`, 0)
	_, err := w.apply(t, "resources: {db: {type: liar, config: {a: 2}}}")
	assert.ErrorContains(t, err, "STALE")
	assert.ErrorContains(t, err, "~ a: 1 → 2")
}

// Whoever prints it, a line that is longer than is kept is shown in parts.
func TestALineOfAnyLengthEndsNothing(t *testing.T) {
	long := strings.Repeat("y", 200_000)
	for name, make := range map[string]func(w *world, p enginetest.Program) enginetest.FakeImage{
		"containers": func(_ *world, p enginetest.Program) enginetest.FakeImage { return image(p) },
		"served": func(w *world, p enginetest.Program) enginetest.FakeImage {
			return w.serving(func(ctx context.Context, s *served) int {
				fmt.Fprintln(s.Stderr, long)
				for q := range s.questions {
					if q.Action == "state" {
						s.say(`{"id":%d,"stderr":"`+long+`"}`+"\n", q.ID)
					}
					if q.Action == "set" {
						s.say(`{"id":%d,"output":"`+long+`"}`+"\n", q.ID)
					}
					s.answer(ctx, q)
				}
				return 0
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.engine.Images["thing"] = make(w, func(ctx context.Context, c enginetest.Call) int {
				if len(c.Args) > 0 {
					fmt.Fprintln(c.Stderr, long)
					if c.Args[0] == "set" {
						fmt.Fprintln(c.Stdout, long)
					}
				}
				return w.thing(ctx, c)
			})
			got := w.mustApply(t, many(4, "thing"))
			for name, status := range got {
				assert.Equal(t, report.Changed, status, "%s is %s", name, status)
			}
			told := map[string]int{} // y's by resource, action and stream
			for _, e := range w.events {
				if e.Kind == report.Line {
					told[strings.Join([]string{e.Resource, e.Action, e.Stream}, " ")] += strings.Count(e.Text, "y")
				}
			}
			assert.Equal(t, 2*len(long), told["r0 state stderr"])
			assert.Equal(t, len(long), told["r0 set stdout"])
		})
	}
}

// stack is what a Go program says last: what happened, and where it was.
func stack(to io.Writer) {
	fmt.Fprint(to, "some news\npanic: out of cheese\n\ngoroutine 1 [running]:\n")
	for i := range 40 {
		fmt.Fprintf(to, "main.f%d()\n\t/src/main.go:%d +0x1d\n", i, i)
	}
	fmt.Fprintln(to, "exit status 2")
}

func TestACrashIsToldByWhatHappened(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
		for q := range p.questions {
			if q.Action == "state" {
				stack(p.Stderr)
				return 2
			}
			p.answer(ctx, q)
		}
		return 0
	})
	_, err := w.apply(t, "resources: {bad: {type: thing, config: {value: 1}}}")
	assert.ErrorContains(t, err, "panic: out of cheese\n…\n")
	assert.ErrorContains(t, err, "exit status 2")

	w = newWorld(t)
	w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
		if slices.Contains(c.Args, "set") {
			stack(c.Stderr)
			return 2
		}
		return w.thing(ctx, c)
	})
	_, err = w.apply(t, "resources: {bad: {type: thing, config: {value: 1}}}")
	assert.Error(t, err)
	assert.True(t, strings.HasSuffix(err.Error(), `action "set" exited with 2: panic: out of cheese`))
	for _, e := range w.logged {
		if e.Kind == report.ActionFailed && (e.Output[0] != "panic: out of cheese" || e.Output[len(e.Output)-1] != "exit status 2" || len(e.Output) > 20) {
			t.Errorf("recorded was %q", e.Output)
		}
	}
}

// Several actions of one name are no attempts at one, and yet are told apart.
func TestActionsOfOneName(t *testing.T) {
	for _, serves := range []bool{false, true} {
		w := newWorld(t)
		var asked []string
		thing := func(ctx context.Context, c enginetest.Call) int {
			if len(c.Args) == 0 || c.Args[0] == "serve" {
				return w.thing(ctx, c)
			}
			if c.Args[0] == "state" && w.things["a"] == nil {
				fmt.Fprint(c.Stdout, `{"status":"STALE","actions":[{"name":"set","args":["set","1"]},{"name":"set","args":["set","2"]},{"name":"set#2","args":["set","3"]}]}`)
				return 0
			}
			return w.thing(ctx, c)
		}
		w.engine.Images["thing"] = image(thing)
		if serves {
			w.engine.Images["thing"] = w.servingBut(func(p *served, q question) bool {
				first := q.Action == "state" && w.things["a"] == nil
				if first {
					p.say(`{"id":%d,"exit":0,"output":{"status":"STALE","actions":[{"name":"set","args":["set"]},{"name":"set","args":["set"]},{"name":"set#2","args":["set"]}]}}`+"\n", q.ID)
				} else {
					asked = append(asked, q.Action)
				}
				return first
			})
		}
		w.mustApply(t, "resources: {a: {type: thing, config: {value: 1}}}")
		var started []string
		for _, e := range w.logged {
			if e.Kind == report.ActionStarted {
				started = append(started, fmt.Sprintf("%s %s %d", e.Action, e.Plan.Name, e.Attempt))
			}
		}
		assert.Equal(t, []string{"set set 1", "set#3 set 1", "set#2 set#2 1"}, started)
		if serves && !slices.Equal(asked, []string{"set", "set", "set#2", "state"}) {
			t.Errorf("the process was asked for %q", asked)
		}
	}
}
