package modulesource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/atomicfile"
)

// MinAge is for how long a module that nobody needs was not used at least when it is pruned.
const MinAge = artifacts.MinAge

// Pruned is what was removed.
type Pruned = artifacts.Pruned

// A cache serves all workspaces of a user, and knows of each in which modules were locked where it is.
const (
	workspacesName = "workspaces"
	mostPath       = 4096 // bytes of the path of a workspace
)

// Remember notes that the lock of a workspace may name modules of the cache.
func (c *Cache) Remember(workspace string) error {
	path := c.noteOf(workspace)
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = atomicfile.WriteFile(path, []byte(workspace))
	}
	if err != nil {
		return fmt.Errorf("noting that %s has modules: %w", workspace, err)
	}
	return nil
}

// Forget undoes Remember.
func (c *Cache) Forget(workspace string) error {
	if err := os.Remove(c.noteOf(workspace)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting that %s had modules: %w", workspace, err)
	}
	return nil
}

func (c *Cache) noteOf(workspace string) string {
	sum := sha256.Sum256([]byte(workspace))
	return filepath.Join(c.dir, workspacesName, hex.EncodeToString(sum[:16]))
}

// Workspaces are those that were noted, sorted.
func (c *Cache) Workspaces() (all []string, err error) {
	entries, err := os.ReadDir(filepath.Join(c.dir, workspacesName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(c.dir, workspacesName, e.Name())
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > mostPath {
			continue // it is none
		}
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if workspace := string(text); path == c.noteOf(workspace) { // else it is being written, or none
			all = append(all, workspace)
		}
	}
	slices.Sort(all)
	return all, nil
}

// Prune removes the modules that are not needed and were not used since a moment, and what is unpacked of
// the others that were not. With dryRun it removes nothing, and returns what it would.
func (c *Cache) Prune(ctx context.Context, before time.Time, needed func(digest string) bool, dryRun bool) (Pruned, error) {
	pruned, err := c.store.Prune(ctx, before, needed, dryRun)
	if err != nil {
		return pruned, err
	}
	freed, err := c.store.PruneCopies(ctx, before, func(digest string) bool { return dryRun && !needed(digest) }, dryRun)
	pruned.Bytes += freed
	return pruned, err
}
