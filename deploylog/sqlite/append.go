package sqlite

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
)

// Append implements deploylog.Log. An append that the writer has taken up is
// carried through even when ctx ends, so that its outcome is always known; one
// that still waits is withdrawn.
func (l *Log) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	return l.AppendThen(ctx, events, nil)
}

// AppendThen implements deploylog.ThenAppender. then may be nil.
func (l *Log) AppendThen(ctx context.Context, events []deploylog.Event, then func([]deploylog.Event) []deploylog.Event) ([]deploylog.Event, error) {
	if len(events) == 0 {
		return nil, ctx.Err()
	}
	written, err := l.append(ctx, events, then)
	if err != nil {
		err = fmt.Errorf("append to deployment log: %w", explain(l.path, err))
	}
	return written, err
}

func (l *Log) append(ctx context.Context, events []deploylog.Event, then func([]deploylog.Event) []deploylog.Event) ([]deploylog.Event, error) {
	r, err := l.request(events)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if then != nil {
		r.placed, r.more = make(chan []deploylog.Event, 1), make(chan *request, 1)
	}
	if err := l.writer.submit(r); err != nil {
		return nil, err
	}
	var more *request
	for gone := ctx.Done(); ; {
		select {
		case unread := <-r.placed:
			more, err = l.following(r, then, unread)
		case failed := <-r.done:
			if failed != nil {
				return nil, failed
			}
			if more == nil {
				return r.events, err
			}
			if err := <-more.done; err != nil {
				return r.events, err
			}
			return append(r.events, more.events...), nil
		case <-gone:
			if r.withdraw() {
				return nil, ctx.Err()
			}
			gone = nil
		}
	}
}

// following gives the writer what is to follow the events of a request, for which it waits.
func (l *Log) following(r *request, then func([]deploylog.Event) []deploylog.Event, unread []deploylog.Event) (more *request, err error) {
	defer func() { r.more <- more }()
	if events := then(unread); len(events) > 0 {
		more, err = l.request(events)
	}
	return more, err
}

// request is one caller's events on their way into the log.
type request struct {
	events  []deploylog.Event
	digests [][sha256.Size]byte
	taken   atomic.Bool // by the writer, or by the caller who withdrew it
	err     error       // decided while its transaction is still open
	done    chan error  // its outcome, sent once

	placed chan []deploylog.Event // receives what nobody can read yet, once its events are there; nil where nothing follows
	more   chan *request          // sends what is to follow; nil is nothing
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
		r.digests[i] = chain.Digest(e)
	}
	return r, nil
}

// withdraw reports whether the caller got to the request before the writer.
func (r *request) withdraw() bool { return r.taken.CompareAndSwap(false, true) }

// describe names the event that an error is about.
func describe(e deploylog.Event, err error) error {
	return fmt.Errorf("%.80q of %.80q in deployment %.80q, attempt %d: %w", e.Name, string(e.Target), e.Deployment, e.Attempt, err)
}
