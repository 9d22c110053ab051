package gc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// DefaultAge is how old what is removed is at least, unless somebody says otherwise.
const DefaultAge = 30 * 24 * time.Hour

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

// stampName is the file below the directory of the state whose time is when a run
// collected last.
const stampName = "gc"

// Sometimes removes a bounded part of what is older than DefaultAge or too much, unless
// some process did so within the hour. It is for the end of each run: mostly it only
// looks at the time of a file.
func Sometimes(ctx context.Context, log deploylog.Log, dir string, now time.Time) error {
	return sometimes(ctx, log, dir, now, mostSometimes, mostLeft, mostTime)
}

func sometimes(ctx context.Context, log deploylog.Log, dir string, now time.Time, most, mostLeft int, mostTime time.Duration) error {
	stamp := filepath.Join(dir, stampName)
	if collected(stamp, now) {
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
	if collected(stamp, now) {
		return nil
	}
	// At first, so that what fails is not tried by each run.
	if err := touch(stamp, now); err != nil {
		return fmt.Errorf("removing what old runs left: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, mostWhole, fmt.Errorf("it took more than %s", mostWhole))
	defer cancel()
	c := Collector{Log: log, Dir: dir, Now: now, Before: now.Add(-DefaultAge), most: most, mostLeft: mostLeft, mostTime: mostTime}
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
