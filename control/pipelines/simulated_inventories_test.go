package pipelines_test

import (
	"context"
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

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

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
