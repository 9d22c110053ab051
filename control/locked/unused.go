package locked

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/deployster-go/deployster/internal/lockfile"
	"github.com/deployster-go/deployster/internal/modulesource"
)

// PruneModules removes modules from the cache of a user that were not used since a moment, and that no
// lock of a workspace names in which modules were placed. Plans and revisions carry the files of theirs.
// Where a lock cannot be read, nothing is removed, and left says so.
func PruneModules(ctx context.Context, cache *modulesource.Cache, before time.Time, dryRun bool) (pruned modulesource.Pruned, left string, err error) {
	workspaces, err := cache.Workspaces()
	if err != nil {
		return pruned, "", fmt.Errorf("looking for workspaces with modules: %w", err)
	}
	needed := map[string]bool{}
	for _, workspace := range workspaces {
		var lock *lockfile.File
		info, err := os.Stat(workspace)
		if err == nil && info.IsDir() {
			lock, err = lockfile.Read(workspace)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return pruned, fmt.Sprintf("the lock of %s may name some: %s", workspace, err), nil
		}
		if lock != nil && len(lock.Modules) > 0 {
			for _, m := range lock.Modules {
				needed[m.Digest] = true
			}
		} else if !dryRun {
			if err := cache.Forget(workspace); err != nil {
				return pruned, "", err
			}
		}
	}
	pruned, err = cache.Prune(ctx, before, func(digest string) bool { return needed[digest] }, dryRun)
	if err != nil {
		return pruned, "", fmt.Errorf("removing modules from the cache: %w", err)
	}
	return pruned, "", nil
}
