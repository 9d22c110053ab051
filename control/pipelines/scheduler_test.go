package pipelines_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// A scheduler that is killed at any moment is replaced by one that brings the
// same log about, and does nothing again that was finished.
func TestWhoeverDiesWhereverTheLogIsTheSame(t *testing.T) {
	carry := func(t *testing.T, lives int, last bool) (story []string, appends int) {
		inPlant(t, func(p *plant) {
			p.members, p.made = map[string][]string{"g": {"a", "b"}}, map[string]string{"x86": "ref", "arm": "ref"}
			p.define(definition.Stage{Name: "build", Build: &definition.Build{Artifacts: []string{"x86", "arm"}, Manifest: "b.yaml"}},
				deployTo("hosts", "g", steps("host-deployed", "host-tested"), "build"), approval("ok", "hosts"), runStage("end", "ok"))
			p.release("1")
			p.options.Parallelism = 1
			p.before = func(s step.Step) {
				for _, e := range p.Events() {
					if e.Deployment == s.Deployment && e.Target == s.Target && e.Name == s.Event {
						t.Errorf("%s is done again", say(s))
					}
				}
			}
			m := &reconciletest.Mortal{Log: p.DeployLog, Lives: lives, Last: last}
			p.options.Log, p.options.UntilIdle = m, true
			approved := false
			for {
				err := pipelines.NewScheduler(p.options).Run(p.Context())
				switch {
				case errors.Is(err, reconciletest.ErrDead):
					p.options.Log = p.takenOver()
					continue
				case err != nil:
					t.Fatal(err)
				case !approved:
					p.do(pipeline.Approve{Stage: "ok", Revision: "1"})
					approved = true
					continue
				}
				break
			}
			story, appends = p.told(), m.Calls()
		})
		return story, appends
	}
	sameWhereverItDies(t, 15, carry)
}

// sameWhereverItDies wants schedulers that die at any append, which is in the log or is not, to
// bring about what one does that lives on, which takes at least so many appends.
func sameWhereverItDies(t *testing.T, least int, carry func(t *testing.T, lives int, last bool) (story []string, appends int)) {
	t.Helper()
	want, appends := carry(t, 1000, false)
	require.GreaterOrEqual(t, appends, least)
	require.True(t, strings.HasPrefix(want[len(want)-1], "pipeline-finished-successfully"), "it tells %q", want)
	for lives := range appends {
		for _, last := range []bool{false, true} {
			if got, _ := carry(t, lives, last); !slices.Equal(got, want) {
				t.Fatalf("after a death at append %d (in the log: %v) it tells\n%s\nnot\n%s", lives+1, last, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

// told is what the log tells, but for the beginnings of steps, of which there is one for each try.
func (p *plant) told() (story []string) {
	for _, e := range p.Events() {
		if e.Target.Kind() != "run" && e.Name != record.StepsBegun {
			story = append(story, fmt.Sprintf("%s %s %s %d %s", e.Name, e.Target, e.Revision, e.Attempt, e.Data))
		}
	}
	return story
}

func TestAPipelineThatThereIsNotEndsTheScheduler(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.options.Scope = reconcile.Only("q")
		assert.ErrorIs(t, pipelines.NewScheduler(p.options).Run(p.Context()), pipelines.ErrNoPipeline)
	})
}

func TestOtherPipelinesAreLeftAlone(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("only"))
		p.release("1")
		p.other("1q")
		p.options.Scope = reconcile.Only("p")
		p.untilIdle()
		p.wantStatus("1", deployment.Finished)
		p.wantStory("1q", "pipeline-started q")
	})
}

func TestHostsJoinAndLeaveWhileItRuns(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.rollOut(steps("host-deployed"), "a", "b")
		p.options.Parallelism = 1
		results := p.holdWork()
		r := p.start()
		p.inventory(nil, "g", "a", "c")
		wait(2 * time.Second)
		results <- nil
		results <- nil
		wait(time.Second)
		p.wantBegun("1 host-deployed a", "1 host-deployed c")
		p.wantStatus("1", deployment.Finished)
		r.End()
	})
}

func TestAnInventoryThatCannotBeReadKeepsTheKnownHosts(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(1, "host-deployed", "host-tested")
		results := p.holdWork()
		r := p.start()
		p.inventory(errors.New("no such file"), "g")
		wait(time.Minute)
		results <- nil
		results <- nil
		wait(time.Minute)
		p.wantStatus("1", deployment.Finished)
		got := p.Notices("notice")
		assert.True(t, len(got) == 1 && strings.Contains(got[0], "pipeline p goes on with the hosts it knows: no such file"),
			"notified %q", got)
		p.inventory(nil, "g", "h000")
		wait(time.Minute)
		p.inventory(errors.New("no such file"), "g")
		wait(time.Minute)
		assert.Len(t, p.Notices("notice"), 2, "notified")
		r.End()
	})
}

func TestAnInventoryThatHangsHoldsNobodyUp(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(approval("ok"))
		p.release("1")
		r := p.start()
		end := p.hang()
		cancelled := make(chan struct{})
		go func() { p.do(pipeline.Cancel{Revision: "1"}); close(cancelled) }()
		wait(time.Minute)
		select {
		case <-cancelled:
		default:
			t.Error("nobody can cancel while the hosts are selected")
		}
		end()
		<-cancelled
		r.End()
	})
}

func TestADefinitionThatComesWhileTheHostsAreLookedAtHasItsOwn(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(1, "host-deployed")
		p.options.UntilIdle = true
		p.hangs = make(chan struct{})
		r := p.start()
		p.define(deployTo("all", "g", steps("host-deployed")), deployTo("more", "g2", steps("host-deployed"), "all"))
		p.inventory(nil, "g2", "z")
		close(p.hangs)
		assert.NoError(t, <-r.Ended)
		p.wantStatus("1", deployment.Finished)
		p.wantBegun("1 host-deployed h000", "1 host-deployed z")
		r.Kill(nil)
	})
}

func TestWithoutAnyInventoryItIsIdle(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(1, "host-deployed")
		p.inventory(errors.New("no such file"), "g")
		p.untilIdle()
		p.wantStory("1", "pipeline-started p\nstage-started p/all\nhost-group-started p/g")
	})
}

func TestStopDoesNotWaitForWhatRestsAfterAFailure(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.rollOut(retried("host-deployed"), "a")
		p.work = func(step.Step) error { return errors.New("no") }
		r := p.start()
		wait(3 * time.Minute)
		before := time.Now()
		r.End()
		took := time.Since(before)
		assert.True(t, took <= 0, "it took %v", took)
		p.wantStatus("1", deployment.Running)
	})
}

func TestItGoesOnAsSoonAsSomethingComesFromOutside(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(approval("ok"), runStage("end", "ok"))
		r := p.start()
		elsewhere := pipelines.New(p.Open(), time.Now)
		for _, c := range []pipeline.Command{pipeline.Release{Revision: "1", ID: p.id()}, pipeline.Approve{Stage: "ok", Revision: "1"}} {
			must.Get(elsewhere.Command(p.Context(), "p", c))(t)
			wait(60 * time.Millisecond)
		}
		p.wantStatus("1", deployment.Finished)
		r.End()
	})
}

func TestALogThatIsPoisonedEndsTheSchedulerWhenItsWorkHasEnded(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(3, "host-deployed")
		results := p.holdWork()
		m := &reconciletest.Mortal{Log: p.DeployLog, Lives: 5}
		p.options.Log = m
		s := pipelines.NewScheduler(p.options)
		ended := make(chan error, 1)
		go func() { ended <- s.Run(p.Context()) }()
		synctest.Wait()
		m.Die()
		results <- nil
		wait(time.Minute)
		assert.True(t, len(ended) == 0 && len(p.Notices("the scheduler ends when what it has begun is done")) == 1,
			"it did not wait, or does not say so: %q", p.Notices("notice"))
		results <- nil
		results <- nil
		err := <-ended
		assert.True(t, errors.Is(err, reconciletest.ErrDead) && strings.Contains(err.Error(), "host-deployed of host/p/g/h00"),
			"it ended with %v", err)
	})
}

func TestAMarkerThatSomebodyElseRecordedIsRead(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("only"))
		p.release("1")
		p.options.Log = &reconciletest.Hooked{Log: p.DeployLog, Event: "stage-started", Hook: func(e deploylog.Event) error {
			_, err := p.DeployLog.Append(context.Background(), e)
			return err
		}}
		p.untilIdle()
		p.wantStatus("1", deployment.Finished)
	})
}

func TestTheObserverIsNotifiedOfEverythingOnceAndInOrder(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("only"))
		p.release("1")
		p.untilIdle()
		want := []string{
			"stage-started stage/p/only", "began 1 stage-manifest-applied", "stage-manifest-applied stage/p/only",
			"stage-finished-successfully stage/p/only", "pipeline-finished-successfully pipeline/p",
		}
		assert.True(t, slices.Equal(p.Notices(""), want), "notified %q, not %q", p.Notices(""), want)
	})
}

func TestWhetherASchedulerControlsAPipeline(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("only"))
		assert.False(t, p.pipelines.Controlled("p"), "there is none")
		r := p.start()
		assert.True(t, pipelines.New(p.Open(), time.Now).Controlled("p"), "there is one")
		r.End()
		assert.False(t, p.pipelines.Controlled("p"), "there is none any more")
	})
}

func TestAllSeeTheSamePipelinesWhoeverChangesThem(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	const each = 20
	var group sync.WaitGroup
	all := []*pipelines.Pipelines{p.pipelines}
	for range 2 {
		all = append(all, pipelines.New(p.Open(), time.Now))
	}
	for who, q := range all {
		group.Go(func() {
			for i := range each {
				c := pipeline.Release{Revision: fmt.Sprint(i), ID: fmt.Sprintf("%d-%d", who, i)}
				_, err := q.Command(t.Context(), "p", c)
				assert.True(t, err == nil || errors.Is(err, pipeline.ErrRepeated), "%v", err)
			}
		})
	}
	group.Wait()
	events := p.Events()
	assert.True(t, len(events) == 1+each, "there are %d events, not one for each of %d revisions", len(events), each)
	for _, q := range all {
		require.NoError(t, q.Follow(t.Context(), 0))
		err := q.Ask("p", func(s *pipeline.State) error {
			for i, r := range s.Registrations() {
				assert.True(t, r.Deployment == events[i+1].Deployment && r.Seq == events[i+1].Seq, "registration %d is %+v", i, r)
			}
			return nil
		})
		assert.True(t, err == nil && q.Head() == int64(len(events)), "head is %d, %v", q.Head(), err)
	}
}

func TestEveryEventIsPassedOnceAndInOrder(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	var seen []int64
	q := pipelines.New(p.DeployLog, time.Now, func(e deploylog.Event) { seen = append(seen, e.Seq) })
	p.define(runStage("only"))
	for i := range 3 {
		p.release(fmt.Sprint("of another ", i))
		must.Get(q.Command(t.Context(), "p", pipeline.Release{Revision: fmt.Sprint(i), ID: p.id()}))(t)
	}
	must.Get(q.Change(t.Context(), "p", false, func(s *pipeline.State) ([]deploylog.Event, error) {
		if _, err := p.DeployLog.Append(t.Context(), deploylog.Event{Deployment: "run", Target: "run/web.yaml", Name: "run-started"}); err != nil {
			return nil, err
		}
		return s.Propose(pipeline.Release{Revision: "last", ID: p.id()}, time.Time{})
	}))(t)
	want := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	assert.True(t, slices.Equal(seen, want), "passed were %v, not %v", seen, want)
}

func TestPipelinesAreAsTheyWereAtAnEvent(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	p.release("1")
	p.release("2")
	q := pipelines.New(p.DeployLog, time.Now)
	require.NoError(t, q.Follow(t.Context(), 2))
	_ = q.Ask("p", func(s *pipeline.State) error { assert.Len(t, s.Registrations(), 1, "it knows"); return nil })
}

func TestAPipelineThatThereIsNotIsSaidSo(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	ask := func(*pipeline.State) error { return nil }
	refused := func(err error, want string) {
		assert.True(t, errors.Is(err, pipelines.ErrNoPipeline) && strings.Contains(err.Error(), want), "it says %v, not %q", err, want)
	}
	refused(p.pipelines.Ask("q", ask), "there is none yet: deployster pipeline apply -f FILE")
	_, err := p.pipelines.Command(t.Context(), "q", pipeline.Release{Revision: "1", ID: "d"})
	refused(err, "there is none yet")
	p.define(runStage("only"))
	refused(p.pipelines.Ask("q", ask), `"q"; there are p`)
	assert.Len(t, p.Events(), 1, "it recorded")
}

func TestAChangeThatIsRefusedRecordsNothingAndLetsOthersIn(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	no := errors.New("no")
	_, err := p.pipelines.Change(t.Context(), "p", false, func(*pipeline.State) ([]deploylog.Event, error) { return nil, no })
	assert.True(t, errors.Is(err, no) && len(p.Events()) == 1, "it says %v, and recorded %v", err, p.Events())
	p.release("1")
}

func TestWhoWaitsForTheDecideLockCanGiveUp(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	ctx, cancel := context.WithCancel(t.Context())
	assert.ErrorIs(t, must.Fail(p.pipelines.Change(t.Context(), "p", false, func(*pipeline.State) ([]deploylog.Event, error) {
		cancel()
		_, err := pipelines.New(p.DeployLog, time.Now).Command(ctx, "p", pipeline.Release{Revision: "1", ID: "d"})
		return nil, err
	})), context.Canceled)
}

// checkout is a scheduler with an inventory of its own, whose hosts begin with its letter.
type checkout struct {
	*plant
	letter string
	mu     sync.Mutex
	called *reconciletest.Names // of the inventory
	hosts  []string
	at     *reconciletest.Process // nil while it is not at work
	worked int
}

func (c *checkout) Identity() string { return c.called.Now() }

func (c *checkout) Members(d *definition.Definition) (map[string][]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	members := map[string][]string{}
	for _, g := range d.Groups() {
		members[g.Name] = slices.Clone(c.hosts)
	}
	return members, nil
}

// twoInventories are two checkouts on one log, and a pipeline that is bound to the inventory of one of them, or to none.
type twoInventories struct {
	*plant
	*rand.Rand
	of        map[string]*checkout // by letter
	bound     reconciletest.Names
	revisions int
	members   map[string]int
}

// checkoutWorker does the work of a checkout, and wants that to be its own.
type checkoutWorker struct {
	*twoInventories
	c *checkout
}

func (w checkoutWorker) Work(ctx context.Context, t step.Step, made map[string]string, wanted func() error) (map[string]string, error) {
	now := time.Now()
	assert.True(w, w.c.called.Fit(&w.bound, now),
		"%s is done by who has inventory %s, and the pipeline is bound to %v", say(t), w.c.Identity(), w.bound.At(now))
	if t.Host != "" && !strings.HasPrefix(t.Host, w.c.letter) {
		w.Errorf("%s is done by who has the hosts %s", say(t), w.c.letter)
	}
	w.c.mu.Lock()
	w.c.worked++
	w.c.mu.Unlock()
	return w.plant.Work(ctx, t, made, wanted)
}

func (s *twoInventories) start(c *checkout) {
	s.options.Worker, s.options.Hosts = checkoutWorker{s, c}, c
	s.options.Log = s.Open()
	c.at = s.plant.start()
}

func (s *twoInventories) end(c *checkout) {
	if s.IntN(2) == 0 {
		c.at.Die()
	} else {
		c.at.End()
	}
	c.at = nil
}

func (s *twoInventories) bind(inventory string) {
	all := budget.Budget{Count: 100}
	deploy := deployTo("all", "g", steps("host-copied", "host-deployed"), "first")
	deploy.Deploy.HostGroups[0].MaxLeaving = &all
	s.bound.Call(inventory)
	s.do(pipeline.Define{Definition: &definition.Definition{Name: "p", Stages: []definition.Stage{runStage("first"), deploy}}, Inventory: inventory, ID: s.id()})
}

func (s *twoInventories) act() {
	c := s.of[[]string{"a", "b"}[s.IntN(2)]]
	switch s.IntN(8) {
	case 0, 1:
		s.revisions++
		s.release(fmt.Sprint(s.revisions))
	case 2:
		s.bind(s.of[[]string{"a", "b"}[s.IntN(2)]].Identity())
	case 3:
		s.bind([]string{"", "inventory a", "inventory b"}[s.IntN(3)])
	case 4:
		c.called.Call([]string{"inventory a", "inventory b", "edited"}[s.IntN(3)])
	case 5:
		c.mu.Lock()
		c.hosts = []string{c.letter + "1", c.letter + "2", c.letter + "3"}[:1+s.IntN(3)]
		c.mu.Unlock()
	default:
		if c.at != nil {
			s.end(c)
		} else {
			s.start(c)
		}
	}
}

// moved goes through the events at the end, and wants the hosts of a group to be those of an inventory
// that the pipeline is bound to.
func (s *twoInventories) moved() {
	for _, e := range s.Events() {
		if e.Name != record.MembersChanged {
			continue
		}
		for letter, c := range s.of {
			if !strings.Contains(string(e.Data), `"`+letter) {
				continue
			}
			s.members[letter]++
			if !c.called.Fit(&s.bound, e.CreatedAt) {
				s.Errorf("the hosts are %s by who has inventory %v, and the pipeline is bound to %v", e.Data, c.called.At(e.CreatedAt), s.bound.At(e.CreatedAt))
			}
		}
	}
}

// Two schedulers, each with an inventory of its own, come and go, while a pipeline is bound to one or the other and
// inventories are renamed: who has another inventory changes no hosts, and does no step.
func TestNobodyWithAnotherInventoryDoesAnythingOfAPipeline(t *testing.T) {
	worked, members := map[string]int{}, map[string]int{}
	for seed := range ringtest.Cases(12, 60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &twoInventories{plant: newPlant(t, reconciletest.InMemory(t)), Rand: rand.New(rand.NewPCG(uint64(seed), 0)), of: map[string]*checkout{}, members: members}
				s.slots = 100
				s.work = func(step.Step) error { <-time.After(700 * time.Millisecond); return nil }
				for _, letter := range []string{"a", "b"} {
					s.of[letter] = &checkout{plant: s.plant, letter: letter, called: new(reconciletest.Names), hosts: []string{letter + "1"}}
					s.of[letter].called.Call("inventory " + letter)
				}
				s.bind("inventory a")
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
		assert.True(t, worked[letter] >= 10 && members[letter] >= 10,
			"who has inventory %s did %d steps, and changed hosts %d times", letter, worked[letter], members[letter])
	}
}

// settle has all go well, and wants every revision to have gone through.
func (s *twoInventories) settle() {
	for letter, c := range s.of {
		c.called.Call("inventory " + letter)
		if c.at == nil {
			s.start(c)
		}
	}
	s.bind("inventory b")
	s.revisions++
	s.release(fmt.Sprint(s.revisions))
	wait(10 * time.Minute)
	story := s.story(fmt.Sprint(s.revisions))
	assert.True(s, len(story) != 0 && story[len(story)-1] == "pipeline-finished-successfully p", "the last revision comes to %q", story)
	for _, c := range s.of {
		c.at.End()
	}
}

// called is the inventory of a plant under another name.
type called struct {
	*plant
	name atomic.Value
}

func (c *called) Identity() string { return c.name.Load().(string) }

// with has the schedulers that start from now on take an inventory of a name.
func (p *plant) with(name string) *called {
	c := &called{plant: p}
	c.name.Store(name)
	p.options.Hosts = c
	return c
}

func (p *plant) bound(inventory string) {
	p.do(pipeline.Define{Definition: &definition.Definition{Name: "p", Stages: []definition.Stage{runStage("one"), runStage("two", "one")}}, Inventory: inventory, ID: p.id()})
}

// What two schedulers with different inventories do on one log is drawn in
// TestNobodyWithAnotherInventoryDoesAnythingOfAPipeline.
func TestASchedulerWithAnotherInventoryLeavesAPipelineAlone(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.bound("mine")
		p.release("1")
		p.with("other")
		other := p.start()
		wait(10 * time.Second)
		p.wantBegun()
		assert.Len(t, p.Notices("leaving p alone: its hosts are those of inventory mine, and the inventory here is other"), 1, "it was noticed")
		other.End()
	})
}

func TestAPipelineThatIsNamedAndLeftAloneIsAnError(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.bound("mine")
		p.release("1")
		p.with("other")
		p.untilIdle()
		o := p.options
		o.UntilIdle, o.Scope = true, reconcile.Of("p")
		err := pipelines.NewScheduler(o).Run(context.Background())
		assert.ErrorContains(t, err, "pipeline p is left alone: its hosts are those of inventory mine")
	})
}
