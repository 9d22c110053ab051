package runner_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/report"
)

func TestAnIdleProcessIsEndedAndStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.engine.Images["thing"] = w.serving(good)
		running := -1
		w.yes = func(runner.Question) bool {
			<-time.After(time.Hour)
			synctest.Wait()
			running = 0
			for _, run := range w.engine.Runs() {
				if !run.Done {
					running++
				}
			}
			return true
		}
		got := w.mustApply(t, many(1, "thing"), func(o *options) { o.Confirm = runner.ConfirmAction })
		wantStatuses(t, got, map[string]report.Status{"r0": report.Changed})
		serving, _ := w.starts()
		assert.True(t, serving == 2 && running == 0, "%d processes were started, %d ran while nobody needed them", serving, running)
	})
}

func TestAProcessThatDoesNotEndIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
			good(ctx, p)
			<-ctx.Done()
			return 137
		})
		started := time.Now()
		w.mustApply(t, many(3, "thing"))
		took := time.Since(started)
		assert.True(t, took != 0 && took <= 10*time.Second, "it took %s", took)
		for _, run := range w.engine.Runs() {
			assert.True(t, run.Done, "it still runs")
		}
	})
}

func TestStopAbandonsObservationsAndCancelKillsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stop := make(chan struct{})
		w.engine.Images["thing"] = w.servingBut(func(_ *served, q question) bool {
			if q.Action == "state" && q.name() == "r0" {
				close(stop)
				synctest.Wait()
			}
			return false // the answer of r0 comes too late
		})
		started := time.Now()
		got, err := w.apply(t, many(2, "thing"), func(o *options) { o.Stop, o.Parallelism = stop, 1 })
		assert.ErrorIs(t, err, runner.ErrInterrupted)
		wantStatuses(t, got, map[string]report.Status{"r0": report.Failed, "r1": report.Skipped})
		assert.EqualValues(t, 0, time.Since(started))
		assert.Len(t, w.warnings(), 0)
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.engine.Images["thing"] = w.serving(func(run context.Context, p *served) int {
			for q := range p.questions {
				if q.Action == "set" {
					cancel()
					<-run.Done()
					return 137
				}
				p.answer(run, q)
			}
			return 0
		})
		started := time.Now()
		assert.ErrorIs(t, must.Fail(w.runner(t, many(1, "thing")).Apply(ctx)), runner.ErrInterrupted)
		assert.Contains(t, w.names(), "action-failed r0 set", "the log does not tell the truth")
		assert.EqualValues(t, 0, time.Since(started))
	})
}

// One process works for many resources: that the state of one takes too long must not cut short what is done to another.
func TestATimeoutOfAStateLetsTheActionsOfOthersFinish(t *testing.T) {
	for name, tc := range map[string]struct {
		acts    time.Duration // how long the action of slow would take
		late    bool          // the state is answered after that
		slow    report.Status
		says    string        // the error, besides that of the state
		ends    time.Duration // when the process does
		orderly bool          // it ends by itself
		told    int           // warnings
	}{
		"and then kills the process":                    {acts: 5 * time.Minute, slow: report.Changed, ends: 5*time.Minute + 2*time.Second, told: 1},
		"and drops an answer that is late":              {acts: 5 * time.Minute, late: true, slow: report.Changed, ends: 5 * time.Minute, orderly: true, told: 1},
		"unless the action takes too long itself":       {acts: time.Hour, slow: report.Failed, says: "did not answer set of slow: timed out after 10m0s", ends: 10 * time.Minute, told: 1},
		"and kills the process at once if nothing acts": {slow: report.Changed, ends: 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				started := time.Now()
				var ended time.Duration
				orderly := false
				w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
					defer func() { ended, orderly = time.Since(started), ctx.Err() == nil }()
					acted := make(chan struct{})
					var all sync.WaitGroup
					for q := range p.questions {
						all.Go(func() {
							switch {
							case q.Action == "state" && q.name() == "bad":
								if <-acted; !tc.late {
									<-ctx.Done()
								}
							case q.Action == "set" && q.name() == "slow":
								defer close(acted)
								select {
								case <-time.After(tc.acts):
								case <-ctx.Done():
								}
							}
							if ctx.Err() == nil {
								p.answer(ctx, q)
							}
						})
					}
					all.Wait()
					return 0
				})
				got, err := w.apply(t, `
resources:
  bad: {type: thing, timeout: 90s, config: {value: 1}}
  slow: {type: thing, timeout: 10m, config: {value: 2}}
  last: {type: thing, config: {value: 3}}`, func(o *options) { o.Parallelism, o.KeepGoing = 2, true })
				for _, want := range []string{"bad: ", "did not answer state of bad: timed out after 1m30s", tc.says} {
					assert.ErrorContains(t, err, want)
				}
				wantStatuses(t, got, map[string]report.Status{"bad": report.Failed, "slow": tc.slow, "last": report.Changed})
				assert.Equal(t, tc.ends, ended)
				assert.Equal(t, tc.orderly, orderly)
				serving, _ := w.starts()
				assert.Equal(t, 1, serving)
				told := w.warnings()
				if len(told) != tc.told || tc.told > 0 && !strings.Contains(told[0], "state of bad: timed out after 1m30s; from here on, its calls get containers of their own") {
					t.Errorf("told was %q", told)
				}
			})
		})
	}
}

// says is a process that prints something and goes on.
func says(format string) func(context.Context, *served, question) int {
	return func(_ context.Context, p *served, q question) int { p.say(format, q.ID); return -1 }
}

func TestAHostileProcess(t *testing.T) {
	long := strings.Repeat("x", 9<<20)
	for name, tc := range map[string]struct {
		action string // at which it turns bad
		does   func(ctx context.Context, p *served, q question) int
		want   []string
	}{
		"prints text":                   {"state", says("hello world\n"), []string{"what is no answer", "hello world"}},
		"prints a secret":               {"state", says("the token is hush-hush\n"), []string{"what is no answer", "the token is (secret)"}},
		"answers twice on one line":     {"state", says(`{"id":%d,"exit":0}{"id":1,"exit":0}` + "\n"), []string{"what is no answer", "two JSON documents"}},
		"answers what it was not asked": {"state", says(`{"id":9999,"exit":0}` + "\n"), []string{"answered request 9999, which it was not asked"}},
		"answers something answered":    {"set", says(`{"id":1,"exit":0}` + "\n"), []string{"answered request 1 twice"}},
		"answers no exit code":          {"state", says(`{"id":%d,"exit":256}` + "\n"), []string{"what is no answer", "exit"}},
		"answers before its exit":       {"state", says(`{"id":%d,"output":"{}"}` + "\n"), []string{"output before its exit"}},
		"answers no text":               {"set", says(`{"id":%d,"exit":0,"output":{"a":1}}` + "\n"), []string{"no string"}},
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
				require.Error(t, err, "it was accepted")
				for _, want := range append(tc.want, "bad: ", tc.action, "the process that serves thing (image sha256:") {
					assert.Contains(t, err.Error(), want, "%q does not say %q", err, want)
				}
				assert.NotContains(t, w.everything(t, err), "hush-hush", "a secret is told")
				wantStatuses(t, got, map[string]report.Status{"bad": report.Failed, "one": report.Changed, "two": report.Changed})
				if told := w.warnings(); len(told) != 1 || !strings.Contains(told[0], "containers of their own") {
					t.Errorf("that the others get containers is told as %q", told)
				}
				serving, _ := w.starts()
				assert.Equal(t, 1, serving)
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
	got := w.mustApply(t, many(1, "thing"), func(o *options) { o.Confirm = runner.ConfirmAction })
	wantStatuses(t, got, map[string]report.Status{"r0": report.Changed})
	told := w.warnings()
	assert.True(t, len(told) == 1 && strings.Contains(told[0], "answered request 1 twice"), "told was %q", told)
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
	require.ErrorAs(t, err, &failed)
	require.Len(t, failed.Causes, 3)
	for _, cause := range failed.Causes {
		assert.Contains(t, cause.Error(), "exited with 9", "got %v", cause)
	}
	changed := 0
	for _, status := range got {
		if status == report.Changed {
			changed++
		}
	}
	assert.Equal(t, 6, changed, "%d of the 6 others are there: %v", changed, got)
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
			for name, status := range w.mustApply(t, many(4, "thing"), func(o *options) { o.Pull = engine.PullNever }) {
				assert.Equal(t, report.Changed, status, "%s is %s", name, status)
			}
			told := w.warnings()
			assert.True(t, len(told) == 1 && strings.Contains(told[0], "containers of their own"), "told was %q", told)
		})
	}
}
