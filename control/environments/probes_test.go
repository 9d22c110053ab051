package environments_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
)

func TestATaskThatDiesIsStartedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		hint   bool
		within time.Duration
	}{"at the next probe": {false, 32 * time.Second}, "at once after a hint": {true, 2 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.active("web", "a", "b")
				w.start()
				wait(time.Hour + 17*time.Second)
				died := time.Now()
				w.becomes("a", "web:1", tasks.Unhealthy)
				if c.hint {
					w.hint("a")
				}
				wait(time.Minute)
				w.wantRows("web", "1 Active 2 2")
				assert.LessOrEqual(t, w.when(record.TaskFinished, 3).Sub(died), c.within)
			})
		})
	}
}

func TestNothingHealthyIsStoppedBeforeAllTasksWereProbed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.active("web", "a", "b")
		w.becomes("a", "web:1", tasks.Unhealthy)
		w.redeployed(1, daemon("web", image("2")))
		answer := make(chan struct{})
		w.probing = func(_ context.Context, t tasks.Task) {
			if t.Host == "a" {
				<-answer
			}
		}
		w.least = 2
		w.start()
		wait(30 * time.Second)
		assert.LessOrEqual(t, len(w.hasDone()), 2, "%q", w.hasDone())
		close(answer)
		wait(5 * time.Minute)
		w.wantRows("web", "1 Inactive 0 0; 2 Active 2 2")
		assert.Positive(t, w.least, "hosts with a healthy task")
	})
}

func TestAProbeThatHangsHoldsNothingElseUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Parallelism = 2
		w.active("web", "a", "b", "c")
		w.probing = func(ctx context.Context, t tasks.Task) {
			if t.Host == "a" {
				<-ctx.Done()
			}
		}
		w.start()
		wait(10 * time.Second)
		w.becomes("b", "web:1", tasks.Unhealthy)
		w.deployed(daemon("db"), "a", "d")
		wait(40 * time.Second)
		w.wantRows("web", "1 Active 3 3")
		w.wantRows("db", "1 Active 2 2")
		w.wantCount(1, record.TaskDied)
		wait(time.Minute)
		assert.NotZero(t, w.count(record.TaskLost), "a host that does not answer is waited for without end")
	})
}

func TestEveryTaskIsProbedInTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		var hosts []string
		for i := range 60 {
			hosts = append(hosts, fmt.Sprintf("h%02d", i))
		}
		w.active("web", hosts...)
		w.start()
		wait(time.Minute)
		at, most, last := 0, 0, time.Time{}
		w.set(func() {
			clear(w.probes)
			w.probing = func(context.Context, tasks.Task) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if second := time.Now().Truncate(time.Second); !second.Equal(last) {
					at, last = 0, second
				}
				at++
				most = max(most, at)
			}
		})
		wait(10 * time.Minute)
		for _, h := range hosts {
			assert.InDelta(t, 20, w.probesOf(h+" web:1"), 1, h)
		}
		assert.LessOrEqual(t, most, 10, "probes in one second, of 2 on average")
	})
}

func TestABurstOfHintsIsOneProbe(t *testing.T) {
	inWorld(t, func(w *world) {
		w.active("web", "a")
		w.start()
		wait(time.Minute)
		before := w.probesOf("a web:1")
		for range 100 {
			w.hint("a")
			wait(time.Millisecond)
		}
		wait(300 * time.Millisecond)
		assert.InDelta(t, 2.5, w.probesOf("a web:1")-before, 0.5)
		busy, before := make(chan struct{}), w.probesOf("a web:1")
		w.set(func() { w.probing = func(context.Context, tasks.Task) { <-busy } })
		for range 5 {
			w.hint("a")
			wait(time.Second)
		}
		close(busy)
		wait(time.Second)
		assert.Equal(t, 2, w.probesOf("a web:1")-before, "it was probed")
	})
}

func TestAHostIsNotProbedWhileItIsWorkedOn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployed(daemon("web", surge), "a")
		w.untilIdle()
		w.start()
		wait(time.Minute)
		w.slowly(5 * time.Minute)
		w.redeployed(1, daemon("web", surge, image("2")))
		wait(time.Second)
		before := w.probesOf("a web:1")
		wait(4 * time.Minute)
		assert.Equal(t, before, w.probesOf("a web:1"))
		wait(8 * time.Minute)
		w.wantRows("web", "1 Inactive 0 0; 2 Active 1 1")
		assert.NotZero(t, w.probesOf("a web:2"), "after that")
	})
}

func TestWhatWasSeenBeforeSomethingHappenedIsOfNoInterest(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(daemon("web", func(d *definition.Definition) {
			d.Deployment.MinHealthyTime = definition.Duration(40 * time.Second)
		}), "a")
		w.deploy("web", 1)
		slow := atomic.Int32{}
		w.options.Tasks = belated{worker{w, "first"}, &slow}
		w.start()
		wait(5 * time.Minute)
		assert.Greater(t, slow.Load(), int32(1))
		w.wantCount(1, record.TaskFinished)
		w.wantCount(0, record.TaskDied, record.TaskFailed)
	})
}

// belated tells at first that all is bad, long after it has probed.
type belated struct {
	worker
	probes *atomic.Int32
}

func (b belated) Observe(ctx context.Context, t tasks.Task) tasks.ProbeResult {
	if b.probes.Add(1) == 1 {
		<-time.After(39 * time.Second)
		return tasks.ProbeResult{Health: tasks.Unhealthy}
	}
	return b.worker.Observe(ctx, t)
}

// forgetful ends its watches at once.
type forgetful struct {
	worker
	watches chan time.Time
}

func (f forgetful) Watch(ctx context.Context, _ string, _ func()) {
	select {
	case f.watches <- time.Now():
	case <-ctx.Done():
	}
}

func TestAHostIsWatchedAgainAfterAPauseThatGrowsWhileItHasTasks(t *testing.T) {
	inWorld(t, func(w *world) {
		w.active("web", "a")
		watches := make(chan time.Time, 1000)
		w.options.Tasks = forgetful{worker{w, "first"}, watches}
		w.start()
		wait(10 * time.Minute)
		var pauses []time.Duration
		for last := <-watches; len(watches) > 0; {
			next := <-watches
			pauses = append(pauses, next.Sub(last))
			last = next
		}
		if want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}; len(pauses) < len(want) || !slices.EqualFunc(pauses[:len(want)], want, func(got, want time.Duration) bool { return got == want*time.Second }) {
			t.Errorf("the pauses were %s", pauses)
		}
		w.do("web", environment.Delete{TerminateTasks: true})
		wait(time.Minute)
		for len(watches) > 0 {
			<-watches
		}
		wait(10 * time.Minute)
		assert.Empty(t, watches, "it has no task")
	})
}

func TestAProbeThatOutdatesAConfirmationKeepsNobodyWaiting(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(daemon("web", func(d *definition.Definition) {
			d.Deployment.MinHealthyTime = definition.Duration(35 * time.Second)
		}), "a")
		probes := atomic.Int32{}
		w.probing = func(context.Context, tasks.Task) {
			switch probes.Add(1) {
			case 1: // from time to time: it begins before the confirmation
				<-time.After(45 * time.Second)
				w.becomes("a", "web:1", tasks.Unhealthy)
			case 2: // the confirmation, which ends after it
				<-time.After(50 * time.Second)
			}
		}
		w.deploy("web", 1)
		w.start()
		wait(4 * time.Minute)
		w.wantRows("web", "1 Active 1 1")
	})
}

func TestWhatIsKnownOfTasksIsOldWhenTheClockWasSet(t *testing.T) {
	for name, by := range map[string]time.Duration{"back": -24 * time.Hour, "forward, or the process was stopped": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.active("web", "a", "b")
				set := atomic.Int64{}
				w.options.Now = func() time.Time { return time.Now().Add(time.Duration(set.Load())) }
				w.start()
				wait(time.Hour)
				answer := make(chan struct{})
				w.set(func() {
					w.probing = func(_ context.Context, t tasks.Task) {
						if t.Host == "a" {
							<-answer
						}
					}
				})
				set.Store(int64(by))
				probes := w.probesOf("b web:1")
				wait(2 * time.Second)
				assert.Greater(t, w.probesOf("b web:1"), probes)
				before := len(w.hasDone())
				w.redeployed(1, daemon("web", image("2")))
				wait(10 * time.Second)
				assert.Len(t, w.hasDone(), before)
				close(answer)
				wait(time.Minute)
				w.wantRows("web", "1 Inactive 0 0; 2 Active 2 2")
			})
		})
	}
}

func verified(d *definition.Definition) {
	d.Deployment.MinHealthyPercent = 0
	d.Deployment.Steps = []definition.Wave{{Hosts: budget.Budget{Count: 1}, Pause: new(definition.Duration), Verify: "smoke.yaml"}}
}

// tests counts what verifies, of which there is never more than one at once, and lasts until it is ended or so long.
func (w *world) tests(lasts time.Duration, result error) (begun, ended *int) {
	begun, ended = new(int), new(int)
	running := 0
	w.verify = func(ctx context.Context, v environment.Verification) error {
		w.set(func() {
			*begun++
			if running++; running > 1 || v.Manifest != "smoke.yaml" || len(v.Hosts) != 1 || v.Step != 1 {
				w.Errorf("%d verify at once, the last %+v", running, v)
			}
		})
		defer w.set(func() { running--; *ended++ })
		select {
		case <-time.After(lasts):
			return result
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return begun, ended
}

func TestWhatVerifiesIsTakenUpAgainByTheNextController(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(*running)
		tries int
	}{"of one that is stopped, which lets it end": {(*running).end, 1}, "of one that dies": {(*running).die, 2}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				begun, ended := w.tests(time.Minute, nil)
				w.deployed(daemon("web", verified), "a", "b")
				first := w.start()
				wait(30 * time.Second)
				c.end(first)
				w.options.Tasks = worker{w, "second"}
				w.start()
				wait(2 * time.Minute)
				w.wantRows("web", "1 Active 2 2")
				assert.Equal(t, []int{c.tries, c.tries}, []int{*begun, *ended})
				w.wantCount(c.tries, record.StepVerifying)
				w.wantCount(1, record.StepVerified)
				w.wantCount(0, record.StepVerifyFailed)
			})
		})
	}
}

func TestWhatVerifiesEndsWithItsDeploymentAndItsStep(t *testing.T) {
	for name, change := range map[string]func(*world){
		"a rollback":          func(w *world) { w.rollback("web", 1) },
		"another revision":    func(w *world) { w.redeployed(2, daemon("web", image("3"))) },
		"its end":             func(w *world) { w.do("web", environment.Delete{}) },
		"a host that is sick": func(w *world) { w.becomes("a", "web:2", "unhealthy"); w.hint("a") },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, ended := w.tests(5*time.Minute, nil)
				w.active("web", "a", "b")
				w.redeployed(1, daemon("web", image("2"), verified))
				w.start()
				wait(30 * time.Second)
				change(w)
				wait(2 * time.Second)
				assert.Equal(t, 1, *ended)
				wait(time.Minute)
				w.wantCount(0, record.EnvironmentStuck, record.StepVerifyFailed)
				w.wantCount(1, record.StepVerifyEnded)
			})
		})
	}
}

// What verifies a step only waits for most of its time: it keeps nobody from bringing back what
// has died, and yet there are no more of it at once than there are slots.
func TestWhatVerifiesTakesNoSlotOfTheWorkOnHosts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Parallelism = 1
		running, most := 0, 0
		w.verify = func(context.Context, environment.Verification) error {
			w.set(func() { running++; most = max(most, running) })
			defer w.set(func() { running-- })
			<-time.After(5 * time.Minute)
			return nil
		}
		w.active("log", "a")
		for _, name := range []string{"shop", "web"} {
			w.deployed(daemon(name, verified), "a", "b")
		}
		w.start()
		wait(time.Minute)
		w.becomes("a", "log:1", "unhealthy")
		w.hint("a")
		wait(time.Minute)
		w.wantRows("log", "1 Active 1 1")
		assert.Equal(t, 1, running, "verify")
		w.wantCount(1, record.TaskDied)
		wait(10 * time.Minute)
		assert.Equal(t, 1, most, "have verified at once")
		w.wantCount(2, record.StepVerified)
	})
}

// What the log refuses to begin does not count as begun: others would wait for its end forever.
func TestWhatIsRefusedKeepsNobodyFromBeingVerified(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Parallelism = 1
		w.tests(time.Second, nil)
		w.options.Log = &reconciletest.Hooked{Log: w.DeployLog, Event: record.StepVerifying, Hook: reconciletest.Refuse(record.Target("shop"))}
		for _, name := range []string{"shop", "web"} {
			w.deployed(daemon(name, verified), name+"1", name+"2")
		}
		w.start()
		wait(time.Minute)
		w.wantRows("web", "1 Active 2 2")
		w.wantCount(1, record.StepVerified)
	})
}

// Who waits for others is next when its time has come, also where others ask again and again.
func TestStepsAreVerifiedInTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Parallelism = 1
		var order []string
		w.verify = func(_ context.Context, v environment.Verification) error {
			w.set(func() { order = append(order, v.Environment) })
			<-time.After(time.Minute)
			if v.Environment != order[0] {
				return nil
			}
			return errors.New("no answer")
		}
		for _, name := range []string{"a", "b", "c"} {
			w.deployed(daemon(name, verified), name+"1", name+"2")
		}
		w.start()
		wait(10 * time.Minute)
		if len(order) != 5 || order[1] == order[0] || order[2] == order[0] || order[3] != order[0] || order[4] != order[0] {
			t.Errorf("they were verified in the order %q, and not each once before the first again; the log tells\n%s", order, strings.Join(w.story(), "\n"))
		}
	})
}

func TestADeploymentThatCannotBeVerifiedIsStuckOrRolledBack(t *testing.T) {
	for name, c := range map[string]struct {
		configure  []func(*definition.Definition)
		lasts      time.Duration
		says, rows string
	}{
		"stuck":       {nil, time.Second, "step 1 of 1 could not be verified by smoke.yaml: no answer", "1 Undeploying 0 2; 2 Stuck 3 1"},
		"rolled back": {[]func(*definition.Definition){func(d *definition.Definition) { d.Deployment.AutoRollback = true }}, time.Second, "no answer", "1 Active 3 3; 2 Reverted 0 0"},
		"it hangs":    {nil, time.Hour, "not done within 10m, so it was ended", "1 Undeploying 0 2; 2 Stuck 3 1"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				begun, _ := w.tests(c.lasts, errors.New("no answer"))
				w.active("web", "a", "b", "c")
				w.redeployed(1, daemon("web", append(c.configure, image("2"), verified)...))
				w.untilIdle()
				w.wantRows("web", c.rows)
				assert.Equal(t, 3, *begun)
				w.wantCount(1, record.EnvironmentStuck)
				assert.Contains(t, w.cause(record.EnvironmentStuck), c.says)
			})
		})
	}
}

func (w *world) cause(name string) (cause string) {
	for _, e := range w.Events() {
		if e.Name == name {
			cause = record.Cause(e)
		}
	}
	return cause
}

// confirming confirms what is as it was when it was probed last.
type confirming struct {
	worker
	known *map[string]tasks.ProbeResult
}

func (c confirming) Observe(ctx context.Context, t tasks.Task) tasks.ProbeResult {
	seen := c.worker.Observe(ctx, t)
	c.set(func() { (*c.known)[t.Host+" "+nameOf(t)] = seen })
	return seen
}

func (c confirming) Confirm(_ context.Context, host string, all []tasks.Task) map[int]tasks.ProbeResult {
	well := map[int]tasks.ProbeResult{}
	for i, t := range all {
		now := c.see(t)
		assert.Equal(c, host, t.Host)
		if known, is := under(c.world, func() tasks.ProbeResult { return (*c.known)[host+" "+nameOf(t)] }), now.Health == tasks.Healthy; is && known == now {
			well[i] = now
		}
	}
	return well
}

func TestTasksThatAreConfirmedAreNotProbed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.active("web", "a", "b")
		w.active("api", "a", "b")
		before := under(w, func() map[string]int { return maps.Clone(w.probes) })
		w.options.Tasks = confirming{worker{w, "first"}, &map[string]tasks.ProbeResult{}}
		w.start()
		wait(time.Hour + 17*time.Second)
		for _, task := range []string{"a web:1", "b web:1", "a api:1", "b api:1"} {
			assert.Equal(t, before[task]+1, w.probesOf(task), task)
		}
		died := time.Now()
		w.becomes("a", "web:1", tasks.Unhealthy)
		wait(time.Minute)
		w.wantRows("web", "1 Active 2 2")
		assert.LessOrEqual(t, w.when(record.TaskFinished, 5).Sub(died), 32*time.Second)
		assert.Equal(t, before["a api:1"]+1, w.probesOf("a api:1"), "it was confirmed beside what had died")
	})
}
