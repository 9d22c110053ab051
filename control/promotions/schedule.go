package promotions

import (
	"context"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
)

// Schedule runs a Controller, and beside it the controller of the environments that pipelines
// use. Those fields of the options that follow from the inventory are set.
func Schedule(ctx context.Context, o Options, tasks environments.Tasks, inventory environments.Inventory) error {
	return environments.Beside(ctx, environments.Options{
		Options: reconcile.Options{Log: o.Log, Parallelism: o.Parallelism, Now: o.Now}, Tasks: tasks, Inventory: inventory, Observer: o.Observer,
	}, func(ctx context.Context, scope *reconcile.Scope) error {
		o.Verify = tasks.Verify
		o.Selected, o.Identity, o.Things, o.Control = inventory.Selected, inventory.Identity, tasks.Things, scope.Add
		return NewController(o).Run(ctx)
	})
}
