// Package gc removes what runs left below the directory of the state and no later run needs:
// what types were given and said, and the files of locks. Nothing of a run
// that is alive, or of which something has no end in the log, is removed, nor of the last
// runs of each target.
//
// What is removed is gone at once: a directory is renamed before it is emptied, so that
// a process that is killed meanwhile leaves no half of what a run kept, and the next one
// removes the rest.
package gc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
)

// KeptRuns is of how many runs of each target, and of how many build groups of each name,
// everything is kept, however old it is.
const KeptRuns = 5

// Collector removes what is old. All fields are required.
type Collector struct {
	Log    deploylog.Log
	Dir    string    // of the state, below the workspace
	Now    time.Time //
	Before time.Time // what was used since stays
	DryRun bool      // remove nothing, and return what would be

	// MaxWork is how many bytes the directories of all runs have; 0 is any number. The oldest runs that
	// have ended go first, but for the last of each target.
	MaxWork int64

	// Objects are those that the log names, and no other log; may be nil: they stay, and
	// ObjectsLeft says why.
	Objects     *objects.Store
	ObjectsLeft string

	// Artifacts are those that jobs of the log made, and of no other log; may be nil: they
	// stay, and ArtifactsLeft says why.
	Artifacts     *artifacts.Store
	ArtifactsLeft string

	// Protected are the documents to which the log refers, and no other log; may be nil: they stay,
	// and ProtectedLeft says why.
	Protected     *protected.Store
	ProtectedLeft string

	// Modules removes those in the cache of the user that no lock names; may be nil: they stay. It
	// returns also why it left all of them.
	Modules func(ctx context.Context, before time.Time, dryRun bool) (pruned artifacts.Pruned, left string, err error)

	most     int              // directories of runs to remove at once; 0 is any number
	mostTime time.Duration    // for measuring directories of runs, and again for removing them; 0 is any
	clock    func() time.Time // for mostTime, without which it may be nil
	mostLeft int              // directories of runs to leave, however new they are, if they are not needed; 0 is any number
}

// Removed is what was removed of one kind.
type Removed struct {
	Kind   string     `json:"kind"`
	Count  int        `json:"count"`
	Bytes  int64      `json:"bytes"`
	Oldest *time.Time `json:"oldest,omitempty"` // when the oldest of them was last used
	Left   string     `json:"left,omitempty"`   // why all of them were left; "" where they were not

	more bool // there may be more to remove
}

// The kinds of what is removed.
const (
	Work  = "work"  // what types were given and said in a run, and their work directories
	Locks = "locks" // files of locks that no process holds

	Snapshots = "snapshots" // of the log, which are made anew where they are of use

	Objects = "objects" // what revisions were to carry that were not made

	Artifacts = "artifacts" // what jobs made

	Protected = "protected" // documents with secrets to which nothing refers

	Modules = "modules" // that were fetched, and no lock names any more

	Builds = "builds" // logs of jobs, and what those left whose process died
)

// Collect removes what is old, of each kind: what fails of one keeps nothing of another.
// Beside an error it returns what was removed nevertheless.
func (c *Collector) Collect(ctx context.Context) ([]Removed, error) {
	var all []Removed
	var failed error
	for _, collect := range []func(context.Context) (Removed, error){c.work, c.builds, c.locks, c.objects, c.artifacts, c.modules, c.protected, c.snapshots} {
		removed, err := collect(ctx)
		if removed.Kind != "" {
			all = append(all, removed)
		}
		failed = errors.Join(failed, err)
	}
	return all, failed
}

// locks removes the files of locks.
func (c *Collector) locks(ctx context.Context) (Removed, error) {
	r := Removed{Kind: Locks}
	log, leaves := c.Log.(deploylog.LockPruner)
	if !leaves {
		return r, nil
	}
	pruned, err := log.PruneLocks(ctx, c.Before, c.DryRun)
	r.Count, r.Bytes = pruned.Count, pruned.Bytes
	r.used(pruned.Oldest)
	return r, err
}

// snapshots removes those of the log.
func (c *Collector) snapshots(context.Context) (Removed, error) {
	r := Removed{Kind: Snapshots}
	log, keeps := c.Log.(deploylog.SnapshotLog)
	if !keeps {
		return r, nil
	}
	pruned, err := log.PruneSnapshots(c.Before, c.DryRun)
	r.Count, r.Bytes = pruned.Count, pruned.Bytes
	r.used(pruned.Oldest)
	return r, err
}

// objects removes those that no event names: revisions that were refused, or whose command
// was killed before it recorded them, left them. Those of revisions stay, whatever became
// of these: they are what was deployed, and what may be again.
func (c *Collector) objects(ctx context.Context) (Removed, error) {
	r := Removed{Kind: Objects, Left: c.ObjectsLeft}
	switch {
	case c.Objects == nil && r.Left == "":
		return Removed{}, nil
	case c.Objects == nil:
		return r, nil
	}
	named, err := c.named(ctx)
	if err != nil {
		return r, fmt.Errorf("looking for objects that revisions need: %w", err)
	}
	pruned, err := c.Objects.Prune(ctx, c.before(objects.MinAge), func(hash string) bool { return named[hash] }, c.DryRun)
	if errors.Is(err, objects.ErrOwner) {
		r.Left, err = objects.ErrOwner.Error(), nil
	}
	r.Count, r.Bytes = pruned.Count, pruned.Bytes
	r.used(pruned.Oldest)
	return r, err
}

// protectedAge is how long documents stay at least: who has written one is yet to refer to it.
const protectedAge = time.Hour

// protected removes the documents to which nothing refers any more.
func (c *Collector) protected(ctx context.Context) (Removed, error) {
	r := Removed{Kind: Protected, Left: c.ProtectedLeft}
	switch {
	case c.Protected == nil && r.Left == "":
		return Removed{}, nil
	case c.Protected == nil:
		return r, nil
	}
	needed, err := runs.Documents(ctx, c.Log)
	if err != nil {
		return r, fmt.Errorf("looking for protected documents that are needed: %w", err)
	}
	pruned, err := c.Protected.Prune(func(name string) bool { return needed[name] }, c.before(protectedAge), c.DryRun)
	for _, k := range pruned {
		r.Count, r.Bytes = r.Count+1, r.Bytes+k.Size
		r.used(k.Stored)
	}
	return r, err
}

// before is the moment since which nothing is removed that was used, and which is at least so
// long ago.
func (c *Collector) before(minAge time.Duration) time.Time {
	if latest := c.Now.Add(-minAge); latest.Before(c.Before) {
		return latest
	}
	return c.Before
}

// named finds all in the log that may be the name of an object or an artifact.
func (c *Collector) named(ctx context.Context) (map[string]bool, error) {
	named := map[string]bool{}
	for e, err := range c.Log.Read(ctx, deploylog.Filter{}) {
		if err != nil {
			return nil, err
		}
		objects.HashesIn(e.Data, func(hash string) { named[hash] = true })
	}
	return named, nil
}

// used notes when something that was removed was last used; zero is nothing.
func (r *Removed) used(at time.Time) {
	if !at.IsZero() && (r.Oldest == nil || at.Before(*r.Oldest)) {
		at = at.UTC()
		r.Oldest = &at
	}
}
