package environments_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/runner"
)

// untilTheEnd runs controllers, one after another when they die, and commands
// whenever they are idle. All but the first begin with a snapshot.
func (w *world) untilTheEnd(commands ...func()) {
	w.options.UntilIdle = true
	kept := &reconciletest.Snapshots{Log: w.log}
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

// keepSnapshot keeps one of the environments as they are now.
func (w *world) keepSnapshot(kept *reconciletest.Snapshots) {
	e := environments.New(kept, time.Now)
	e.KeepStates(environments.Snapshots(1))
	require.NoError(w, e.Follow(w.Context(), 0))
	if _, ok := kept.Snapshot(w.Context(), "environments"); !ok {
		w.Fatal("no snapshot is kept")
	}
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
					w.options.Log = &reconciletest.Mortal{Log: w.log, Lives: lives, Last: true}
					w.options.UntilIdle, w.options.Tasks = true, worker{w, "second"}
					died = errors.Is(environments.NewController(w.options).Run(w.Context()), reconciletest.ErrDead)
					w.follow()
					w.do("web", environment.Pause{By: "alice"})
					w.options.Log, w.options.Tasks = w.log, worker{w, "third"}
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

// A controller that is killed at any moment is replaced by one that brings the
// same log about, but for how often it tried.
func TestWhichControllerDiesWhereverTheLogTellsTheSame(t *testing.T) {
	carry := func(t *testing.T, method func(*definition.Definition), lives int, last bool) (story []string, appends int) {
		inWorld(t, func(w *world) {
			w.deployed(daemon("web", method), "a", "b")
			w.options.Parallelism = 1
			m := &reconciletest.Mortal{Log: w.log, Lives: lives, Last: last}
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
			if w.doubled > most || w.least < fewest {
				t.Errorf("%d hosts had two versions, and only %d a healthy task", w.doubled, w.least)
			}
			seen := map[string]bool{}
			for _, e := range w.events() {
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
			if appends < 20 {
				t.Fatalf("%d appends lead to %q", appends, want)
			}
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

func TestStopLetsWhatRunsFinishAndRecordsIt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Parallelism = 1
		w.slowly(10 * time.Second)
		w.deployed(daemon("web"), "a", "b")
		r := w.start()
		wait(time.Second)
		r.end()
		w.wantCount(1, record.TaskFinished, record.TaskStarted)
	})
}

func TestWhatWasInterruptedIsDoneAgainByTheNext(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(*running)
		cause error
	}{
		"because the controller is to stop": {func(r *running) { close(r.stop) }, fmt.Errorf("applying: %w", runner.ErrInterrupted)},
		"because it is killed":              {func(r *running) { r.kill(errKilled) }, errors.New("the engine hung up")},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				interrupted := make(chan struct{})
				w.working = func(tasks.Task) error {
					<-interrupted
					return c.cause
				}
				w.deployed(daemon("web"), "a")
				r := w.start()
				c.end(r)
				wait(time.Second)
				close(interrupted)
				if err := <-r.ended; err != nil && !errors.Is(err, errKilled) {
					t.Error(err)
				}
				r.over()
				r.kill(nil)
				w.wantCount(0, record.TaskFailed)
				w.working = nil
				w.untilIdle()
				w.wantRows("web", "1 Active 1 1")
			})
		})
	}
}
