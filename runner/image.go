package runner

import (
	"context"
	"fmt"
	"sync"

	"github.com/deployster-go/deployster/engine"
)

// imageCache makes each image available once a run, however many resources
// use it.
type imageCache struct {
	mu      sync.Mutex
	entries map[string]*imageEntry
}

type imageEntry struct {
	once  sync.Once
	image engine.Image
	err   error
}

// imageFor makes an image available and reports its progress as that of a
// resource.
func (r *Runner) imageFor(ctx context.Context, resource, ref string) (engine.Image, error) {
	r.images.mu.Lock()
	if r.images.entries == nil {
		r.images.entries = map[string]*imageEntry{}
	}
	entry := r.images.entries[ref]
	if entry == nil {
		entry = &imageEntry{}
		r.images.entries[ref] = entry
	}
	r.images.mu.Unlock()

	entry.once.Do(func() {
		ctx, cancel := r.stoppable(ctx)
		defer cancel()
		entry.err = r.try("getting it", func() (err error) {
			entry.image, err = r.containers.Images.Image(ctx, ref, r.containers.Pull, func(p engine.Progress) {
				r.show(Event{Kind: Pulling, Time: r.now(), Resource: resource, Image: ref, Current: p.Current, Total: p.Total})
			})
			return err
		})
	})
	if entry.err != nil {
		return engine.Image{}, r.interrupted(ctx, fmt.Errorf("image %s: %w", ref, entry.err))
	}
	return entry.image, nil
}
