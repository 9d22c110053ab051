//go:build linux

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// PruneResult says what Prune removed.
type PruneResult struct {
	Images []Image
	Bytes  int64 // of the files in removed layers, and in what interrupted processes left
}

// Prune removes the images that keep does not want, and every layer and
// temporary file that nothing uses. What a lease, a pull or a load uses stays,
// in whatever process that is. keep must be quick: nothing can be pulled or
// loaded meanwhile.
func (s *Store) Prune(ctx context.Context, keep func(Image) bool) (PruneResult, error) {
	result, err := s.prune(ctx, keep)
	if err != nil {
		return result, fmt.Errorf("prune images: %w", err)
	}
	return result, nil
}

func (s *Store) prune(ctx context.Context, keep func(Image) bool) (result PruneResult, err error) {
	if result.Bytes, err = s.removeOrphans(); err != nil {
		return result, err
	}
	out, err := s.newWorkspace()
	if err != nil {
		return result, err
	}
	// What is thrown away is renamed while others wait, and deleted when they
	// no longer do.
	defer func() { err = errors.Join(err, out.remove()) }()
	held, err := acquire(ctx, s.indexLock(), exclusive)
	if err != nil {
		return result, err
	}
	defer held.release()
	if result.Images, err = s.dropImages(keep); err != nil {
		return result, err
	}
	freed, err := s.dropLayers(ctx, out, nil)
	result.Bytes += freed
	if err != nil {
		return result, err
	}
	return result, s.dropFiles()
}

// dropImages takes images out of the index. Their leases end here: one that is
// asked for now waits for the lock, and then does not find the image.
func (s *Store) dropImages(keep func(Image) bool) (dropped []Image, err error) {
	var held []*lock
	defer func() {
		for _, lock := range held {
			lock.release()
		}
	}()
	err = s.changeLocked(func(index *index) error {
		for _, image := range s.images(index) {
			if keep(image) {
				continue
			}
			id, err := v1.NewHash(image.ID)
			if err != nil {
				return err
			}
			lock, err := try(s.imageLock(id), exclusive)
			if err != nil {
				return err
			}
			if lock == nil {
				continue // in use
			}
			held = append(held, lock)
			index.remove(id)
			dropped = append(dropped, image)
		}
		used := index.usedLayers()
		for layer := range index.Layers {
			if !used[layer] {
				delete(index.Layers, layer)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return dropped, nil
}

// usedLayers are the layers of all images.
func (i *index) usedLayers() map[v1.Hash]bool {
	used := map[v1.Hash]bool{}
	for _, entry := range i.Images {
		for _, layer := range entry.Layers {
			used[layer] = true
		}
	}
	return used
}

// dropLayers moves the layers that neither an image nor a pull or load needs:
// those in of, or all if that is nil.
func (s *Store) dropLayers(ctx context.Context, out *workspace, of map[v1.Hash]bool) (freed int64, err error) {
	index, err := s.index()
	if err != nil {
		return 0, err
	}
	used := index.usedLayers()
	there, err := os.ReadDir(s.layersDir())
	if err != nil {
		return 0, err
	}
	for _, each := range there {
		layer, err := v1.NewHash("sha256:" + each.Name())
		if err != nil || used[layer] || of != nil && !of[layer] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return freed, err
		}
		held, err := try(s.layerLock(layer), exclusive)
		if err != nil {
			return freed, err
		}
		if held == nil {
			continue // in use
		}
		size, err := sizeOf(s.layerDir(layer))
		if err == nil {
			err = os.Rename(s.layerDir(layer), out.path(layer.Hex))
		}
		held.release()
		if err != nil {
			return freed, err
		}
		freed += size
	}
	return freed, nil
}

// dropFiles removes the configurations and locks of what is no longer there.
func (s *Store) dropFiles() error {
	index, err := s.index()
	if err != nil {
		return err
	}
	configs, err := os.ReadDir(filepath.Join(s.dir, "images"))
	if err != nil {
		return err
	}
	for _, each := range configs {
		id := v1.Hash{Algorithm: "sha256", Hex: strings.TrimSuffix(each.Name(), ".json")}
		if _, ok := index.Images[id]; !ok {
			if err := os.Remove(filepath.Join(s.dir, "images", each.Name())); err != nil {
				return err
			}
		}
	}
	locks, err := os.ReadDir(filepath.Join(s.dir, "locks"))
	if err != nil {
		return err
	}
	for _, each := range locks {
		kind, digits, _ := strings.Cut(each.Name(), "-")
		of := v1.Hash{Algorithm: "sha256", Hex: digits}
		if _, ok := index.Images[of]; kind == "index" || kind == "image" && ok || kind == "layer" && exists(s.layerDir(of)) {
			continue
		}
		path := filepath.Join(s.dir, "locks", each.Name())
		held, err := try(path, exclusive)
		if err != nil {
			return err
		}
		if held == nil {
			continue
		}
		err = os.Remove(path) // who waits for it sees that it is gone
		held.release()
		if err != nil {
			return err
		}
	}
	return nil
}
