package promotions

import (
	"context"
	"sync"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/internal/crash"
)

// Schedule runs a Controller, and beside it the controller of the environments that pipelines
// use. Those fields of the options that follow from the inventory are set.
func Schedule(ctx context.Context, o Options, tasks environments.Tasks, inventory environments.Inventory) error {
	scope := reconcile.Only() // the environments that pipelines use
	over := make(chan struct{})
	controller := environments.NewController(environments.Options{
		Options: reconcile.Options{Log: o.Log, Scope: scope, Parallelism: o.Parallelism, Drain: over, Now: o.Now},
		Tasks:   tasks, Inventory: inventory, Observer: o.Observer,
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var controlling sync.WaitGroup
	controlling.Go(func() {
		if err := crash.Do("controlling environments", func() error { return controller.Run(ctx) }); err != nil {
			cancel(err) // or promotions would wait for it without end
		}
	})
	defer controlling.Wait()
	defer close(over)
	o.Verify = tasks.Verify
	o.Selected, o.Identity, o.Things, o.Control = inventory.Selected, inventory.Identity, tasks.Things, scope.Add
	return NewController(o).Run(ctx)
}
