package jobs

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// responsible is which job has filled the disk on which one has no room.
type responsible int

const (
	noJob      responsible = iota // there is room, or it is not jobs that have taken it
	itself                        // it has written the most
	anotherJob                    // one that has written more
)

// attributeFull finds out which job has filled the disk by the end of a job, for a disk can be full before
// it is watched again, and stops that one if it runs. failed is whether something of the job could
// not be written: that may have needed more room than there is, as a second copy of what it has
// made does. says is what its user is to know of the disk.
func (a *attempt) attributeFull(failed bool) (by responsible, says string) {
	if free, err := a.free(a.Workspace); err == nil && (failed || free < a.MinFree) && !a.isCrowded() {
		a.disk.turn <- struct{}{}
		a.disk.measure(a)
		<-a.disk.turn
	}
	a.disk.mu.Lock()
	defer a.disk.mu.Unlock()
	if a.crowded {
		return anotherJob, ""
	}
	free, err := a.free(a.Workspace)
	if err != nil {
		return noJob, ""
	}
	isFull := free < a.MinFree
	a.disk.full = a.disk.full && isFull
	if !isFull && (!failed || free-a.MinFree >= uint64(a.written())) {
		return noJob, ""
	}
	used := a.disk.written(a)
	if !a.mayHaveFilled(used, free) {
		return noJob, noSpace(a.Workspace, free)
	}
	if a.disk.removing(a) || used.most != a {
		a.crowded = true
		if isFull {
			a.evict(used, free)
		}
		return anotherJob, ""
	}
	if isFull {
		a.disk.markFull(a)
		a.disk.evicted, a.disk.until = a, time.Now().Add(evictionGrace)
	}
	return itself, a.filled(used.bytes, free)
}

// removing reports whether what filled the disk is about to be removed, where a job has hardly
// begun that it keeps from writing.
func (s *shared) removing(a *attempt) bool {
	_, writes := s.writing[a]
	return !writes && s.full && time.Now().Before(s.until)
}

// unwritten says who is responsible that something of a job could not be written. It is not that of
// the worker where another one would have no room either.
func (a *attempt) unwritten(err error) error {
	if err == nil || errors.As(err, new(*failedError)) || !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err // what others say of a disk may be said of another one
	}
	by, says := a.attributeFull(true)
	switch by {
	case itself:
		return &failedError{cause: "there is no room on the disk for what it makes: " + says}
	case anotherJob:
		return fmt.Errorf("another job had filled the disk: %w", err)
	default:
		return err
	}
}
