package objects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// MinAge is how old an object is at least that is pruned: what is stored is named by
// somebody only afterwards.
const MinAge = 24 * time.Hour

// Pruned is what was removed.
type Pruned struct {
	Count  int
	Bytes  int64
	Oldest time.Time // when the oldest of it was last stored; zero of nothing
}

// prunedPrefix begins the name of what is being removed.
const prunedPrefix = ".removed-"

// Prune removes objects that are not needed and were not stored since a moment, and what
// processes that died left half stored. The moment must be earlier than what needed knows,
// by MinAge. With dryRun it removes nothing, and returns what it would.
func (s Store) Prune(ctx context.Context, before time.Time, needed func(hash string) bool, dryRun bool) (pruned Pruned, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return pruned, nil
	}
	if err != nil {
		return pruned, fmt.Errorf("looking for objects: %w", err)
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return pruned, fmt.Errorf("removing objects: %w", context.Cause(ctx))
		}
		name := e.Name()
		half := strings.HasPrefix(name, ".deployster-new-") || strings.HasPrefix(name, prunedPrefix)
		if !half && (!IsHash(name) || needed(name)) {
			continue
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !info.ModTime().Before(before) {
			continue // another process removed it, or it is not ours
		}
		if !dryRun {
			removed, err := s.remove(name, half, before)
			if err != nil {
				return pruned, fmt.Errorf("removing object %s: %w", name, err)
			}
			if !removed {
				continue
			}
		}
		pruned.Count, pruned.Bytes = pruned.Count+1, pruned.Bytes+info.Size()
		if pruned.Oldest.IsZero() || info.ModTime().Before(pruned.Oldest) {
			pruned.Oldest = info.ModTime()
		}
	}
	return pruned, nil
}

// remove removes a file. Somebody may store an object again at any moment: it is taken
// away first, under another name, and is brought back if it is new by then.
func (s Store) remove(name string, half bool, before time.Time) (removed bool, err error) {
	path := filepath.Join(s.dir, name)
	away := path
	if !half {
		away = filepath.Join(s.dir, prunedPrefix+name)
		if err := os.Rename(path, away); err != nil {
			return false, gone(err)
		}
		info, err := os.Lstat(away)
		if err != nil {
			return false, gone(err)
		}
		if !info.ModTime().Before(before) {
			return false, os.Rename(away, path)
		}
	}
	err = os.Remove(away)
	return err == nil, gone(err)
}

// gone is an error, unless another process was first.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
