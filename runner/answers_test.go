package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range append(tc.want, "db") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
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
	if err == nil || !strings.Contains(err.Error(), "8 MiB") || !strings.Contains(err.Error(), "init") {
		t.Errorf("got %v", err)
	}
	if written > 64 {
		t.Errorf("%d MiB were taken", written)
	}
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
		if !errors.Is(err, engine.ErrTimeout) || !strings.Contains(err.Error(), `db: action wait`) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(started); took != 90*time.Second {
			t.Errorf("it took %s", took)
		}
		i := slices.IndexFunc(w.logged, func(e report.Event) bool { return e.Kind == report.ActionFailed })
		if i < 0 || !slices.Contains(w.logged[i].Output, "waiting for godot") {
			t.Error("its output is not in the log")
		}
	})
}

func TestAResourceThatStaysStaleFails(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["liar"] = answering(`{"state_action":{"args":["state"]}}`, `{"status":"STALE","staleState":{"a":1},"actions":[{"name":"nothing"}]}`, 0)
	_, err := w.apply(t, "resources: {db: {type: liar, config: {a: 2}}}")
	if err == nil || !strings.Contains(err.Error(), "STALE") || !strings.Contains(err.Error(), "~ a: 1 → 2") {
		t.Errorf("got %v", err)
	}
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
			got, err := w.apply(t, many(4, "thing"))
			if err != nil {
				t.Fatal(err)
			}
			for name, status := range got {
				if status != report.Changed {
					t.Errorf("%s is %s", name, status)
				}
			}
			told := map[string]int{} // y's by resource, action and stream
			for _, e := range w.events {
				if e.Kind == report.Line {
					told[strings.Join([]string{e.Resource, e.Action, e.Stream}, " ")] += strings.Count(e.Text, "y")
				}
			}
			if told["r0 state stderr"] != 2*len(long) || told["r0 set stdout"] != len(long) {
				t.Errorf("told was %v", told)
			}
		})
	}
}
