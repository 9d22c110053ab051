package environments_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

const standing, going = "standing by for web: another controller is at work on web", "taking over web, which another controller has released"

// wantNotices compares how often somebody stood by and took over.
func (w *world) wantNotices(standings, goings int) {
	w.Helper()
	if len(w.notices(standing)) != standings || len(w.notices(going)) != goings {
		w.Errorf("notified %q", w.notices("notice"))
	}
}

func TestWhoWorksUntilIdleWaitsForAnotherThatWorksOnTheSame(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployed(daemon("web"), "a")
		w.slowly(time.Minute)
		w.another("one", "web")
		w.options.Scope, w.options.Tasks = reconcile.Only("web"), worker{w, "two"}
		w.untilIdle()
		w.wantRows("web", "1 Active 1 1")
	})
}

// Of two controllers of an environment, each of some or of all, one is at work. When that has
// ended, however it did, the other goes on with what was begun, and knows nothing of before.
func TestOneControllerIsAtWorkAndAnotherTakesOver(t *testing.T) {
	for how, end := range map[string]func(*running){"stopped": (*running).end, "killed": (*running).die} {
		for name, scopes := range map[string][2][]string{
			"both are of one environment": {{"web"}, {"web"}}, "both are of all": {}, "one of all, and then one of some": {nil, {"web"}},
		} {
			t.Run(name+", and the first is "+how, func(t *testing.T) {
				inWorld(t, func(w *world) {
					lasting := func(d *definition.Definition) { d.Deployment.MinHealthyTime = definition.Duration(7 * time.Second) }
					w.deployed(daemon("web", lasting), "a", "b", "c", "d")
					w.untilIdle()
					w.slowly(10 * time.Second)
					first, second := w.another("one", scopes[0]...), w.another("two", scopes[1]...)
					wait(5 * time.Minute)
					w.redeployed(1, daemon("web", lasting, image("2")))
					wait(5 * time.Second)
					assert.True(t, w.environments.Controlled("web"))
					w.wantNotices(1, 0)
					w.becomes("d", "web:1", tasks.Unhealthy)
					end(first)
					wait(1500 * time.Millisecond)
					w.wantNotices(1, 1)
					w.wantCount(1, record.TaskDied)
					wait(5 * time.Minute)
					w.wantRows("web", "1 Inactive 0 0; 2 Active 4 4")
					w.wantCount(0, record.TaskFailed)
					second.end()
					assert.False(t, w.environments.Controlled("web"))
				})
			})
		}
	}
}

func TestWhoStandsByBeginsAndRecordsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		unlock, err := w.log.TryLock("environment/web") // one that does nothing
		require.NoError(t, err)
		w.deployed(daemon("web"), "a")
		before := len(w.events())
		w.another("some", "web")
		wait(5 * time.Minute)
		w.inventory("web", "a", "b")
		wait(time.Hour)
		assert.Len(t, w.events(), before)
		assert.Empty(t, w.hasDone())
		unlock()
		wait(5 * time.Second)
		w.wantNotices(1, 1)
		w.wantCount(1, record.EnvironmentStuck)
		w.wantRunning("a web:1", "b web:1")
	})
}

func TestAControllerOfAllLeavesAloneWhatIsWorkedOnUntilThatHasEnded(t *testing.T) {
	for name, end := range map[string]func(*running){
		"when the other goes on": func(*running) {}, "when the other is stopped": (*running).end, "when the other is killed": (*running).die,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.active("web", "a", "b")
				w.redeployed(1, daemon("web", image("2")))
				w.deployed(daemon("db"), "c")
				w.set(func() {
					w.working = func(t tasks.Task) error {
						if t.Environment == "web" {
							<-time.After(time.Minute)
						}
						return nil
					}
				})
				some := w.another("some", "web")
				wait(10 * time.Second)
				before, probes := len(w.hasDone()), w.probesOf("b web:1")
				all := w.another("all")
				wait(30 * time.Second)
				w.wantRows("db", "1 Active 1 1") // that goes on
				w.wantNotices(1, 0)
				assert.Len(t, w.hasDone(), before+1)
				assert.LessOrEqual(t, w.probesOf("b web:1"), probes+1)
				end(some)
				wait(22 * time.Second)
				assert.Len(t, w.hasDone(), before+2)
				wait(10 * time.Minute)
				w.wantRows("web", "1 Inactive 0 0; 2 Active 2 2")
				w.wantCount(0, record.TaskFailed)
				all.end()
				if name == "when the other goes on" {
					some.end()
				}
			})
		})
	}
}

// Nothing is decided about an environment that is paused, but what happens to it is
// recorded all the same.
func TestWhatHappensToWhatAnotherControlsIsRecordedOnceByThat(t *testing.T) {
	for name, happens := range map[string]func(*world){
		"a host joins": func(w *world) { w.inventory("web", "a", "b", "c") },
		"a task dies":  func(w *world) { w.becomes("b", "web:1", tasks.Unhealthy) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.active("web", "a", "b")
				w.redeployed(1, daemon("web", image("2")))
				w.slowly(time.Minute)
				some := w.another("some", "web")
				wait(10 * time.Second)
				w.do("web", environment.Pause{By: "ann", Reason: "lunch"})
				w.another("all")
				wait(2 * time.Second)
				before := len(w.events())
				happens(w)
				wait(40 * time.Second)
				assert.Len(t, w.events(), before+1)
				wait(12 * time.Second) // the work has ended 8 s ago
				assert.Len(t, w.events(), before+2, "how the work ended, and what happened")
				some.end()
			})
		})
	}
}

func TestWhoIsWaitedForIsControlledThoughSomebodyElseIsForAnother(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployEach(map[string]string{"web": "a", "db": "b"})
		w.another("other", "db")
		scope := reconcile.Only()
		r := w.within(scope)
		leave := scope.Add("web")
		wait(2 * time.Second)
		w.wantRunning("a web:1", "b db:1")
		leave()
		r.end()
	})
}

func TestWhoIsWaitedForIsControlledAtOnceWhateverGoesOn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.working = func(t tasks.Task) error {
			if t.Environment == "slow" {
				<-time.After(20 * time.Minute)
			}
			return nil
		}
		w.deployEach(map[string]string{"slow": "a", "web": "b", "web/alone": "c"})
		scope := reconcile.Only()
		w.within(scope)
		defer scope.Add("slow")()
		wait(time.Minute)
		defer scope.Add("web")()
		wait(2 * time.Second)
		w.wantRunning("b web:1")
		wait(30 * time.Minute)
		w.wantRunning("a slow:1", "b web:1")
	})
}

func TestWhoIsNotWaitedForAnyMoreIsLeftAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployEach(map[string]string{"web": "a", "db": "b"})
		scope := reconcile.Only()
		w.within(scope)
		leaveWeb, leaveDB := scope.Add("web"), scope.Add("db")
		wait(time.Minute)
		w.wantRunning("a web:1", "b db:1")
		leaveWeb()
		wait(time.Second)
		probes := w.probesOf("a web:1")
		w.becomes("a", "web:1", tasks.Unhealthy)
		w.becomes("b", "db:1", tasks.Unhealthy)
		w.inventory("web", "a", "c")
		wait(10 * time.Minute)
		w.wantRunning("a web:1", "b db:1")
		assert.Equal(t, probes, w.probesOf("a web:1"))
		w.wantRows("db", "1 Active 1 1")

		leaveDB()
		wait(time.Second)
		assert.False(t, w.environments.Controlled("db"))
		assert.Empty(t, w.notices("notice"))
		defer scope.Add("web")()
		wait(2 * time.Second)
		w.wantRunning("a web:1", "b db:1", "c web:1")
		w.wantCount(2, record.TaskDied)
	})
}
