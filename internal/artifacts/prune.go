package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/deployster-go/deployster/internal/filelock"
)

// MinAge is for how long an artifact that nobody needs was not used at least when it is
// pruned: what is stored is named by somebody only afterwards.
const MinAge = 24 * time.Hour

// Pruned is what was removed.
type Pruned struct {
	Count  int       // of artifacts
	Bytes  int64     // of all that was removed
	Oldest time.Time // when the artifact was last used that was not for longest; zero of none
}

// Prune removes the artifacts that are not needed and were not stored, pulled or asked for
// since a moment, and what processes that died left half stored. The moment must be earlier
// than what needed knows, by MinAge. With dryRun it removes nothing, and returns what it would.
func (s *Store) Prune(ctx context.Context, before time.Time, needed func(digest string) bool, dryRun bool) (pruned Pruned, err error) {
	if !exists(s.blobs()) {
		return pruned, nil
	}
	pruned, err = s.prune(ctx, before, needed, dryRun)
	if err != nil {
		return pruned, fmt.Errorf("removing artifacts: %w", err)
	}
	return pruned, nil
}

func (s *Store) prune(ctx context.Context, before time.Time, needed func(digest string) bool, dryRun bool) (pruned Pruned, err error) {
	if pruned.Bytes, err = s.removeOrphans(dryRun); err != nil {
		return pruned, err
	}
	entries, err := os.ReadDir(s.blobs())
	if err != nil {
		return pruned, err
	}
	stay := map[string]bool{} // names of blobs and copies of artifacts
	for _, e := range entries {
		if ctx.Err() != nil {
			return pruned, context.Cause(ctx)
		}
		digest := digestPrefix + e.Name()
		layer, err := s.manifest(digest)
		if err != nil {
			continue // a layer; or one that was altered, which is a blob of no artifact
		}
		info, err := e.Info()
		if err != nil {
			continue // another process removed it
		}
		size := int64(-1)
		if !needed(digest) && info.ModTime().Before(before) {
			if size, err = s.take(ctx, digest, before, dryRun); err != nil {
				return pruned, err
			}
		}
		if dryRun || size < 0 {
			stay[e.Name()], stay[layer.Digest.Hex] = true, true
		}
		if size < 0 {
			continue
		}
		pruned.Count, pruned.Bytes = pruned.Count+1, pruned.Bytes+size
		if pruned.Oldest.IsZero() || info.ModTime().Before(pruned.Oldest) {
			pruned.Oldest = info.ModTime()
		}
	}
	freed, err := s.pruneRest(ctx, before, func(name string) bool { return stay[name] || needed(digestPrefix+name) }, dryRun)
	pruned.Bytes += freed
	return pruned, err
}

// Remove removes an artifact, such as one that was altered, to make it again.
func (s *Store) Remove(ctx context.Context, digest string) error {
	_, err := hexOf(digest)
	if err == nil && exists(s.dir) {
		_, err = s.take(ctx, digest, time.Time{}, false)
	}
	if err != nil {
		return fmt.Errorf("removing artifact %s: %w", digest, err)
	}
	return nil
}

// take removes an artifact that was not used since a moment (zero: whenever), and returns how
// many bytes that frees, or -1 where it was used since. What it has goes out of the store at
// once; what that has in it is removed when others need not wait any more.
func (s *Store) take(ctx context.Context, digest string, before time.Time, dryRun bool) (size int64, err error) {
	in, err := s.newWorkspace()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.remove()) }()
	parts := []string{s.blob(digest), s.copyOf(digest)}
	if layer, err := s.manifest(digest); err == nil {
		parts = append(parts, s.blob(layer.Digest.String()))
	}
	if dryRun {
		for _, part := range parts {
			size += sizeOf(part)
		}
		return size, nil
	}
	used := false
	err = s.locked(ctx, filelock.Exclusive, func() error {
		if info, err := os.Lstat(parts[0]); err == nil && !before.IsZero() && !info.ModTime().Before(before) {
			used = true
			return nil
		}
		for i, part := range parts {
			if err := gone(os.Rename(part, in.path(fmt.Sprint(i)))); err != nil {
				return err
			}
		}
		return nil
	})
	if used {
		return -1, err
	}
	return sizeOf(in.dir), err
}

// pruneRest removes blobs of no artifact, and copies of none.
func (s *Store) pruneRest(ctx context.Context, before time.Time, stays func(name string) bool, dryRun bool) (freed int64, err error) {
	for _, dir := range []string{s.blobs(), s.unpacked()} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return freed, gone(err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			info, err := e.Info()
			if err != nil || !info.ModTime().Before(before) || stays(e.Name()) {
				continue
			}
			if dryRun {
				freed += sizeOf(path)
				continue
			}
			size, err := s.takeRest(ctx, path, before)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return freed, err
			}
			freed += size
		}
	}
	return freed, nil
}

// PruneCopies removes what is unpacked of artifacts that were not stored, pulled or asked for
// since a moment, at least MinAge ago, and returns how many bytes that frees: it is unpacked
// again when it is asked for. What is in use must stay. With dryRun it removes nothing.
func (s *Store) PruneCopies(ctx context.Context, before time.Time, stays func(digest string) bool, dryRun bool) (freed int64, err error) {
	entries, err := os.ReadDir(s.unpacked())
	if gone(err) != nil {
		return 0, fmt.Errorf("removing what is unpacked of artifacts: %w", err)
	}
	for _, e := range entries {
		digest := digestPrefix + e.Name()
		info, err := os.Lstat(s.blob(digest))
		if err != nil || !info.ModTime().Before(before) || stays(digest) {
			continue
		}
		size := sizeOf(s.copyOf(digest))
		if !dryRun {
			size, err = s.takeCopy(ctx, digest, before)
		}
		if gone(err) != nil {
			return freed, fmt.Errorf("removing what is unpacked of artifact %s: %w", digest, err)
		}
		freed += size
	}
	return freed, nil
}

// takeCopy removes what is unpacked of an artifact that was not used since a moment. Who asks
// for it makes the artifact younger first.
func (s *Store) takeCopy(ctx context.Context, digest string, before time.Time) (size int64, err error) {
	in, err := s.newWorkspace()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.remove()) }()
	err = s.locked(ctx, filelock.Exclusive, func() error {
		if info, err := os.Lstat(s.blob(digest)); err != nil || !info.ModTime().Before(before) {
			return err
		}
		return os.Rename(s.copyOf(digest), in.path("copy"))
	})
	return sizeOf(in.dir), err
}

// takeRest removes a blob or a copy that was not used since a moment.
func (s *Store) takeRest(ctx context.Context, path string, before time.Time) (size int64, err error) {
	in, err := s.newWorkspace()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.remove()) }()
	err = s.locked(ctx, filelock.Exclusive, func() error {
		if info, err := os.Lstat(path); err != nil || !info.ModTime().Before(before) {
			return err
		}
		return os.Rename(path, in.path("rest"))
	})
	return sizeOf(in.dir), err
}
