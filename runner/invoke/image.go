package invoke

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

// Image makes an image available and reports its progress as that of a resource.
func (v *Invoker) Image(ctx context.Context, resource, ref string) (engine.Image, error) {
	v.images.mu.Lock()
	if v.images.entries == nil {
		v.images.entries = map[string]*imageEntry{}
	}
	entry := v.images.entries[ref]
	if entry == nil {
		entry = &imageEntry{}
		v.images.entries[ref] = entry
	}
	v.images.mu.Unlock()

	entry.once.Do(func() {
		ctx, cancel := v.containers.Stop.Context(ctx)
		defer cancel()
		entry.err = v.panics.Try("getting it", func() (err error) {
			entry.image, err = v.containers.Images.Image(ctx, ref, v.containers.Pull, func(p engine.Progress) { v.observer.Pulling(resource, ref, p) })
			return err
		})
	})
	if entry.err != nil {
		return engine.Image{}, v.containers.Stop.Interrupted(ctx, fmt.Errorf("image %s: %w", ref, entry.err))
	}
	return entry.image, nil
}
