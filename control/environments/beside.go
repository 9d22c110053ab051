package environments

import (
	"context"

	"github.com/deployster-go/deployster/control/reconcile"
)

// Beside runs what waits for environments, and beside it a Controller of those that are added to
// the scope.
func Beside(ctx context.Context, o Options, run func(ctx context.Context, scope *reconcile.Scope) error) error {
	scope, over := reconcile.Only(), make(chan struct{})
	o.Scope, o.Drain = scope, over
	return reconcile.Beside(ctx, "controlling environments", over, NewController(o).Run, func(ctx context.Context) error { return run(ctx, scope) })
}
