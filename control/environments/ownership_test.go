package environments_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/runner"
)

const standing, going = "standing by for web: another controller is at work on web", "taking over web, which another controller has released"

func (w *world) wantNotices(standings, goings int) {
	w.Helper()
	if len(w.Notices(standing)) != standings || len(w.Notices(going)) != goings {
		w.Errorf("notified %q", w.Notices("notice"))
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

// Nothing is decided about an environment that is paused, but what happens to it is recorded all the same.
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
				before := len(w.Events())
				happens(w)
				wait(40 * time.Second)
				assert.Len(t, w.Events(), before+1)
				wait(12 * time.Second) // the work has ended 8 s ago
				assert.Len(t, w.Events(), before+2, "how the work ended, and what happened")
				some.end()
			})
		})
	}
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
		assert.Empty(t, w.Notices("notice"))
		defer scope.Add("web")()
		wait(2 * time.Second)
		w.wantRunning("a web:1", "b db:1", "c web:1")
		w.wantCount(2, record.TaskDied)
	})
}

var errKilled = errors.New("killed")

// untilTheEnd runs controllers, one after another when they die, and commands
// whenever they are idle. All but the first begin with a snapshot.
func (w *world) untilTheEnd(commands ...func()) {
	w.options.UntilIdle = true
	kept := &reconciletest.Snapshots{Log: w.DeployLog}
	for life := 0; ; life++ {
		w.options.Tasks = worker{w, fmt.Sprint("life ", life)}
		err := environments.NewController(w.options).Run(w.Context())
		switch {
		case errors.Is(err, reconciletest.ErrDead):
			w.keepSnapshot(kept)
			w.options.Log = kept
		case err != nil:
			w.Fatal(err)
		case len(commands) == 0:
			return
		default:
			commands[0]()
			commands = commands[1:]
		}
	}
}

func (w *world) keepSnapshot(kept *reconciletest.Snapshots) {
	e := environments.New(kept, time.Now)
	e.KeepStates(environments.Snapshots(1))
	require.NoError(w, e.Follow(w.Context(), 0))
	_, ok := kept.Snapshot(w.Context(), "environments")
	require.True(w, ok, "no snapshot is kept")
}

// Whatever a controller had begun that was killed: once the environment is paused nobody does
// it again, so there is nothing to wait for.
func TestWhatIsPausedAfterItsControllerDiedIsIdle(t *testing.T) {
	for name, method := range map[string]func(*definition.Definition){"Replace": func(*definition.Definition) {}, "Surge": surge} {
		t.Run(name, func(t *testing.T) {
			for lives, died := 1, true; died; lives++ {
				inWorld(t, func(w *world) {
					w.deployed(daemon("web", method), "a", "b")
					w.untilIdle()
					w.redeployed(1, daemon("web", method, image("2")))
					w.options.Log = &reconciletest.Mortal{Log: w.DeployLog, Lives: lives, Last: true}
					w.options.UntilIdle, w.options.Tasks = true, worker{w, "second"}
					died = errors.Is(environments.NewController(w.options).Run(w.Context()), reconciletest.ErrDead)
					w.follow()
					w.do("web", environment.Pause{By: "alice"})
					w.options.Log, w.options.Tasks = w.DeployLog, worker{w, "third"}
					ctx, end := context.WithTimeout(w.Context(), time.Hour)
					defer end()
					if err := environments.NewController(w.options).Run(ctx); err != nil {
						t.Fatalf("after %d appends it was killed, and is never idle: %v\n%s", lives, err, strings.Join(w.story(), "\n"))
					}
				})
			}
		})
	}
}

// A controller that is killed at any moment is replaced by one that brings the same log about, but for how often it tried.
func TestWhichControllerDiesWhereverTheLogTellsTheSame(t *testing.T) {
	carry := func(t *testing.T, method func(*definition.Definition), lives int, last bool) (story []string, appends int) {
		inWorld(t, func(w *world) {
			w.deployed(daemon("web", method), "a", "b")
			w.options.Parallelism = 1
			m := &reconciletest.Mortal{Log: w.DeployLog, Lives: lives, Last: last}
			w.options.Log = m
			w.untilTheEnd(func() {
				w.redeployed(1, daemon("web", method, image("2")))
				w.doubled, w.least = 0, 2
			}, func() { w.rollback("web", 1) })
			w.wantRunning("a web:1", "b web:1")
			w.wantRows("web", "1 Active 2 2; 2 Reverted 0 0")
			most, fewest := 0, 1
			if daemon("", method).Deployment.Method == definition.Surge {
				most, fewest = 1, 2
			}
			require.LessOrEqual(t, w.doubled, most)
			assert.GreaterOrEqual(t, w.least, fewest)
			seen := map[string]bool{}
			for _, e := range w.Events() {
				deployment, _, _ := strings.Cut(e.Deployment, "@")
				if line := fmt.Sprintf("%s of %s for %s", e.Name, e.Target, deployment); !seen[line] {
					seen[line] = true
					story = append(story, line)
				}
			}
			appends = m.Calls()
		})
		return story, appends
	}
	for name, method := range map[string]func(*definition.Definition){"Replace": func(*definition.Definition) {}, "Surge": surge} {
		t.Run(name, func(t *testing.T) {
			want, appends := carry(t, method, 1000, false)
			require.GreaterOrEqual(t, appends, 20, "%d appends lead to %q", appends, want)
			for lives := range appends {
				for _, last := range []bool{false, true} {
					if got, _ := carry(t, method, lives, last); !slices.Equal(got, want) {
						t.Fatalf("after a death at append %d (in the log: %v) it tells\n%s\nnot\n%s", lives+1, last, strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				}
			}
		})
	}
}

func TestADeploymentDeadlineIsExactAcrossARestart(t *testing.T) {
	for name, end := range map[string]func(*running){"of a controller that is stopped": (*running).end, "of one that dies": (*running).die} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.create(daemon("web"), "a")
				w.bad["web:1"] = true
				w.deploy("web", 1)
				r := w.start()
				wait(3 * time.Minute)
				end(r)
				wait(4 * time.Minute)
				w.options.Tasks = worker{w, "second"}
				r = w.start()
				wait(5 * time.Minute)
				r.end()
				began := w.when(record.EnvironmentStarted, 1)
				for event, after := range map[string]time.Duration{record.TaskDeadlinePassed: 5 * time.Minute, record.EnvironmentStuck: 10 * time.Minute} {
					late := w.when(event, 1).Sub(began) - after
					if event == record.TaskDeadlinePassed {
						late -= 2 * time.Minute // nobody was there
					}
					if late < 0 || late > 100*time.Millisecond || w.count(event) != 1 {
						t.Errorf("%s came %s late, %d times", event, late, w.count(event))
					}
				}
			})
		})
	}
}

func TestWhatWasInterruptedIsDoneAgainByTheNext(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(*running)
		cause error
	}{
		"because the controller is to stop": {func(r *running) { close(r.Stop) }, fmt.Errorf("applying: %w", runner.ErrInterrupted)},
		"because it is killed":              {func(r *running) { r.Kill(errKilled) }, errors.New("the engine hung up")},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				interrupted := make(chan struct{})
				w.working = func(tasks.Task) error { <-interrupted; return c.cause }
				w.deployed(daemon("web"), "a")
				r := w.start()
				c.end(r)
				wait(time.Second)
				close(interrupted)
				err := <-r.Ended
				assert.True(t, err == nil || errors.Is(err, errKilled), "%v", err)
				r.over()
				r.Kill(nil)
				w.wantCount(0, record.TaskFailed)
				w.working = nil
				w.untilIdle()
				w.wantRows("web", "1 Active 1 1")
			})
		})
	}
}
