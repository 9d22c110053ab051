package environments_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/runner"
)

func TestAFirstDeploymentBringsATaskToEveryHost(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(daemon("web"), "a", "b", "c")
		w.untilIdle()
		w.wantRows("web", "1 Created 0 0")
		w.wantRunning()
		w.deploy("web", 1)
		w.untilIdle()
		w.wantRows("web", "1 Active 3 3")
		w.wantRunning("a web:1", "b web:1", "c web:1")
	})
}

func TestReplaceNeverHasTwoVersionsOnAHostNorTooFewHealthy(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(daemon("web"), "a", "b", "c", "d", "e")
		w.deploy("web", 1)
		w.untilIdle()
		w.update(1, daemon("web", image("2")))
		w.deploy("web", 2)
		w.slowly(time.Second)
		w.doubled, w.least = 0, 5
		w.untilIdle()
		w.wantRows("web", "1 Inactive 0 0; 2 Active 5 5")
		if w.doubled != 0 || w.least != 3 {
			t.Errorf("%d hosts had two versions, and only %d a healthy task", w.doubled, w.least)
		}
	})
}

func TestSurgeDoublesOneHostAtATimeAndNeverHasTooFewHealthy(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(daemon("web", surge), "a", "b", "c")
		w.deploy("web", 1)
		w.untilIdle()
		w.update(1, daemon("web", surge, image("2")))
		w.deploy("web", 2)
		w.doubled, w.least = 0, 3
		w.untilIdle()
		w.wantRows("web", "1 Inactive 0 0; 2 Active 3 3")
		if w.doubled != 1 || w.least != 3 {
			t.Errorf("%d hosts had two versions, and only %d a healthy task", w.doubled, w.least)
		}
	})
}

func TestABadRevisionIsStuckUntilItIsRolledBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(daemon("web"), "a", "b")
		w.deploy("web", 1)
		w.untilIdle()
		w.update(1, daemon("web", image("2")))
		w.bad["web:2"] = true
		w.deploy("web", 2)
		w.untilIdle()
		w.wantRows("web", "1 Undeploying 0 1; 2 Stuck 2 0")
		w.rollback("web", 1)
		w.untilIdle()
		w.wantRows("web", "1 Active 2 2; 2 Reverted 0 0")
		w.wantRunning("a web:1", "b web:1")
	})
}

// What cannot be started on a host must not be stopped for, and is checked again.
func TestNothingIsStoppedForATaskThatCannotBeStarted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(daemon("web"), "a", "b", "c")
		w.deploy("web", 1)
		w.untilIdle()
		if w.checks > 0 {
			t.Errorf("%d tasks were checked although nothing was to be stopped", w.checks)
		}
		w.update(1, daemon("web", image("2"), func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 }))
		w.unable = map[string]bool{"b web:2": true, "c web:2": true}
		w.deploy("web", 2)
		w.untilIdle()
		w.wantRows("web", "1 Undeploying 0 2; 2 Stuck 3 1")
		w.wantRunning("a web:2", "b web:1", "c web:1")
		w.unable = nil
		r := w.start()
		wait(3 * time.Minute)
		r.end()
		w.wantRows("web", "1 Inactive 0 0; 2 Active 3 3")
	})
}

func TestABadRevisionIsRolledBackByItselfIfItIsToBe(t *testing.T) {
	inWorld(t, func(w *world) {
		auto := func(d *definition.Definition) { d.Deployment.AutoRollback = true }
		w.create(daemon("web"), "a", "b")
		w.deploy("web", 1)
		w.untilIdle()
		other := daemon("web", auto, image("2"))
		other.InstanceGroup.Query = "others" // so that the hosts to go back to must be found out
		w.inventory("others", "b", "c")
		w.update(1, other)
		w.bad["web:2"] = true
		w.deploy("web", 2)
		w.untilIdle()
		w.wantRows("web", "1 Active 2 2; 2 Reverted 0 0")
		w.wantRunning("a web:1", "b web:1")
	})
}

func TestPauseLetsWhatRunsFinishAndResumeGoesOn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Parallelism = 1
		w.slowly(10 * time.Second)
		w.create(daemon("web"), "a", "b")
		w.deploy("web", 1)
		r := w.start()
		wait(5 * time.Second)
		w.do("web", environment.Pause{By: "ann", Reason: "lunch"})
		wait(time.Hour)
		w.wantRunning("a web:1")
		w.wantRows("web", "1 Deploying 2 1")
		w.do("web", environment.Resume{By: "ann", Reason: "had lunch"})
		wait(time.Minute)
		w.wantRows("web", "1 Active 2 2")
		r.end()
	})
}

func TestAnEnvironmentThatThereIsNotEndsTheController(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Scope = reconcile.Only("shop")
		if err := environments.NewController(w.options).Run(w.Context()); !errors.Is(err, environments.ErrNoEnvironment) || !strings.Contains(err.Error(), "env create") {
			t.Errorf("it says %v", err)
		}
	})
}

func TestOtherEnvironmentsAreLeftAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"shop", "shop/eu"} {
			w.create(daemon(name), "a"+name[len(name)-1:])
			w.deploy(name, 1)
		}
		w.options.Scope = reconcile.Only("shop")
		w.untilIdle()
		w.wantRunning("ap shop:1")
		w.wantRows("shop/eu", "1 Deploying 1 0")
	})
}

func TestHostsComeAndGo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(daemon("web"), "a", "b", "c")
		w.deploy("web", 1)
		r := w.start()
		wait(time.Minute)

		w.inventory("rest", "a") // it leaves, and is still there
		w.inventory("web", "b", "c", "d")
		wait(2 * time.Second)
		w.wantRunning("b web:1", "c web:1", "d web:1")
		w.wantRows("web", "1 Active 3 3")

		w.inventory("web", "c", "d") // b is lost
		wait(2 * time.Second)
		w.wantRunning("b web:1", "c web:1", "d web:1")
		w.wantRows("web", "1 Active 2 2")
		probes := w.probesOf("b web:1")
		wait(time.Hour)
		if w.probesOf("b web:1") != probes {
			t.Error("a lost host is asked")
		}

		w.inventory("rest", "a", "b") // it is back, and is cleaned
		wait(2 * time.Minute)
		w.wantRunning("c web:1", "d web:1")
		r.end()
	})
}

func TestTroubleWithTheInventoryIsNoticedOnceAndKeepsTheKnownHosts(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"web", "db"} {
			w.create(daemon(name), "a", "b")
			w.deploy(name, 1)
		}
		r := w.start()
		wait(time.Minute)
		for range 3 {
			w.set(func() { w.trouble = errors.New("inventory.yaml: line 3 is none") })
			w.inventory("web")
			wait(time.Minute)
		}
		w.wantRows("web", "1 Active 2 2")
		if got := w.notices("notice"); len(got) != 1 || !strings.Contains(got[0], "go on with the hosts they know: inventory.yaml: line 3 is none") {
			t.Errorf("notified %q", got)
		}
		w.set(func() { w.trouble = nil })
		w.inventory("web", "a")
		w.inventory("rest", "b")
		wait(time.Minute)
		w.wantRows("web", "1 Active 1 1")
		r.end()
	})
}

func TestAWorkerThatPanicsFailsItsStepAndNothingElse(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(daemon("web"), "a", "b")
		w.deploy("web", 1)
		w.working = func(t tasks.Task) error {
			if t.Host == "a" {
				panic("oh")
			}
			return nil
		}
		w.options.Tasks = panicky{worker{w, "first"}}
		r := w.start()
		wait(2 * time.Minute)
		if story := strings.Join(w.story(), "\n"); !strings.Contains(story, ": oh, at ") || !strings.Contains(story, "looking at it panicked: ah") {
			t.Errorf("the log tells\n%s", story)
		}
		r.end()
	})
}

// panicky cannot probe or watch.
type panicky struct{ worker }

func (panicky) Observe(context.Context, tasks.Task) tasks.ProbeResult { panic("ah") }
func (panicky) Watch(context.Context, string, func())                 { panic("eh") }

func TestNeitherSlotsNorParallelismAreExceededAndNobodyIsForgotten(t *testing.T) {
	for _, c := range []struct{ parallelism, slots, most, mostOnHost int }{{1, 1, 1, 1}, {5, 1, 3, 1}, {5, 2, 5, 2}, {100, 2, 6, 2}, {100, 9, 27, 9}} {
		t.Run(fmt.Sprintf("%d at once and %d slots", c.parallelism, c.slots), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options.Parallelism, w.slots = c.parallelism, c.slots
				for i := range 9 {
					name := fmt.Sprint("web", i)
					w.create(daemon(name), "a", "b", "c")
					w.deploy(name, 1)
				}
				on, all, most, mostOnHost := map[string]int{}, 0, 0, 0
				w.working = func(t tasks.Task) error {
					w.mu.Lock()
					on[t.Host]++
					all++
					most, mostOnHost = max(most, all), max(mostOnHost, on[t.Host])
					w.mu.Unlock()
					<-time.After(time.Duration(t.Host[0]) * time.Millisecond)
					w.mu.Lock()
					defer w.mu.Unlock()
					on[t.Host]--
					all--
					return nil
				}
				w.untilIdle()
				for i := range 9 {
					name := fmt.Sprint("web", i)
					w.wantRows(name, "1 Active 3 3")
					w.update(1, daemon(name, image("2"))) // two steps on each host
					w.deploy(name, 2)
				}
				w.untilIdle()
				for i := range 9 {
					w.wantRows(fmt.Sprint("web", i), "1 Inactive 0 0; 2 Active 3 3")
				}
				if most != c.most || mostOnHost != c.mostOnHost {
					t.Errorf("%d steps were worked on at once, %d on one host", most, mostOnHost)
				}
			})
		})
	}
}

func TestAHostThatGetsSlotsIsWorkedOn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.slots = 0
		w.create(daemon("web"), "a")
		w.deploy("web", 1)
		r := w.start()
		wait(time.Minute)
		w.set(func() { w.slots = 1 })
		w.inventory("web", "a")
		wait(2 * time.Second)
		w.wantRows("web", "1 Active 1 1")
		r.end()
	})
}

func TestAnEnvironmentThatTheLogRefusesIsLeftOutAndTheOthersGoOn(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"good", "spoilt"} {
			w.create(daemon(name), "a")
			w.deploy(name, 1)
		}
		w.options.Log = &reconciletest.Hooked{Log: w.log, Event: record.TaskStarted, Hook: reconciletest.Refuse("task/spoilt/1/a")}
		w.options.UntilIdle = true
		err := environments.NewController(w.options).Run(w.Context())
		if !errors.Is(err, deploylog.ErrInvalid) || !strings.Contains(err.Error(), "environment spoilt was left out") {
			t.Errorf("it ended with %v", err)
		}
		w.wantRows("good", "1 Active 1 1")
		w.options.UntilIdle = false
		w.notified = nil
		r := w.start()
		wait(time.Minute)
		w.do("spoilt", environment.Pause{}) // is something new, but does not help
		w.do("spoilt", environment.Resume{})
		wait(time.Minute)
		if got := w.notices("notice"); len(got) != 1 || !strings.Contains(got[0], "environment spoilt is left out until something new of it is in the log") {
			t.Errorf("notified %q", got)
		}
		r.end()
	})
}

func TestWhatSomebodyElseRecordedIsRead(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(daemon("web"), "a")
		w.deploy("web", 1)
		fouls := 3
		w.options.Log = &reconciletest.Hooked{Log: w.log, Event: record.TaskStarted, Hook: func(e deploylog.Event) (err error) {
			if fouls--; fouls >= 0 {
				_, err = w.log.Append(context.Background(), e)
			}
			return err
		}}
		w.untilIdle()
		w.wantRows("web", "1 Active 1 1")
	})
}

// An observer may give commands: no lock is held while it is notified.
func TestAnObserverMayGiveCommands(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(daemon("web"), "a")
		w.deploy("web", 1)
		w.recorded = func(e deploylog.Event) {
			if e.Name == record.EnvironmentFinished {
				w.do("web", environment.Pause{})
			}
		}
		w.untilIdle()
		if len(w.notices(record.TaskFinished)) != 1 {
			t.Errorf("notified %q", w.notified)
		}
	})
}

// stiff tasks of revision 2 never come to the end of their start.
type stiff struct{ worker }

func (s stiff) Start(ctx context.Context, t tasks.Task) (tasks.ProbeResult, error) {
	if t.Revision == 2 {
		<-ctx.Done()
		return tasks.ProbeResult{}, fmt.Errorf("%w (%w)", runner.ErrInterrupted, ctx.Err())
	}
	return s.worker.Start(ctx, t)
}

// What hangs is ended when it should have been healthy: a rollback does not wait
// for it without end.
func TestAStartThatHangsIsEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.active("web", "a", "b")
		w.options.Tasks = stiff{worker{w, "first"}}
		w.update(1, daemon("web", image("web:2")))
		w.deploy("web", 2)
		r := w.start()
		wait(time.Minute)
		w.rollback("web", 1)
		wait(3 * time.Minute)
		w.wantRows("web", "1 Deploying 2 1; 2 Reverting 0 1")
		wait(2 * time.Minute)
		w.wantRows("web", "1 Active 2 2; 2 Reverted 0 0")
		if all := w.notices("task-failed"); len(all) != 1 {
			t.Errorf("notified %q", all)
		}
		r.end()
	})
}
