package runner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/runner"
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
		got, err := w.apply(t, many(1, "thing"), func(o *options) { o.Confirm = runner.ConfirmAction })
		if err != nil {
			t.Fatal(err)
		}
		wantStatuses(t, got, map[string]report.Status{"r0": report.Changed})
		if serving, _ := w.starts(); serving != 2 || running != 0 {
			t.Errorf("%d processes were started, %d ran while nobody needed them", serving, running)
		}
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
		if _, err := w.apply(t, many(3, "thing")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); took == 0 || took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
		for _, run := range w.engine.Runs() {
			if !run.Done {
				t.Error("it still runs")
			}
		}
	})
}

func TestStopAbandonsObservationsAndCancelKillsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stop := make(chan struct{})
		w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
			for q := range p.questions {
				if q.Action == "state" && q.name() == "r0" {
					close(stop)
					synctest.Wait()
				}
				p.answer(ctx, q) // that of r0 comes too late
			}
			return 0
		})
		started := time.Now()
		got, err := w.apply(t, many(2, "thing"), func(o *options) { o.Stop, o.Parallelism = stop, 1 })
		if !errors.Is(err, runner.ErrInterrupted) {
			t.Errorf("got %v", err)
		}
		wantStatuses(t, got, map[string]report.Status{"r0": report.Failed, "r1": report.Skipped})
		if took := time.Since(started); took != 0 {
			t.Errorf("it took %s", took)
		}
		if told := w.warnings(); len(told) != 0 {
			t.Errorf("told was %q", told)
		}
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
		_, err := w.runner(t, many(1, "thing")).Apply(ctx)
		if !errors.Is(err, runner.ErrInterrupted) {
			t.Errorf("got %v", err)
		}
		if names := w.names(); !slices.Contains(names, "action-failed r0 set") {
			t.Errorf("the log does not tell the truth: %v", names)
		}
		if took := time.Since(started); took != 0 {
			t.Errorf("it took %s", took)
		}
	})
}

// One process works for many resources: that the state of one takes too long
// must not cut short what is done to another.
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
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%v does not say %q", err, want)
					}
				}
				wantStatuses(t, got, map[string]report.Status{"bad": report.Failed, "slow": tc.slow, "last": report.Changed})
				if ended != tc.ends || orderly != tc.orderly {
					t.Errorf("the process ended after %s, by itself %t; want %s, %t", ended, orderly, tc.ends, tc.orderly)
				}
				if serving, _ := w.starts(); serving != 1 {
					t.Errorf("%d processes were started", serving)
				}
				told := w.warnings()
				if len(told) != tc.told || tc.told > 0 && !strings.Contains(told[0], "state of bad: timed out after 1m30s; from here on, its calls get containers of their own") {
					t.Errorf("told was %q", told)
				}
			})
		})
	}
}
