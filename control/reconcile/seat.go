package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
)

// Seat is for the one process that decides and records what happens to things of
// a kind. The others stand by.
type Seat struct {
	Log    deploylog.Log
	Lock   string // of who is in it
	Who    string // what people call them
	Stop   <-chan struct{}
	Notice func(string)
}

// Take waits until nobody else is in the seat. There is neither unlock nor error
// when stop came first.
func (s Seat) Take(ctx context.Context) (unlock func(), err error) {
	unlock, err = s.Log.TryLock(s.Lock)
	if errors.Is(err, deploylog.ErrLocked) {
		s.Notice(fmt.Sprintf("another %s is at work (%v): standing by", s.Who, err))
		wait, cancel := s.stoppable(ctx)
		unlock, err = s.Log.Lock(wait, s.Lock)
		cancel()
		if err != nil && s.Stopped() {
			return nil, nil
		}
		if err == nil {
			s.Notice(fmt.Sprintf("the other %s has ended: taking over", s.Who))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("locking the %s: %w", s.Who, err)
	}
	return unlock, nil
}

func (s Seat) stoppable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.Stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (s Seat) Stopped() bool {
	select {
	case <-s.Stop:
		return true
	default:
		return false
	}
}

// Taken tells whether somebody is in the seat of a log.
func Taken(log deploylog.Log, lock string) bool {
	unlock, err := log.TryLock(lock)
	if err != nil {
		return true
	}
	unlock()
	return false
}

// Watch tells that there is something new of mine in the log, and in newest which
// event that is, or why it is no longer known. The channel is closed when the
// watch has ended.
func Watch(ctx context.Context, log deploylog.Log, after int64, mine func(deploylog.Target) bool, newest *atomic.Int64) <-chan error {
	news := make(chan error, 1)
	go func() {
		defer close(news)
		defer func() {
			if p := recover(); p != nil {
				news <- crash.New(p, "watching the log")
			}
		}()
		for e, err := range log.Watch(ctx, deploylog.Filter{After: after}) {
			if err != nil {
				news <- fmt.Errorf("watching the log: %w", err)
				return
			}
			if !mine(e.Target) {
				continue
			}
			newest.Store(e.Seq)
			select {
			case news <- nil:
			default: // it is known already
			}
		}
	}()
	return news
}

// Heard is what came from a watch: an error when it has ended before its time.
func Heard(ctx context.Context, err error, ok bool) error {
	if err != nil || ok || ctx.Err() != nil {
		return err
	}
	return errors.New("watching the log: it ended")
}

// Deferred are what somebody is to be told when no lock is held: the screen may be
// slow, and others wait for the locks.
type Deferred[A any] []func(A)

func (t *Deferred[A]) Add(what func(A)) { *t = append(*t, what) }

func (t *Deferred[A]) Flush(to A) {
	for _, tell := range *t {
		tell(to)
	}
	*t = (*t)[:0]
}
