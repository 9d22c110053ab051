package postgres

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
)

const (
	// watchPause is how often a watch looks for what others appended without being told.
	watchPause = time.Second
	// listenPause is how soon the connection by which news come is made again, and how soon
	// a watch looks again for a server that is away.
	listenPause = 500 * time.Millisecond
	// awayTime is how long a watch waits for a server that is away: while it is started again, or
	// a standby takes its place.
	awayTime = time.Minute
)

// news tells the watches of a log that it has grown: this process says so, and the server does
// of others.
type news struct {
	log *Log

	mu    sync.Mutex
	grown chan struct{} // closed when there is more
	over  bool          // nothing is listened to any more
	end   context.CancelFunc
	ended chan struct{} // nil is not listening
}

func newNews(l *Log) *news { return &news{log: l, grown: make(chan struct{})} }

// channel is where the server tells of appends.
func (l *Log) channel() string { return "deployster_" + strings.ToLower(l.id) }

// next is closed when there is more than now.
func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended == nil && !n.over {
		ctx, end := context.WithCancel(context.Background())
		n.end, n.ended = end, make(chan struct{})
		go func() {
			defer crash.End("", "listening to the deployment log")
			n.listen(ctx)
		}()
	}
	return n.grown
}

func (n *news) grew() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.grown)
	n.grown = make(chan struct{})
}

// listen listens to the server until ctx ends. What it says while there is no connection is
// found by looking.
func (n *news) listen(ctx context.Context) {
	defer close(n.ended)
	for ctx.Err() == nil {
		if err := n.hear(ctx); err != nil && ctx.Err() == nil {
			n.log.logger.Debug("no news of the deployment log are heard", "log", n.log.where.String(), "error", err)
		}
		select {
		case <-time.After(listenPause):
		case <-ctx.Done():
		}
	}
}

func (n *news) hear(ctx context.Context) error {
	conn, err := n.log.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer hangUp(ctx, conn)
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{n.log.channel()}.Sanitize()); err != nil {
		return err
	}
	for {
		n.grew() // before the first there may have been others
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

func (n *news) close() {
	n.mu.Lock()
	n.over = true
	end, ended := n.end, n.ended
	n.mu.Unlock()
	if ended != nil {
		end()
		<-ended
	}
}

// Watch implements deploylog.Log.
func (l *Log) Watch(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		if f.Until != 0 {
			yield(deploylog.Event{}, errors.New("watch deployment log: a watch has no end, do not set Until"))
			return
		}
		quiet := func(e deploylog.Event, err error) bool {
			if err != nil && ctx.Err() != nil {
				return false // the caller has gone, which is no error
			}
			return yield(e, err)
		}
		grown := l.news.next() // taken before looking, so that nothing is missed
		var of span
		err := l.patiently(ctx, func(ctx context.Context) (err error) {
			of, err = l.covers(ctx, f)
			return err
		})
		if err != nil {
			quiet(deploylog.Event{}, l.readError(ctx, err))
			return
		}
		for {
			if !l.deliver(ctx, f, of, l.patiently, quiet) {
				return
			}
			of.after = max(of.after, of.until)
			select {
			case <-grown:
			case <-time.After(watchPause):
			case <-l.life.Done():
				quiet(deploylog.Event{}, l.readError(ctx, context.Cause(l.life)))
				return
			case <-ctx.Done():
				quiet(deploylog.Event{}, l.readError(ctx, ctx.Err()))
				return
			}
			grown = l.news.next()
			if err = l.patiently(ctx, func(ctx context.Context) error {
				of.until, err = l.readNewest(ctx)
				return err
			}); err != nil {
				quiet(deploylog.Event{}, l.readError(ctx, err))
				return
			}
		}
	}
}

// patiently reads something, and waits for a server that is away.
func (l *Log) patiently(ctx context.Context, read func(context.Context) error) error {
	for since := time.Now(); ; {
		err := l.reading(ctx, read)
		if err == nil || !isLoss(err) || ctx.Err() != nil || time.Since(since) > awayTime {
			return err
		}
		select {
		case <-time.After(listenPause):
		case <-ctx.Done():
		}
	}
}
