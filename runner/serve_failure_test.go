package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/report"
)

func TestAHostileProcess(t *testing.T) {
	long := strings.Repeat("x", 9<<20)
	for name, tc := range map[string]struct {
		action string // at which it turns bad
		does   func(ctx context.Context, p *served, q question) int
		want   []string
	}{
		"prints text": {"state", func(_ context.Context, p *served, q question) int {
			p.say("hello world\n", q.ID)
			return -1
		}, []string{"what is no answer", "hello world"}},
		"prints a secret": {"state", func(_ context.Context, p *served, q question) int {
			p.say("the token is hush-hush\n", q.ID)
			return -1
		}, []string{"what is no answer", "the token is (secret)"}},
		"answers twice on one line": {"state", func(_ context.Context, p *served, q question) int {
			p.say(`{"id":%d,"exit":0}{"id":1,"exit":0}`+"\n", q.ID)
			return -1
		}, []string{"what is no answer", "two JSON documents"}},
		"answers what it was not asked": {"state", func(_ context.Context, p *served, q question) int {
			p.say(`{"id":9999,"exit":0}`+"\n", q.ID)
			return -1
		}, []string{"answered request 9999, which it was not asked"}},
		"answers something answered": {"set", func(_ context.Context, p *served, q question) int {
			p.say(`{"id":1,"exit":0}`+"\n", q.ID)
			return -1
		}, []string{"answered request 1 twice"}},
		"answers no exit code": {"state", func(_ context.Context, p *served, q question) int {
			p.say(`{"id":%d,"exit":256}`+"\n", q.ID)
			return -1
		}, []string{"what is no answer", "exit"}},
		"answers before its exit": {"state", func(_ context.Context, p *served, q question) int {
			p.say(`{"id":%d,"output":"{}"}`+"\n", q.ID)
			return -1
		}, []string{"output before its exit"}},
		"answers no text": {"set", func(_ context.Context, p *served, q question) int {
			p.say(`{"id":%d,"exit":0,"output":{"a":1}}`+"\n", q.ID)
			return -1
		}, []string{"no string"}},
		"prints a line without end": {"state", func(ctx context.Context, p *served, q question) int {
			for range 12 { // 108 MB
				p.say(long, q.ID)
			}
			return -1
		}, []string{"a line of more than 8 MiB", "xxxx"}},
		"exits": {"state", func(_ context.Context, p *served, _ question) int {
			fmt.Fprintln(p.Stderr, "out of cheese, hush-hush")
			return 3
		}, []string{"exited with 3", "out of cheese, (secret)"}},
		"exits well": {"state", func(context.Context, *served, question) int { return 0 }, []string{"exited with 0"}},
		"is killed":  {"set", func(context.Context, *served, question) int { return 137 }, []string{"exited with 137 (killed)"}},
		"ends in the middle of a line": {"state", func(_ context.Context, p *served, q question) int {
			p.say(`{"id":%d,"exi`, q.ID)
			return 0
		}, []string{"what is no answer", "ends too early"}},
		"never answers": {"state", func(ctx context.Context, _ *served, _ question) int {
			<-ctx.Done()
			return 137
		}, []string{"did not answer state of bad: timed out after 1m30s"}},
		"never ends an action": {"set", func(ctx context.Context, p *served, q question) int {
			p.say(`{"id":%d,"output":"waiting for godot\n"}`+"\n", q.ID)
			<-ctx.Done()
			return 137
		}, []string{"did not answer set of bad: timed out after 1m30s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
					for q := range p.questions {
						if q.name() == "bad" && q.Action == tc.action {
							if code := tc.does(ctx, p, q); code >= 0 {
								return code
							}
							continue
						}
						p.answer(ctx, q)
					}
					return 0
				})
				got, err := w.apply(t, `
resources:
  bad: {type: thing, timeout: 90s, config: {value: 1, token: hush-hush}}
  one: {type: thing, config: {value: 1}}
  two: {type: thing, config: {value: 2}}`, func(o *options) { o.Parallelism, o.KeepGoing = 1, true })
				if err == nil {
					t.Fatal("it was accepted")
				}
				for _, want := range append(tc.want, "bad: ", tc.action, "the process that serves thing (image sha256:") {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
				if all := w.everything(t, err); strings.Contains(all, "hush-hush") {
					t.Error("a secret is told")
				}
				wantStatuses(t, got, map[string]report.Status{"bad": report.Failed, "one": report.Changed, "two": report.Changed})
				if told := w.warnings(); len(told) != 1 || !strings.Contains(told[0], "containers of their own") {
					t.Errorf("that the others get containers is told as %q", told)
				}
				if serving, _ := w.starts(); serving != 1 {
					t.Errorf("%d processes were started", serving)
				}
			})
		})
	}
}

func TestAProcessThatTurnsBadWhileNobodyWaitsIsNotAskedAgain(t *testing.T) {
	w := newWorld(t)
	bad, dead := make(chan struct{}), make(chan struct{})
	w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
		defer close(dead)
		q := <-p.questions
		p.answer(ctx, q)
		<-bad
		p.answer(ctx, q)
		<-ctx.Done()
		return 137
	})
	w.yes = func(runner.Question) bool {
		close(bad)
		<-dead
		return true
	}
	got, err := w.apply(t, many(1, "thing"), func(o *options) { o.Confirm = runner.ConfirmAction })
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, got, map[string]report.Status{"r0": report.Changed})
	if told := w.warnings(); len(told) != 1 || !strings.Contains(told[0], "answered request 1 twice") {
		t.Errorf("told was %q", told)
	}
}

func TestACrashFailsAllThatWait(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
		waiting := 0
		for q := range p.questions {
			if q.Action == "init" {
				p.answer(ctx, q)
			} else if waiting++; waiting == 3 {
				return 9
			}
		}
		return 0
	})
	got, err := w.apply(t, many(9, "thing"), func(o *options) { o.Parallelism, o.KeepGoing = 3, true })
	var failed *failure.Error
	if !errors.As(err, &failed) || len(failed.Causes) != 3 {
		t.Fatalf("got %v", err)
	}
	for _, cause := range failed.Causes {
		if !strings.Contains(cause.Error(), "exited with 9") {
			t.Errorf("got %v", cause)
		}
	}
	changed := 0
	for _, status := range got {
		if status == report.Changed {
			changed++
		}
	}
	if changed != 6 {
		t.Errorf("%d of the 6 others are there: %v", changed, got)
	}
}

func TestAProcessThatCanNotBeStarted(t *testing.T) {
	for name, serve := range map[string]string{
		"no such executable": `{"entrypoint":"/missing"}`,
		"no such image":      `{"image":"missing","args":["serve"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			good := image(func(ctx context.Context, c enginetest.Call) int {
				if len(c.Args) > 0 {
					return w.thing(ctx, c)
				}
				fmt.Fprintf(c.Stdout, `{"serve_action":%s,"state_action":{"args":["state"]}}`, serve)
				return 0
			})
			good.Executables = []string{"/type"}
			w.engine.Images["thing"] = good
			got, err := w.apply(t, many(4, "thing"), func(o *options) { o.Pull = engine.PullNever })
			if err != nil {
				t.Fatal(err)
			}
			for name, status := range got {
				if status != report.Changed {
					t.Errorf("%s is %s", name, status)
				}
			}
			if told := w.warnings(); len(told) != 1 || !strings.Contains(told[0], "containers of their own") {
				t.Errorf("told was %q", told)
			}
		})
	}
}
