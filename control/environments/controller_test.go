package environments_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/runner"
)

func TestNothingIsStoppedForATaskThatCannotBeStarted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.active("web", "a", "b", "c")
		assert.Zero(t, w.checks, "nothing was to be stopped")
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

func TestPauseLetsWhatRunsFinishAndResumeGoesOn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Parallelism = 1
		w.slowly(10 * time.Second)
		w.deployed(daemon("web"), "a", "b")
		w.start()
		wait(5 * time.Second)
		w.do("web", environment.Pause{By: "ann", Reason: "lunch"})
		wait(time.Hour)
		w.wantRunning("a web:1")
		w.wantRows("web", "1 Deploying 2 1")
		w.do("web", environment.Resume{By: "ann", Reason: "had lunch"})
		wait(time.Minute)
		w.wantRows("web", "1 Active 2 2")
	})
}

func TestAnEnvironmentThatThereIsNotEndsTheController(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Scope = reconcile.Only("shop")
		err := environments.NewController(w.options).Run(w.Context())
		assert.ErrorIs(t, err, environments.ErrNoEnvironment)
		assert.ErrorContains(t, err, "env create")
	})
}

func TestHostsComeAndGo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployed(daemon("web"), "a", "b", "c")
		w.start()
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
		assert.Equal(t, probes, w.probesOf("b web:1"), "a lost host is asked")
		w.inventory("rest", "a", "b") // it is back, and is cleaned
		wait(2 * time.Minute)
		w.wantRunning("c web:1", "d web:1")
	})
}

func TestTroubleWithTheInventoryIsNoticedOnceAndKeepsTheKnownHosts(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"web", "db"} {
			w.deployed(daemon(name), "a", "b")
		}
		w.start()
		wait(time.Minute)
		for range 3 {
			w.set(func() { w.trouble = errors.New("inventory.yaml: line 3 is none") })
			w.inventory("web")
			wait(time.Minute)
		}
		w.wantRows("web", "1 Active 2 2")
		w.wantNotice("go on with the hosts they know: inventory.yaml: line 3 is none")
		w.set(func() { w.trouble = nil })
		w.inventory("web", "a")
		w.inventory("rest", "b")
		wait(time.Minute)
		w.wantRows("web", "1 Active 1 1")
	})
}

func TestAWorkerThatPanicsFailsItsStepAndNothingElse(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployed(daemon("web"), "a", "b")
		w.working = func(t tasks.Task) error {
			if t.Host == "a" {
				panic("oh")
			}
			return nil
		}
		w.options.Tasks = panicky{worker{w, "first"}}
		w.start()
		wait(2 * time.Minute)
		story := strings.Join(w.story(), "\n")
		assert.Contains(t, story, ": oh, at ")
		assert.Contains(t, story, "looking at it panicked: ah")
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
					w.deployed(daemon(name), "a", "b", "c")
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
				assert.Equal(t, [2]int{c.most, c.mostOnHost}, [2]int{most, mostOnHost}, "at once, and on one host")
			})
		})
	}
}

func TestAHostThatGetsSlotsIsWorkedOn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.slots = 0
		w.deployed(daemon("web"), "a")
		w.start()
		wait(time.Minute)
		w.set(func() { w.slots = 1 })
		w.inventory("web", "a")
		wait(2 * time.Second)
		w.wantRows("web", "1 Active 1 1")
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

// What hangs is ended when it should have been healthy: a rollback does not wait for it without end.
func TestAStartThatHangsIsEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.active("web", "a", "b")
		w.options.Tasks = stiff{worker{w, "first"}}
		w.redeployed(1, daemon("web", image("web:2")))
		w.start()
		wait(time.Minute)
		w.rollback("web", 1)
		wait(3 * time.Minute)
		w.wantRows("web", "1 Deploying 2 1; 2 Reverting 0 1")
		wait(2 * time.Minute)
		w.wantRows("web", "1 Active 2 2; 2 Reverted 0 0")
		assert.Len(t, w.Notices("task-failed"), 1, "notified")
	})
}

func TestTheHostsOfManyEnvironmentsAreSelectedWithoutAPause(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 2500 {
			d := daemon(fmt.Sprintf("env%d", i))
			w.create(d)
			w.deploy(d.Name, 1)
		}
		w.untilIdle()
		began := time.Now()
		w.untilIdle()
		assert.Zero(t, time.Since(began), "nothing has changed")
	})
}
