package environments_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/unwatched"
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
					left := []string{"a", "b", "c", "d"} // which are replaced first is open
					for _, e := range w.Events() {
						if host, ok := strings.CutPrefix(string(e.Target), "task/web/1/"); ok && e.Name == record.TaskTerminating {
							left = slices.DeleteFunc(left, func(h string) bool { return h == host })
						}
					}
					w.becomes(left[len(left)-1], "web:1", tasks.Unhealthy)
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
	_, ok := kept.Snapshot(w.Context(), deploylog.SnapshotName("environments", environment.SnapshotVersion))
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

func TestADeploymentDeadlineCountsExactlyTheTimeThatIsWatched(t *testing.T) {
	for name, end := range map[string]func(*running){"of a controller that is stopped": (*running).end, "of one that dies": (*running).die} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.create(daemon("web"), "a")
				w.bad["web:1"] = true
				w.deploy("web", 1)
				r := w.start()
				wait(3 * time.Minute)
				end(r)
				heard := w.when(record.TaskFailed, w.count(record.TaskFailed))
				wait(60 * time.Hour)
				w.options.Tasks = worker{w, "second"}
				r = w.start()
				wait(10 * time.Minute)
				r.end()
				began, away := w.when(record.EnvironmentStarted, 1), w.when(record.EnvironmentWatched, 1).Sub(heard)-unwatched.Grace
				for event, after := range map[string]time.Duration{record.TaskDeadlinePassed: 5 * time.Minute, record.EnvironmentStuck: 10 * time.Minute} {
					late := w.when(event, 1).Sub(began) - after - away
					if late < 0 || late > 100*time.Millisecond || w.count(event) != 1 {
						t.Errorf("%s came %s late, %d times", event, late, w.count(event))
					}
				}
			})
		})
	}
}

func TestWhoWasAwayLooksBeforeAnythingHasFailed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.active("web", "a", "b")
		w.slowly(2 * time.Minute)
		w.redeployed(1, daemon("web", image("web:2"), func(d *definition.Definition) { d.Deployment.AutoRollback = true }))
		r := w.start()
		wait(time.Minute)
		r.die()
		wait(60 * time.Hour)
		w.options.Tasks = worker{w, "second"}
		w.start()
		wait(time.Hour)
		w.wantRows("web", "1 Inactive 0 0; 2 Active 2 2")
		w.wantCount(0, record.EnvironmentStuck, record.TaskDeadlinePassed)
		w.wantCount(1, record.EnvironmentWatched)
	})
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

// What is done of an environment by whom is for the simulation; here is what people are told.
func TestAControllerWithAnotherInventoryLeavesAnEnvironmentAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.identity = "other"
		w.do("web", environment.Create{Definition: daemon("web"), Inventory: "mine"})
		w.do("web", environment.Deploy{Revision: 1, Hosts: []string{"a"}, Inventory: "mine"})
		w.untilIdle()
		w.wantRunning()
		w.wantNotice("leaving web alone: its hosts are those of inventory mine, and the inventory here is other")
		for _, c := range []environment.Command{
			environment.Deploy{Revision: 1, Hosts: []string{"x"}, Inventory: "other"}, environment.Rollback{Revision: 1, Inventory: "other"}, environment.ConfirmHosts{Inventory: "other"},
			environment.Restart{Hosts: []string{"x"}, Inventory: "other"},
		} {
			var refused *refusal.Error
			require.ErrorAs(t, w.command("web", c), &refused, "%T", c)
			assert.Equal(t, environment.OtherInventory, refused.Code, "%T", c)
			assert.ErrorContains(t, refused, "deployster env update from here")
		}

		// A run that is asked for an environment that it leaves alone fails; one for all does not.
		o := w.options
		o.UntilIdle, o.Scope = true, reconcile.Of("web")
		err := environments.NewController(o).Run(w.Context())
		assert.ErrorContains(t, err, "environment web is left alone: its hosts are those of inventory mine")
	})
}

// checkout is a controller with an inventory of its own, whose hosts begin with its letter.
type checkout struct {
	*world
	letter  string
	mu      sync.Mutex
	called  *reconciletest.Names // of the inventory
	hosts   []string
	version int
	at      *running // nil while it is not at work
	worked  int
}

func (c *checkout) Identity() string { return c.called.Now() }

func (c *checkout) Version() int { c.mu.Lock(); defer c.mu.Unlock(); return c.version }

func (c *checkout) Selected(string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.hosts), nil
}

func (c *checkout) Known(host string) bool { return strings.HasPrefix(host, c.letter) }

func (c *checkout) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	do()
}

func (c *checkout) call(name string) { c.change(func() { c.called.Call(name) }) }

// twoInventories are two checkouts on one log, and an environment that is bound to the inventory of one of them, or to none.
type twoInventories struct {
	*world
	*rand.Rand
	of        map[string]*checkout // by letter
	bound     reconciletest.Names
	revisions int
	changes   map[string]int
}

// checkoutWorker does the work of a checkout, and wants that to be its own.
type checkoutWorker struct {
	worker
	s *twoInventories
	c *checkout
}

func (k checkoutWorker) wantOwn(what string, t tasks.Task) {
	if now := time.Now(); !k.c.called.Fit(&k.s.bound, now) {
		k.Errorf("%s of %s on %s is done by who has inventory %s, and the environment is bound to %v", what, nameOf(t), t.Host, k.c.Identity(), k.s.bound.At(now))
	}
	if !k.c.Known(t.Host) {
		k.Errorf("%s of %s on %s is done by who has the hosts %s", what, nameOf(t), t.Host, k.c.letter)
	}
	k.c.mu.Lock()
	k.c.worked++
	k.c.mu.Unlock()
}

func (k checkoutWorker) Start(ctx context.Context, t tasks.Task) (tasks.ProbeResult, error) {
	k.wantOwn("start", t)
	return k.worker.Start(ctx, t)
}

func (k checkoutWorker) Terminate(ctx context.Context, t tasks.Task) error {
	k.wantOwn("termination", t)
	return k.worker.Terminate(ctx, t)
}

func (s *twoInventories) start(c *checkout) {
	o := s.options
	o.Tasks, o.Inventory, o.Log = checkoutWorker{worker{s.world, c.letter}, s, c}, c, s.Open()
	c.at = s.startWith(o)
}

func (s *twoInventories) end(c *checkout) {
	if s.IntN(2) == 0 {
		c.at.die()
	} else {
		c.at.end()
	}
	c.at = nil
}

func (s *twoInventories) wanted() *definition.Definition {
	all := budget.Budget{Count: 100}
	d := daemon("web", image(fmt.Sprint(s.revisions)))
	d.InstanceGroup.MaxLeaving, d.Deployment.MinHealthyPercent = &all, 0
	return d
}

func (s *twoInventories) deploy(c *checkout) {
	s.revisions++
	s.bound.Call(c.Identity())
	if s.revisions == 1 {
		s.do("web", environment.Create{Definition: s.wanted(), Inventory: c.Identity()})
	} else {
		s.do("web", environment.Update{Base: s.revisions - 1, Definition: s.wanted(), Inventory: c.Identity()})
	}
	s.do("web", environment.Deploy{Revision: s.revisions, Hosts: c.selected(), Inventory: c.Identity()})
}

func (c *checkout) selected() []string { hosts, _ := c.Selected(""); return hosts }

func (s *twoInventories) act() {
	c := s.of[[]string{"a", "b"}[s.IntN(2)]]
	switch s.IntN(8) {
	case 0, 1:
		s.deploy(c)
	case 2: // as a promotion does; it stays bound to what it was
		s.revisions++
		s.do("web", environment.Update{Base: s.revisions - 1, Definition: s.wanted()})
	case 3: // it may be refused
		_ = s.command("web", environment.Rollback{Revision: 1 + s.IntN(s.revisions), Hosts: c.selected(), Inventory: c.Identity()})
	case 4:
		c.call([]string{"inventory a", "inventory b", "edited"}[s.IntN(3)])
	case 5:
		c.change(func() { c.hosts = []string{c.letter + "1", c.letter + "2", c.letter + "3"}[:1+s.IntN(3)] })
	default:
		if c.at != nil {
			s.end(c)
		} else {
			s.start(c)
		}
	}
}

// moved goes through the events at the end, and wants hosts to join and tasks to begin by whom the environment is bound to.
func (s *twoInventories) moved() {
	for _, e := range s.Events() {
		if e.Name != record.HostsChanged && e.Name != record.TaskStarted && e.Name != record.TaskTerminating {
			continue
		}
		for letter, c := range s.of {
			if !strings.Contains(string(e.Data), `"joined":["`+letter) && !strings.Contains(string(e.Target), "/"+letter) {
				continue
			}
			s.changes[letter]++
			if !c.called.Fit(&s.bound, e.CreatedAt) {
				s.Errorf("%s of %s, %s, is by who has inventory %v, and the environment is bound to %v", e.Name, e.Target, e.Data, c.called.At(e.CreatedAt), s.bound.At(e.CreatedAt))
			}
		}
	}
}

// Two controllers, each with an inventory of its own, come and go, while an environment is bound to one or the other
// and inventories are renamed: who has another inventory changes no hosts, and does nothing to a task.
func TestNobodyWithAnotherInventoryDoesAnythingOfAnEnvironment(t *testing.T) {
	worked, changes := map[string]int{}, map[string]int{}
	seeds := ringtest.Cases(20, 200)
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &twoInventories{world: newWorld(t, reconciletest.InMemory(t)), Rand: rand.New(rand.NewPCG(seed, 0)), of: map[string]*checkout{}, changes: changes}
				s.slots = 100
				s.slowly(700 * time.Millisecond)
				for _, letter := range []string{"a", "b"} {
					s.of[letter] = &checkout{world: s.world, letter: letter, called: new(reconciletest.Names), hosts: []string{letter + "1"}}
					s.of[letter].called.Call("inventory " + letter)
				}
				s.deploy(s.of["a"])
				for range 40 {
					s.act()
					wait(time.Duration(s.IntN(4000)) * time.Millisecond)
				}
				s.settle()
				s.moved()
				for letter, c := range s.of {
					worked[letter] += c.worked
				}
			})
		})
	}
	for _, letter := range []string{"a", "b"} {
		assert.GreaterOrEqual(t, worked[letter], seeds, letter)
		assert.GreaterOrEqual(t, changes[letter], seeds, letter)
	}
}

// settle has all go well, and wants the last revision to be where it should be.
func (s *twoInventories) settle() {
	for letter, c := range s.of {
		c.call("inventory " + letter)
		if c.at == nil {
			s.start(c)
		}
	}
	s.deploy(s.of["b"])
	wait(10 * time.Minute)
	for _, host := range s.of["b"].selected() {
		assert.Contains(s, s.running(), fmt.Sprintf("%s web:%d", host, s.revisions), "there")
	}
	for _, c := range s.of {
		c.at.end()
	}
}
