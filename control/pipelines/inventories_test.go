package pipelines_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
)

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

// bound defines a pipeline that is bound to an inventory.
func (p *plant) bound(inventory string) {
	p.Helper()
	p.do(pipeline.Define{Definition: &definition.Definition{Name: "p", Stages: []definition.Stage{runStage("one"), runStage("two", "one")}}, Inventory: inventory, ID: p.id()})
}

// Two schedulers with different inventories are at work on one log: each does what is
// bound to its own.
func TestASchedulerWithAnotherInventoryLeavesAPipelineAlone(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.bound("mine")
		p.release("1")
		p.with("other")
		other := p.start()
		wait(10 * time.Second)
		p.wantBegun()
		if got := p.notices("leaving p alone: its hosts are those of inventory mine, and the inventory here is other"); len(got) != 1 {
			t.Errorf("it was noticed %q", got)
		}
		p.with("mine")
		mine := p.start()
		wait(5 * time.Second)
		p.wantBegun("1 stage-manifest-applied", "1 stage-manifest-applied")
		mine.end()

		// The latest definition says which it is; one without a name is anybody's.
		p.release("2")
		wait(5 * time.Second)
		p.wantBegun("1 stage-manifest-applied", "1 stage-manifest-applied")
		p.bound("other")
		wait(5 * time.Second)
		if got := p.story("2"); got[len(got)-1] != "pipeline-finished-successfully p" {
			t.Errorf("what was bound to it goes on to %q", got)
		}
		p.bound("")
		p.release("3")
		wait(5 * time.Second)
		if got := p.story("3"); got[len(got)-1] != "pipeline-finished-successfully p" {
			t.Errorf("what is bound to none goes on to %q", got)
		}
		other.end()
	})
}

// An inventory whose name is edited away is another one, until the name is back. What runs
// then ends and is recorded.
func TestAnInventoryThatLosesItsNameIsAnother(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.bound("mine")
		inventory := p.with("mine")
		results := p.holdWork()
		scheduler := p.start()
		p.release("1")
		wait(2 * time.Second)
		inventory.name.Store("/work/inventory.yaml")
		results <- nil
		wait(5 * time.Second)
		p.wantBegun("1 stage-manifest-applied")
		if got := p.story("1"); got[len(got)-1] != "stage-manifest-applied p/one" {
			t.Errorf("it goes on to %q", got)
		}
		if got := p.notices("leaving p alone"); len(got) != 1 {
			t.Errorf("it was noticed %q", got)
		}
		inventory.name.Store("mine")
		wait(5 * time.Second)
		p.wantBegun("1 stage-manifest-applied", "1 stage-manifest-applied")
		results <- nil
		scheduler.end()
	})
}

// A run that is asked for a pipeline that it leaves alone fails; one for all does not.
func TestAPipelineThatIsNamedAndLeftAloneIsAnError(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.bound("mine")
		p.release("1")
		p.with("other")
		p.untilIdle()
		o := p.options
		o.UntilIdle, o.Scope = true, reconcile.Of("p")
		err := pipelines.NewScheduler(o).Run(context.Background())
		if err == nil || !strings.Contains(err.Error(), "pipeline p is left alone: its hosts are those of inventory mine") {
			t.Errorf("it ends with %v", err)
		}
	})
}
