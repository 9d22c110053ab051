// Package gc is the command that removes what runs left and nobody needs any more.
package gc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/gc"
	"github.com/deployster-go/deployster/control/locked"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/protected"
)

type options struct {
	olderThan time.Duration
	dryRun    bool
	maxWork   engines.Size
}

// NewCommand returns the command.
func NewCommand(a *app.App) *cobra.Command {
	o := options{maxWork: gc.DefaultMaxWork}
	c := &cobra.Command{
		Use:   "gc [--dry-run] [--older-than DURATION]",
		Short: "Remove what old runs left in .deployster and nobody needs",
		Long: fmt.Sprintf(`Remove what old runs left in .deployster of the workspace: what types were given
and said (work), logs of jobs of build groups (builds), files of locks that nobody holds (locks), what revisions were to carry
that were not made (objects) and what jobs made that only old build groups name (artifacts), which lie
beside the log, documents with secrets to which the log no longer refers (protected), and snapshots
of the log, which commands make anew (snapshots). In the cache of the user that is modules
from elsewhere that no lock of any of their workspaces names, which are fetched again when
one does (modules).

It stays, however old it is:
- what runs left that are alive, or of which something has no end in the log
- what the last %[1]d runs of each manifest and host left, and the last that failed, and the
  logs and artifacts of as many build groups of each name
- locks that somebody holds
- the deployment log, and what revisions in it carry, also artifacts
- objects, artifacts and protected documents beside several logs, of which each may need them,
  and those of the last day, or hour

If all that runs left is larger than --max-work-all, the oldest that have ended go before they are as
old, and at last also those of the last %[1]d runs, but for the last of each manifest and host and the
last that failed.

What the log does not know, such as what a plan left, stays for a week at least.
It can run at any time, beside anything, and be killed at any time.`, gc.KeptRuns),
		Example: `  deployster gc --dry-run
  deployster gc
  deployster gc --older-than 24h --output json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), a, o) },
	}
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be removed, and remove nothing")
	c.Flags().Var(&o.maxWork, "max-work-all", "size of what all runs may leave, above which the oldest are removed")
	c.Flags().DurationVar(&o.olderThan, "older-than", gc.DefaultAge, "remove only what was not used for so long, such as 24h")
	return c
}

func run(ctx context.Context, a *app.App, o options) error {
	if err := a.Local(); err != nil {
		return err
	}
	if o.olderThan < 0 {
		return exit.Usage("--older-than %s: it must not be negative", o.olderThan)
	}
	return interrupt.Within(ctx, func(ctx context.Context) error {
		return a.WithLog(ctx, func(log deploylog.Log, path string) error {
			now := a.Now()
			c := gc.Collector{
				Log: log, Dir: filepath.Join(a.Workspace, engine.StateDir),
				Now: now, Before: now.Add(-o.olderThan), DryRun: o.dryRun, MaxWork: int64(o.maxWork),
			}
			if err := addKept(a, path, &c); err != nil {
				return err
			}
			c.Modules = unusedModules
			removed, err := c.Collect(ctx)
			if shown := show(a, o, removed); err == nil {
				err = shown
			}
			return err
		})
	})
}

// addKept adds what is kept for a log.
func addKept(a *app.App, path string, c *gc.Collector) (err error) {
	if a.InDatabase() {
		texts, err := a.Texts()
		store := texts.Objects()
		c.Objects, c.Protected = &store, a.Protected()
		c.ArtifactsLeft = "the log is in a database, and another one may need those of this workspace"
		return err
	}
	if c.Objects, c.ObjectsLeft, err = ownObjects(a, path); err != nil {
		return err
	}
	if err := addArtifacts(a, c); err != nil {
		return err
	}
	addProtected(a, path, c)
	return nil
}

// objectsName is how the directory of objects is called, beside a log.
const objectsName = "objects"

// ownObjects are the objects beside a log, if that is the only one there: another one may
// need what this one does not know. Else it says why they are left.
func ownObjects(a *app.App, path string) (kept *objects.Store, left string, err error) {
	whole, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, "", fmt.Errorf("looking for objects: %w", err)
	}
	dir := filepath.Dir(whole)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", fmt.Errorf("looking for objects: %w", err)
	}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		switch {
		case e.Name() == objectsName && e.Type()&os.ModeSymlink != 0:
			return nil, file + " is a link, and another log may use what it leads to", nil
		case file != whole && e.Name() != objectsName && isStore(file, e):
			return nil, file + " beside the log may be another log", nil
		}
	}
	texts, err := a.Texts()
	store := texts.Objects()
	return &store, "", err
}

// addArtifacts adds the artifacts beside the log, if there are any. They are needed by the
// same logs as the objects there.
func addArtifacts(a *app.App, c *gc.Collector) error {
	dir, err := a.ArtifactsDir()
	if err != nil {
		return fmt.Errorf("looking for artifacts: %w", err)
	}
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("looking for artifacts: %w", err)
	case info.Mode()&os.ModeSymlink != 0:
		c.ArtifactsLeft = dir + " is a link, and another log may use what it leads to"
	case c.Objects == nil:
		c.ArtifactsLeft = c.ObjectsLeft
	default:
		c.Artifacts = artifacts.In(dir)
	}
	return nil
}

// unusedModules removes modules from the cache of the user.
func unusedModules(ctx context.Context, before time.Time, dryRun bool) (pruned artifacts.Pruned, left string, err error) {
	cache, err := session.ModuleCache()
	if err != nil {
		return pruned, "the cache of modules is not used: " + err.Error(), nil
	}
	return locked.PruneModules(ctx, cache, before, dryRun)
}

// addProtected adds the protected documents of the workspace, if there are any, where its own log
// refers to them. They are needed by the same logs as the objects beside that.
func addProtected(a *app.App, path string, c *gc.Collector) {
	info, err := os.Lstat(filepath.Join(c.Dir, protected.DirName))
	if err != nil {
		return
	}
	log, err := filepath.EvalSymlinks(filepath.Dir(path))
	own, failed := filepath.EvalSymlinks(c.Dir)
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		c.ProtectedLeft = filepath.Join(c.Dir, protected.DirName) + " is a link, and another log may refer to what is there"
	case err != nil || failed != nil || log != own:
		c.ProtectedLeft = "the log is not in " + c.Dir + ", and another one may refer to what is there"
	case c.Objects == nil:
		c.ProtectedLeft = c.ObjectsLeft
	default:
		c.Protected = work.Protected(a.Workspace)
	}
}

// isStore reports whether a file may be a deployment log: a database, or a link to what
// nobody looks at here.
func isStore(path string, e os.DirEntry) bool {
	if !e.Type().IsRegular() {
		return e.Type()&os.ModeSymlink != 0
	}
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close() //nolint:errcheck // opened for reading
	const magic = "SQLite format 3\x00"
	head := make([]byte, len(magic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == magic
}

// show prints what was removed, or would be.
func show(a *app.App, o options, removed []gc.Removed) error {
	verb := "removed"
	if o.dryRun {
		verb = "would remove"
	}
	var lines []string
	for _, r := range removed {
		line := r.Kind + ": nothing to remove"
		if r.Left != "" {
			line = r.Kind + ": left, because " + r.Left
		}
		if r.Count > 0 {
			line = fmt.Sprintf("%s: %s %d, %s", r.Kind, verb, r.Count, phrase.Size(r.Bytes))
		}
		if r.Oldest != nil {
			line += ", the oldest of " + phrase.Moment(*r.Oldest)
		}
		lines = append(lines, line)
	}
	document := map[string]any{"dry_run": o.dryRun, "older_than": o.olderThan.String(), "removed": removed}
	return a.Say(document, "%s", strings.Join(lines, "\n"))
}
