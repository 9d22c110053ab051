package runner_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner/report"
)

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
	if err == nil || !strings.Contains(err.Error(), "panic: out of cheese\n…\n") || !strings.Contains(err.Error(), "exit status 2") {
		t.Errorf("of a process is told %v", err)
	}

	w = newWorld(t)
	w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
		if slices.Contains(c.Args, "set") {
			stack(c.Stderr)
			return 2
		}
		return w.thing(ctx, c)
	})
	_, err = w.apply(t, "resources: {bad: {type: thing, config: {value: 1}}}")
	if err == nil || !strings.HasSuffix(err.Error(), `action "set" exited with 2: panic: out of cheese`) {
		t.Errorf("of an action is told %v", err)
	}
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
			w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
				for q := range p.questions {
					if q.Action == "state" && w.things["a"] == nil {
						p.say(`{"id":%d,"exit":0,"output":{"status":"STALE","actions":[{"name":"set","args":["set"]},{"name":"set","args":["set"]},{"name":"set#2","args":["set"]}]}}`+"\n", q.ID)
						continue
					}
					asked = append(asked, q.Action)
					p.answer(ctx, q)
				}
				return 0
			})
		}
		if _, err := w.apply(t, "resources: {a: {type: thing, config: {value: 1}}}"); err != nil {
			t.Fatal(err)
		}
		var started []string
		for _, e := range w.logged {
			if e.Kind == report.ActionStarted {
				started = append(started, fmt.Sprintf("%s %s %d", e.Action, e.Plan.Name, e.Attempt))
			}
		}
		if want := []string{"set set 1", "set#3 set 1", "set#2 set#2 1"}; !slices.Equal(started, want) {
			t.Errorf("started were %q, want %q", started, want)
		}
		if serves && !slices.Equal(asked, []string{"set", "set", "set#2", "state"}) {
			t.Errorf("the process was asked for %q", asked)
		}
	}
}
