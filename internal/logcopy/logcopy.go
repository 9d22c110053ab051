// Package logcopy copies a deployment log from one store to another, event by event, and is sure
// of both: the copy has the head of the original, and so is the same log but for its ID.
package logcopy

import (
	"context"
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
)

// The limits of what is appended at once.
const (
	batchEvents = 5000
	batchBytes  = 4 << 20 // of data
)

// lockName is the lock of a log that is being copied to.
const lockName = "copy"

// Result is what came of a copy.
type Result struct {
	Copied int64          // events; the others were there
	Head   deploylog.Head // of both
}

// Copy appends to a log what another one has and it has not. It fails, and appends nothing, where
// the log holds anything but the beginning of the other: what a copy that ended early left is gone
// on with. Progress is told of how many events there are of how many; it may be nil.
//
// What is appended to the original meanwhile is not copied. Nobody else may append to the copy.
func Copy(ctx context.Context, from, to deploylog.Log, progress func(there, of int64)) (Result, error) {
	if from.ID() == to.ID() {
		return Result{}, errors.New("copy a deployment log: both are the same log")
	}
	unlock, err := to.TryLock(lockName)
	if errors.Is(err, deploylog.ErrLocked) {
		return Result{}, fmt.Errorf("copy a deployment log: another copy to there goes on: %w", err)
	}
	if err != nil {
		return Result{}, fmt.Errorf("copy a deployment log: %w", err)
	}
	defer unlock()
	there, err := to.Verify(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("copy a deployment log: what is there already: %w", err)
	}
	var known []deploylog.Head
	if there.Events > 0 {
		known = append(known, there.Anchor())
	}
	whole, err := from.Verify(ctx, known...)
	if errors.Is(err, deploylog.ErrCorrupt) && len(known) > 0 {
		if original, unsound := from.Verify(ctx); unsound == nil {
			return Result{}, fmt.Errorf("copy a deployment log: %w", different(ctx, to, there, original))
		}
	}
	if err != nil {
		return Result{}, fmt.Errorf("copy a deployment log: %w", err)
	}
	copied, err := appendAll(ctx, from, to, there.Events, whole.Events, progress)
	if err != nil {
		return Result{}, fmt.Errorf("copy a deployment log: %w", err)
	}
	after, err := to.Verify(ctx)
	if err == nil && after != whole {
		err = fmt.Errorf("%w: the copy has the head %s, and the original %s: somebody else has appended to it: stop what uses it, and copy to a place without a log", deploylog.ErrCorrupt, after.Anchor(), whole.Anchor())
	}
	if err != nil {
		return Result{}, fmt.Errorf("copy a deployment log: %w", err)
	}
	return Result{Copied: copied, Head: whole.Anchor()}, nil
}

// different is why a log is not the beginning of the original.
func different(ctx context.Context, to deploylog.Log, there, original deploylog.Verification) error {
	if there.Events > original.Events {
		if _, err := to.Verify(ctx, original.Anchor()); err == nil || original.Events == 0 {
			return fmt.Errorf("where it is to go there are all of its %d events, and %d more, so that has gone on by itself: copy it the other way around, or name a place without a log", original.Events, there.Events-original.Events)
		}
	}
	return fmt.Errorf("where it is to go there are %d events that are not the first of it: name a place without a log", there.Events)
}

// appendAll appends the events in (after, until].
func appendAll(ctx context.Context, from, to deploylog.Log, after, until int64, progress func(there, of int64)) (copied int64, err error) {
	var batch []deploylog.Event
	bytes := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		first := batch[0].Seq
		written, err := to.Append(ctx, batch...)
		if err != nil {
			return err
		}
		if written[0].Seq != first {
			return fmt.Errorf("%w: event %d has become event %d of the copy: somebody else appends to it: stop what uses it, and copy to a place without a log", deploylog.ErrCorrupt, first, written[0].Seq)
		}
		copied += int64(len(written))
		if progress != nil {
			progress(after+copied, until)
		}
		batch, bytes = batch[:0], 0
		return nil
	}
	for e, err := range from.Read(ctx, deploylog.Filter{After: after, Until: until}) {
		if err != nil {
			return copied, err
		}
		if batch = append(batch, e); len(batch) == batchEvents || bytes+len(e.Data) > batchBytes {
			if err := flush(); err != nil {
				return copied, err
			}
			continue
		}
		bytes += len(e.Data)
	}
	return copied, flush()
}
