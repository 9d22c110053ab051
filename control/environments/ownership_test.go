package environments_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

func TestControllersOfDifferentEnvironmentsWorkBesideEachOther(t *testing.T) {
	inWorld(t, func(w *world) {
		w.slowly(10 * time.Second)
		var all []*running
		for i, name := range []string{"web", "db"} {
			w.create(daemon(name), fmt.Sprint("a", i), fmt.Sprint("b", i))
			w.deploy(name, 1)
			all = append(all, w.another(name, name))
		}
		wait(time.Minute)
		for _, name := range []string{"web", "db"} {
			w.wantRows(name, "1 Active 2 2")
		}
		if w.most != 2 {
			t.Errorf("%d environments are worked on at once", w.most)
		}
		w.wantNotices(0, 0)
		for _, r := range all {
			r.end()
		}
	})
}

func TestTwoControllersOfOneEnvironmentTakeTurns(t *testing.T) {
	for name, end := range map[string]func(*running){"when one is stopped": (*running).end, "when one is killed": (*running).die} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.create(daemon("web", func(d *definition.Definition) {
					d.Deployment.MinHealthyTime = definition.Duration(7 * time.Second)
				}), "a", "b", "c", "d")
				w.deploy("web", 1)
				w.slowly(10 * time.Second)
				first, second := w.another("one", "web"), w.another("two", "web")
				wait(5 * time.Second)
				if !w.environments.Controlled("web") {
					t.Error("nobody controls it")
				}
				wait(5 * time.Minute)
				w.wantRows("web", "1 Active 4 4")
				w.update(1, daemon("web", image("2")))
				w.deploy("web", 2)
				wait(5 * time.Second)
				end(first)
				wait(5 * time.Minute)
				w.wantRows("web", "1 Inactive 0 0; 2 Active 4 4")
				if n := w.count(record.TaskFailed) + w.count(record.TaskDied); n != 0 {
					t.Errorf("the log tells\n%s", strings.Join(w.story(), "\n"))
				}
				second.end()
			})
		})
	}
}

func TestWhoWorksUntilIdleWaitsForAnotherThatWorksOnTheSame(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(daemon("web"), "a")
		w.deploy("web", 1)
		w.slowly(time.Minute)
		first := w.another("one", "web")
		w.options.Scope, w.options.Tasks = reconcile.Only("web"), worker{w, "two"}
		w.untilIdle()
		w.wantRows("web", "1 Active 1 1")
		first.end()
	})
}

func TestAControllerOfSomeStandsByWhileOneOfAllIsAtWork(t *testing.T) {
	for name, end := range map[string]func(*running){"that is stopped": (*running).end, "that is killed": (*running).die} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.active("web", "a", "b")
				all := w.another("all")
				some := w.another("some", "web")
				wait(10 * time.Second)
				w.wantNotices(1, 0)
				end(all)
				w.becomes("a", "web:1", tasks.Unhealthy)
				wait(1500 * time.Millisecond)
				w.wantNotices(1, 1)
				if w.count(record.TaskDied) != 1 {
					t.Error("nothing is probed afresh")
				}
				w.update(1, daemon("web", image("2")))
				w.deploy("web", 2)
				wait(time.Minute)
				w.wantRows("web", "1 Inactive 0 0; 2 Active 2 2")
				some.end()
			})
		})
	}
}

func TestWhoStandsByBeginsAndRecordsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		unlock, err := w.log.TryLock("environment/web") // one that does nothing
		if err != nil {
			t.Fatal(err)
		}
		w.create(daemon("web"), "a")
		w.deploy("web", 1)
		before := len(w.events())
		some := w.another("some", "web")
		wait(5 * time.Minute)
		w.inventory("web", "a", "b")
		wait(time.Hour)
		if len(w.events()) != before || len(w.hasDone()) > 0 {
			t.Errorf("it did %q; the log tells\n%s", w.hasDone(), strings.Join(w.story(), "\n"))
		}
		unlock()
		wait(5 * time.Second)
		w.wantNotices(1, 1)
		if w.count(record.EnvironmentStuck) != 1 {
			t.Errorf("the log tells\n%s", strings.Join(w.story(), "\n"))
		}
		w.wantRunning("a web:1", "b web:1")
		some.end()
	})
}

func TestAControllerOfAllLeavesAloneWhatIsWorkedOnUntilThatHasEnded(t *testing.T) {
	for name, end := range map[string]func(*running){
		"when the other goes on": func(*running) {}, "when the other is stopped": (*running).end, "when the other is killed": (*running).die,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.active("web", "a", "b")
				w.update(1, daemon("web", image("2")))
				w.deploy("web", 2)
				w.create(daemon("db"), "c")
				w.deploy("db", 1)
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
				if acts := w.hasDone(); len(acts) != before+1 || w.probesOf("b web:1") > probes+1 {
					t.Errorf("it did %q, and probed %d times", acts[before:], w.probesOf("b web:1")-probes)
				}
				end(some)
				wait(22 * time.Second)
				if acts := w.hasDone(); len(acts) != before+2 {
					t.Errorf("it did %q", acts[before:])
				}
				wait(10 * time.Minute)
				w.wantRows("web", "1 Inactive 0 0; 2 Active 2 2")
				if w.count(record.TaskFailed) != 0 {
					t.Errorf("the log tells\n%s", strings.Join(w.story(), "\n"))
				}
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
				w.update(1, daemon("web", image("2")))
				w.deploy("web", 2)
				w.slowly(time.Minute)
				some := w.another("some", "web")
				wait(10 * time.Second)
				w.do("web", environment.Pause{By: "ann", Reason: "lunch"})
				all := w.another("all")
				wait(2 * time.Second)
				before := len(w.events())
				happens(w)
				wait(40 * time.Second)
				if len(w.events()) != before+1 {
					t.Errorf("the log tells\n%s", strings.Join(w.story(), "\n"))
				}
				wait(12 * time.Second) // the work has ended 8 s ago
				if len(w.events()) != before+2 {
					t.Errorf("the log does not tell how the work ended and what happened:\n%s", strings.Join(w.story(), "\n"))
				}
				some.end()
				all.end()
			})
		})
	}
}

func TestWhoIsWaitedForIsControlledThoughSomebodyElseIsForAnother(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployEach(map[string]string{"web": "a", "db": "b"})
		other := w.another("other", "db")
		scope := reconcile.Only()
		r := w.within(scope)
		leave := scope.Add("web")
		wait(2 * time.Second)
		w.wantRunning("a web:1", "b db:1")
		leave()
		r.end()
		other.end()
	})
}
