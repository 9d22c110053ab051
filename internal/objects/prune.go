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
	if s.far != nil {
		return pruneFar(ctx, s.far, before, needed, dryRun)
	}
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
		gone, err := s.pruneOne(e, before, needed, dryRun)
		if err != nil {
			return pruned, fmt.Errorf("removing object %s: %w", e.Name(), err)
		}
		if gone == nil {
			continue
		}
		pruned.Count, pruned.Bytes = pruned.Count+1, pruned.Bytes+gone.Size()
		if pruned.Oldest.IsZero() || gone.ModTime().Before(pruned.Oldest) {
			pruned.Oldest = gone.ModTime()
		}
	}
	return pruned, nil
}

// pruneOne removes one file, and returns what it was; nil is that it stays.
func (s Store) pruneOne(e fs.DirEntry, before time.Time, needed func(hash string) bool, dryRun bool) (fs.FileInfo, error) {
	name := e.Name()
	if s.takenTooMuch(e, before, needed) && (dryRun || s.bringBack(strings.TrimPrefix(name, prunedPrefix)) == nil) {
		return nil, nil
	}
	half := strings.HasPrefix(name, ".deployster-new-") || strings.HasPrefix(name, prunedPrefix)
	if !half && (!IsHash(name) || needed(name)) {
		return nil, nil
	}
	info, err := e.Info()
	if err != nil || !info.Mode().IsRegular() || !info.ModTime().Before(before) {
		return nil, nil //nolint:nilerr // another process removed it, or it is not ours
	}
	if dryRun {
		return info, nil
	}
	removed, err := s.remove(name, half, before)
	if err != nil || !removed {
		return nil, err
	}
	return info, nil
}

func pruneFar(ctx context.Context, far Remote, before time.Time, needed func(hash string) bool, dryRun bool) (pruned Pruned, err error) {
	keeper, is := far.(Keeper)
	if !is {
		return pruned, errors.New("removing objects: whoever keeps them does so")
	}
	if pruned, err = keeper.Prune(ctx, before, needed, dryRun); err != nil {
		err = fmt.Errorf("removing objects: %w", err)
	}
	return pruned, err
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
			if err := s.bringBack(name); !errors.Is(err, fs.ErrExist) {
				return false, gone(err)
			}
			return false, nil
		}
	}
	err = os.Remove(away)
	return err == nil, gone(err)
}

// takenTooMuch reports whether a file is an object that was taken away to be removed, and is
// needed or new: who took it was killed before it could see that, or is about to.
func (s Store) takenTooMuch(e fs.DirEntry, before time.Time, needed func(hash string) bool) bool {
	hash, taken := strings.CutPrefix(e.Name(), prunedPrefix)
	if !taken || !IsHash(hash) {
		return false
	}
	info, err := e.Info()
	return needed(hash) || err == nil && !info.ModTime().Before(before)
}

// bringBack brings an object back that was taken away. It takes the place of none that was
// stored meanwhile, which is newer, and leaves its other name to be removed when that is old:
// by now another process may have taken something else away by it.
func (s Store) bringBack(hash string) error {
	return os.Link(filepath.Join(s.dir, prunedPrefix+hash), s.path(hash))
}

// gone is an error, unless another process was first.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
