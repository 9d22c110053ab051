package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// errDisk is why a job was stopped that took the last of the disk.
var errDisk = errors.New("it was stopped before the disk was full")

// diskPeriod is how often the disk is looked at.
const diskPeriod = time.Second

// freeBytes is how much can be written where a directory is.
func freeBytes(dir string) (uint64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return uint64(stat.Bavail) * uint64(stat.Bsize), nil //nolint:unconvert // types differ among systems
}

// noSpace says what to do where the disk is full.
func noSpace(dir string, free uint64) string {
	return fmt.Sprintf("only %d MiB are free on the disk of %s: make room, `deployster gc` removes what nobody needs any more", free>>20, dir)
}

// enoughSpace fails where the disk is full already.
func (a *attempt) enoughSpace() error {
	free, err := a.free(a.dir)
	if err == nil && free < a.MinFree {
		err = errors.New(noSpace(a.dir, free))
	}
	return err
}

// watchDisk stops a job that takes the last of the disk, until its container has ended.
func (a *attempt) watchDisk(running context.Context, stop context.CancelCauseFunc) {
	ticks := time.NewTicker(diskPeriod)
	defer ticks.Stop()
	for {
		select {
		case <-running.Done():
			return
		case <-ticks.C:
			if free, err := a.free(a.dir); err == nil && free < a.MinFree {
				stop(fmt.Errorf("%w: %s", errDisk, noSpace(a.dir, free)))
				return
			}
		}
	}
}

func containsFold(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
