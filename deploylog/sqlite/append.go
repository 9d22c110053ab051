package sqlite

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"

	"github.com/deployster-go/deployster/deploylog"
)

// Append implements deploylog.Log. An append that the writer has taken up is
// carried through even when ctx ends, so that its outcome is always known; one
// that still waits is withdrawn.
func (l *Log) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	if len(events) == 0 {
		return nil, ctx.Err()
	}
	r, err := l.request(events)
	if err != nil {
		return nil, fmt.Errorf("append to deployment log: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("append to deployment log: %w", err)
	}
	if err := l.writer.submit(r); err != nil {
		return nil, fmt.Errorf("append to deployment log: %w", explain(l.path, err))
	}
	select {
	case err = <-r.done:
	case <-ctx.Done():
		if r.withdraw() {
			return nil, fmt.Errorf("append to deployment log: %w", ctx.Err())
		}
		err = <-r.done
	}
	if err != nil {
		return nil, fmt.Errorf("append to deployment log: %w", explain(l.path, err))
	}
	return r.events, nil
}

// request is one caller's events on their way into the log.
type request struct {
	events  []deploylog.Event
	digests [][sha256.Size]byte
	taken   atomic.Bool // by the writer, or by the caller who withdrew it
	err     error       // decided while its transaction is still open
	done    chan error  // its outcome, sent once
}

// request completes and checks events in the caller's own time, to leave as
// little as possible for the one writer.
func (l *Log) request(events []deploylog.Event) (*request, error) {
	r := &request{
		events:  make([]deploylog.Event, len(events)),
		digests: make([][sha256.Size]byte, len(events)),
		done:    make(chan error, 1),
	}
	now := l.now()
	for i, e := range events {
		if e.Attempt == 0 {
			e.Attempt = 1
		}
		if e.CreatedAt.IsZero() {
			e.CreatedAt = now
		}
		e.CreatedAt = e.CreatedAt.Round(0).UTC()
		if len(e.Data) == 0 {
			e.Data = nil
		}
		if err := e.Validate(); err != nil {
			return nil, describe(e, err)
		}
		if e.ID == "" {
			id, err := l.entropy.id(now)
			if err != nil {
				return nil, err
			}
			e.ID = id
		}
		r.events[i] = e
		r.digests[i] = digest(e)
	}
	return r, nil
}

// withdraw reports whether the caller got to the request before the writer.
func (r *request) withdraw() bool { return r.taken.CompareAndSwap(false, true) }

// describe names the event that an error is about.
func describe(e deploylog.Event, err error) error {
	return fmt.Errorf("%.80q of %.80q in deployment %.80q, attempt %d: %w", e.Name, string(e.Target), e.Deployment, e.Attempt, err)
}
