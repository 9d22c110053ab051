package build

import (
	"context"
	"runtime"

	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/inventory"
)

// Fleet is the workers that Dispatch has jobs done on, for who asks what is there.
type Fleet struct {
	of   builds.Workers
	pool *work.EnginePool
	host func(worker string) string
}

// NewFleet is the workers of a pool.
func NewFleet(flags session.WorkerFlags, pool *work.EnginePool) Fleet {
	workers, host := workersOf(flags.Inventory, false, runtime.NumCPU(), pool)
	return Fleet{workers, pool, host}
}

// Workers are those that there are at present.
func (f Fleet) Workers() ([]inventory.Host, error) { return f.of.Workers() }

// Identity is what their inventory is known as.
func (f Fleet) Identity() string { return f.of.Identity() }

// Look asks a worker for which platforms it builds.
func (f Fleet) Look(ctx context.Context, name string) ([]string, error) { return f.of.Look(ctx, name) }

// Image finds out which content an image has on a worker.
func (f Fleet) Image(ctx context.Context, worker, ref string, policy engine.PullPolicy) (engine.Image, error) {
	on, err := f.pool.Connection(ctx, f.host(worker))
	if err != nil {
		return engine.Image{}, err
	}
	return on.Images.Image(ctx, ref, policy, nil)
}
