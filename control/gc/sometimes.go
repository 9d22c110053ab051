package gc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/diskuse"
)

// DefaultAge is the least age of what is removed, unless an option sets another.
const DefaultAge = 30 * 24 * time.Hour

// DefaultMaxWork bounds the bytes in the directories of all runs, unless an option sets another.
const DefaultMaxWork = 10 << 30

// Runs collect at their end, but all of them together once within an interval, and then at
// most so many directories, for so long: no run pays for what many have left. Finding the
// last runs in the log before, without which nothing can be removed, and looking at each
// file of a lock after, take no longer than mostWhole; what is left then is for the command.
// Objects are left to that, too.
const (
	interval      = time.Hour
	afterMost     = time.Minute // where there may be more to remove
	mostSometimes = 5000
	mostTime      = time.Second / 2
	mostLeft      = 10000
	mostWhole     = 3 * time.Second // for all of it, finding the last runs in a long log included
)

// The files below the directory of the state: the time of stampName is when a run collected last, and
// grownName has a byte for each growthUnit that runs have left since then.
const (
	stampName  = "gc"
	grownName  = "gc-grown"
	sizesName  = "gc-sizes" // what runs that are over have left
	growthUnit = 1 << 20
)

// mostGrown is by which part of all that runs may leave they have left more when the end of a run
// does not wait for the hour.
const mostGrown = 20

// bounds are those of a collection at the end of a run.
type bounds struct {
	maxWork        int64 // see Collector.MaxWork
	most, mostLeft int
	mostTime       time.Duration
	clock          func() time.Time
}

// Sometimes removes a bounded part of what is older than DefaultAge or too much, unless
// some process did so within the hour and little has come since. It is for the end of each run, which
// has a name: mostly it only looks at what that left, and at the time of a file. maxWork is how many
// bytes the directories of all runs have; 0 is DefaultMaxWork.
func Sometimes(ctx context.Context, log deploylog.Log, dir, run string, maxWork int64, now time.Time) error {
	return sometimes(ctx, log, dir, run, now, bounds{cmp.Or(maxWork, DefaultMaxWork), mostSometimes, mostLeft, mostTime, time.Now})
}

func sometimes(ctx context.Context, log deploylog.Log, dir, run string, now time.Time, b bounds) error {
	stamp := filepath.Join(dir, stampName)
	grown := grows(dir, run) >= b.maxWork/mostGrown
	if collected(stamp, now) && !grown {
		return nil
	}
	unlock, err := log.TryLock("gc")
	if errors.Is(err, deploylog.ErrLocked) {
		return nil // another process does
	}
	if err != nil {
		return fmt.Errorf("removing what old runs left: %w", err)
	}
	defer unlock()
	if collected(stamp, now) && !grown {
		return nil
	}
	trusted := trustedTime(stamp, now)
	// At first, so that what fails is not tried by each run.
	if err := errors.Join(touch(stamp, now), forgetGrowth(dir)); err != nil {
		return fmt.Errorf("removing what old runs left: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, mostWhole, fmt.Errorf("it took more than %s", mostWhole))
	defer cancel()
	c := Collector{Log: log, Dir: dir, Now: trusted, Before: trusted.Add(-DefaultAge), MaxWork: b.maxWork, most: b.most, mostLeft: b.mostLeft, mostTime: b.mostTime, clock: b.clock}
	removed, err := c.Collect(ctx)
	if err == nil && slices.ContainsFunc(removed, func(r Removed) bool { return r.more }) {
		err = touch(stamp, now.Add(afterMost-interval))
	}
	return err
}

// collected reports whether a run collected within the interval. A time to come is that
// of a clock that was wrong.
func collected(stamp string, now time.Time) bool {
	info, err := os.Lstat(stamp)
	return err == nil && now.Sub(info.ModTime()).Abs() < interval
}

// trustedTime returns the time by which the end of a run finds out what is old: now, but that of the last
// collection if it is as long ago as nothing is kept. Either no run was here for long, or the clock was set
// far ahead and all seems old: a run that ends an hour later goes by its own time.
func trustedTime(stamp string, now time.Time) time.Time {
	info, err := os.Lstat(stamp)
	if err == nil && now.Sub(info.ModTime()) > DefaultAge {
		return info.ModTime()
	}
	return now
}

// grows notes what a run has left, and returns how much runs have left since the last collection. Runs
// that leave less than growthUnit are not noted: all that are kept do not come to much.
func grows(dir, run string) int64 {
	path := filepath.Join(dir, grownName)
	root, err := os.OpenRoot(filepath.Join(dir, workName))
	if err != nil {
		return 0
	}
	defer root.Close() //nolint:errcheck // opened for reading
	if units := diskuse.Tree(root.FS(), run) / growthUnit; units > 0 {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return 0 // the hour is waited for
		}
		_, _ = f.Write(bytes.Repeat([]byte{'.'}, int(min(units, 1<<20))))
		_ = f.Close()
	}
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return info.Size() * growthUnit
}

// forgetGrowth forgets what runs have left.
func forgetGrowth(dir string) error {
	if err := os.Remove(filepath.Join(dir, grownName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// touch makes the time of a file that of now.
func touch(path string, now time.Time) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return os.Chtimes(path, now, now)
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Chtimes(path, now, now))
}
