//go:build linux

package store

import (
	"context"
	"fmt"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/engine"
)

// Lease is the use of an image's unpacked layers. While it is held, Prune leaves
// them alone, in every process. It ends with the process at the latest.
type Lease struct {
	Image  Image
	Layers []string // directories, topmost first; at least one, each once: fit to be lower directories of an overlay

	lock    *lock
	release sync.Once
}

// Release ends the lease. Further calls do nothing.
func (l *Lease) Release() { l.release.Do(l.lock.release) }

// Rootfs returns the unpacked layers of the image with this id, which must be
// the full one. It fails with engine.ErrNoImage if it is not in the store.
func (s *Store) Rootfs(ctx context.Context, id string) (*Lease, error) {
	lease, err := s.lease(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("use image %s: %w", id, err)
	}
	return lease, nil
}

func (s *Store) lease(ctx context.Context, id string) (*Lease, error) {
	hash, err := v1.NewHash(id)
	if err != nil {
		return nil, err
	}
	if _, err := s.holding(hash); err != nil {
		return nil, err // and no lock is made for it
	}
	held, err := acquire(ctx, s.imageLock(hash), shared)
	if err != nil {
		return nil, err
	}
	lease, err := s.holding(hash) // it may have been removed before it was locked
	if err != nil {
		held.release()
		return nil, err
	}
	lease.lock = held
	// Its time is only advice about what to remove.
	if err := unix.Utimes(s.imageLock(hash), nil); err != nil {
		s.logger.Debug("an image's last use is not recorded", "image", id, "error", err)
	}
	return lease, nil
}

// holding is a lease without a lock.
func (s *Store) holding(id v1.Hash) (*Lease, error) {
	index, err := s.index()
	if err != nil {
		return nil, err
	}
	entry, ok := index.Images[id]
	if !ok {
		return nil, fmt.Errorf("%w: it is not in the store; pull or load it first", engine.ErrNoImage)
	}
	image, err := s.image(index, id)
	if err != nil {
		return nil, err
	}
	layers, err := s.layerDirs(entry.Layers)
	if err != nil {
		return nil, err
	}
	if len(layers) == 0 {
		layers = []string{s.emptyLayer()}
	}
	return &Lease{Image: image, Layers: layers}, nil
}
