package work

import (
	"context"
	"path/filepath"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/runner/invoke"
)

// Reserve keeps processes that serve between the runs of a controller. To others it is
// a run: as long as that holds its lock, they leave its containers alone.
type Reserve struct {
	processes *invoke.Reserve
	held      *runs.Run
	dir       string // which goes with it
}

// NewReserve returns a reserve of at most so many processes for the runs of a Config.
func NewReserve(c Config, most int) (*Reserve, error) {
	id := newID(c.Now())
	held, err := runs.Watch(runs.Options{Log: c.Log, ID: id})
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.Workspace, engine.StateDir, "work", id)
	return &Reserve{invoke.NewReserve(id, dir, most, c.Crashed), held, dir}, nil
}

// Close ends the processes, at once when ctx is done. No run may be left.
func (r *Reserve) Close(ctx context.Context) {
	r.processes.Close(ctx)
	r.held.End()
}
