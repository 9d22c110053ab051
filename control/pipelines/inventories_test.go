package pipelines_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
		assert.Len(t, p.notices("leaving p alone: its hosts are those of inventory mine, and the inventory here is other"), 1, "it was noticed")
		other.end()
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
		assert.ErrorContains(t, err, "pipeline p is left alone: its hosts are those of inventory mine")
	})
}
