package control

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
)

// seat is for the one process that decides and records what happens to things of
// a kind. The others stand by.
type seat struct {
	log    deploylog.Log
	lock   string // of who is in it
	who    string // what people call them
	stop   <-chan struct{}
	notice func(string)
}

// take waits until nobody else is in the seat. There is neither unlock nor error
// when stop came first.
func (s seat) take(ctx context.Context) (unlock func(), err error) {
	unlock, err = s.log.TryLock(s.lock)
	if errors.Is(err, deploylog.ErrLocked) {
		s.notice(fmt.Sprintf("another %s is at work (%v): standing by", s.who, err))
		wait, cancel := s.stoppable(ctx)
		unlock, err = s.log.Lock(wait, s.lock)
		cancel()
		if err != nil && s.stopped() {
			return nil, nil
		}
		if err == nil {
			s.notice(fmt.Sprintf("the other %s has ended: taking over", s.who))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("locking the %s: %w", s.who, err)
	}
	return unlock, nil
}

func (s seat) stoppable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (s seat) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// taken tells whether somebody is in the seat of a log.
func taken(log deploylog.Log, lock string) bool {
	unlock, err := log.TryLock(lock)
	if err != nil {
		return true
	}
	unlock()
	return false
}

// watch tells that there is something new of mine in the log, and in newest which
// event that is, or why it is no longer known. The channel is closed when the
// watch has ended.
func watch(ctx context.Context, log deploylog.Log, after int64, mine func(deploylog.Target) bool, newest *atomic.Int64) <-chan error {
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

// heard is what came from a watch: an error when it has ended before its time.
func heard(ctx context.Context, err error, ok bool) error {
	if err != nil || ok || ctx.Err() != nil {
		return err
	}
	return errors.New("watching the log: it ended")
}

// tidings are what somebody is to be told when no lock is held: the screen may be
// slow, and others wait for the locks.
type tidings[A any] []func(A)

func (t *tidings[A]) tell(what func(A)) { *t = append(*t, what) }

func (t *tidings[A]) flush(to A) {
	for _, tell := range *t {
		tell(to)
	}
	*t = (*t)[:0]
}
