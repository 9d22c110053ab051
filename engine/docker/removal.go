package docker

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
)

// removalsAtOnce bounds how many dead containers wait for their removal. A run
// that ends when there are as many waits for one of them.
const removalsAtOnce = 16

// removals are the containers that are being removed behind the back of runs
// that have returned. The zero value is not ready for use.
type removals struct {
	slots chan struct{}
	under sync.WaitGroup

	mu  sync.Mutex
	ids map[string]bool
}

func newRemovals() *removals {
	return &removals{slots: make(chan struct{}, removalsAtOnce), ids: map[string]bool{}}
}

// begin has remove called in the background. From now on the container counts
// as being removed.
func (r *removals) begin(id string, remove func()) {
	r.mark(id, true)
	r.slots <- struct{}{}
	r.under.Go(func() {
		defer func() {
			r.mark(id, false)
			<-r.slots
		}()
		defer crash.End(engine.StateDir, "removing a container")
		remove()
	})
}

func (r *removals) mark(id string, leaving bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if leaving {
		r.ids[id] = true
	} else {
		delete(r.ids, id)
	}
}

// now returns the containers that are being removed.
func (r *removals) now() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.ids)
}

// discard kills the container if it runs, and removes it, and reports whether it is gone. The outcome
// of the run stands without it: what could not be removed still has its labels, and is
// found by them.
func (e *Engine) discard(ctx context.Context, id string) bool {
	longer, cancel := grace(ctx)
	defer cancel()
	tries := e.newTries(e.retryFor)
	defer tries.end()
	err := e.removeWithin(longer, id)
	for unanswered(err) && tries.again(longer) {
		err = e.removeWithin(longer, id)
	}
	if err != nil {
		e.log.WarnContext(ctx, "a container is left behind", "container", id, "error", causeOf(err))
	}
	return err == nil
}

// removeTimeout is how long an engine may take to kill and remove a container.
const removeTimeout = time.Minute

func (e *Engine) removeWithin(ctx context.Context, id string) error {
	bounded, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	return e.Remove(bounded, id)
}

// forget removes a container that may be there by a name: the answer to the request for it was lost, and
// the engine may be about to make it.
func (e *Engine) forget(ctx context.Context, name string) {
	longer, cancel := grace(ctx)
	defer cancel()
	tries := e.newTries(e.retryFor)
	defer tries.end()
	for again := true; again; again = tries.again(longer) {
		_, err := e.client.ContainerRemove(longer, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err == nil {
			return
		}
	}
}
