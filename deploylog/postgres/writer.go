package postgres

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/turn"
	"github.com/deployster-go/deployster/internal/crash"
)

const (
	batchEvents = 20000    // in one transaction, unless one caller brings more
	batchBytes  = 16 << 20 // of data
)

const (
	// answerTime is how long the server may take for an answer, with all that it waits for, once it
	// has been sent what it answers.
	answerTime = time.Minute
	// slowest is how many bytes a second a link has at least over which events are appended.
	slowest = 16 << 10
	// turnTime is how long the server waits for what comes next of whoever has the turn to append, and
	// how long others wait for their turn.
	turnTime = 15 * time.Second
)

// sending is how long so many bytes may be on their way.
func sending(bytes int) time.Duration { return time.Duration(bytes) * time.Second / slowest }

// writer is the one goroutine of a log that appends.
type writer struct {
	log        *Log
	conn       *pgx.Conn        // nil is none
	backend    backend          // of conn
	pid        atomic.Int64     // of that
	registered map[string]int64 // deployments known to have begun, and where; a cache
	head       position         // of the log, when this process last appended to it
	alone      time.Time        // when that was, if one caller did so, and nobody else had since the time before; or zero
	presumes   time.Duration    // for how long it is presumed then that nobody else appends
	answerTime time.Duration    // how long the server may take for an answer
	turnTime   time.Duration    // how long it waits for this process in a transaction, and this process for its turn

	kept    turn.Kept
	stop    chan struct{}
	stopped chan struct{}
}

func newWriter(l *Log) *writer {
	w := &writer{log: l, registered: map[string]int64{}, presumes: presumeTime, answerTime: answerTime, turnTime: turnTime,
		kept: turn.Kept{Log: l.where.String(), Logger: l.logger, Holder: l.holder}, stop: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer crash.End("", "writing the deployment log")
		w.run()
	}()
	return w
}

func (w *writer) run() {
	defer close(w.stopped)
	for {
		select {
		case <-w.log.queue.Waiting():
			w.write()
		case <-w.stop:
			w.write()
			w.disconnect()
			return
		}
	}
}

func (w *writer) close() {
	close(w.stop)
	<-w.stopped
}

// writing are settings of the connection that appends. What is looked for there is few of many events, of
// which the server need not have statistics yet: it is to use the indexes.
var writing = map[string]string{
	"statement_timeout": "60s",
	"enable_seqscan":    "off",
	"enable_hashjoin":   "off",
	"enable_mergejoin":  "off",
}

// durable has what is acknowledged be on the disk of the server, and on that of each standby that
// synchronous_standby_names waits for, whatever a database or a role has as its default: off waits
// for no disk, local for none of a standby, and remote_write for its memory. It holds for the
// transaction, or for all that follow.
const durable = "SELECT set_config('synchronous_commit', 'on', $1) WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"

func (w *writer) connect(ctx context.Context) (err error) {
	if w.conn != nil && !w.conn.IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.answerTime)
	defer cancel()
	settings := maps.Clone(writing)
	settings["lock_timeout"], settings[idleTimeout] = milliseconds(w.turnTime), milliseconds(w.turnTime)
	if w.conn, err = w.log.connect(ctx, settings); err != nil {
		return err
	}
	// The server may be another, which has other events.
	clear(w.registered)
	w.head, w.alone = position{}, time.Time{}
	_, err = w.conn.Exec(ctx, durable, false)
	if err == nil {
		w.backend, err = backendOf(ctx, w.conn)
		w.pid.Store(w.backend.pid)
	}
	if err != nil {
		w.disconnect()
	}
	return err
}

// idleTimeout is the setting that says how long the server waits for this process in a transaction.
const idleTimeout = "idle_in_transaction_session_timeout"

// milliseconds is a time as the server's settings have it.
func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

// ask sends statements that have so many bytes, and waits for the answer of the server.
func (w *writer) ask(ctx context.Context, all *pgx.Batch, bytes int) error {
	ctx, cancel := context.WithTimeout(ctx, w.answerTime+sending(bytes))
	defer cancel()
	return w.conn.SendBatch(ctx, all).Close()
}

func (w *writer) disconnect() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.conn.Close(ctx)
	w.conn = nil
}

// write makes everything queued durable, all or nothing, and tells the callers.
func (w *writer) write() {
	if w.log.queue.Idle() {
		return // the last batch has taken up what this call is for
	}
	if broken := w.log.queue.Broken(); broken != nil {
		w.log.queue.Refuse(broken)
		return
	}
	ctx := context.Background() // each answer of the server has its own time
	var b *batch
	written := false
	err := w.kept.During(func() (err error) {
		b, written, err = w.takeTurn(ctx)
		return err
	})
	if written || err != nil {
		b.end(err)
		return
	}
	if err = b.gather(ctx); err != nil {
		w.disconnect() // which undoes it
	} else if b.seq == b.from.seq {
		err = b.undo(ctx)
	} else if err = b.commit(ctx); err != nil {
		err = w.fail(err)
		w.disconnect()
	}
	b.end(err)
}

// fail poisons the log, and returns what those are told whose events were to be written. With that
// they may give up their locks, and whoever takes these is to see all that comes of what was sent.
func (w *writer) fail(cause error) error {
	if w.conn != nil && w.conn.IsClosed() {
		if err := w.log.settle(w.backend); err != nil {
			w.log.session.unsettled.Store(true)
		}
	}
	w.log.poison(cause)
	return unwritten{cause}
}

// poison has the log acknowledge nothing any more.
func (l *Log) poison(cause error) {
	if l.queue.Broken() != nil {
		return
	}
	l.queue.Break(fmt.Errorf("%w: open it again once the cause is gone: %w", deploylog.ErrPoisoned, cause))
	l.logger.Error("deployment log poisoned by a failed write", "log", l.where.String(), "error", cause)
}

// remember caches where deployments began, which never changes once that is in the log.
func (w *writer) remember(registered map[string]int64) {
	const limit = 1024 // deployments at work at one time are far fewer
	if len(w.registered)+len(registered) > limit {
		clear(w.registered)
	}
	if len(registered) <= limit {
		maps.Copy(w.registered, registered)
	}
}
