package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog/chain"
	"github.com/deployster-go/deployster/deploylog/queue"
)

// position is where a log ends.
type position struct {
	seq  int64
	hash chain.Link
}

// presumeTime is for how long a process presumes that nobody else appends, once nobody else has. Who
// has not appended for longer may as well wait for two answers, of which the first one tells a
// connection that was lost meanwhile from one that is lost while events are on their way.
const presumeTime = 100 * time.Millisecond

// mayPresume reports whether nobody else seems to append, and the connection seems to be there:
// that it is lost is better known before events are sent. What is unread may say that it ends, so
// that is a reason not to presume anything.
func (w *writer) mayPresume() bool {
	if w.conn == nil || w.conn.IsClosed() || time.Since(w.alone) >= w.presumes {
		return false
	}
	return silent(w.conn.PgConn().Conn())
}

// silent reports whether a connection is there, and nothing that was received waits to be read.
func silent(conn net.Conn) (yes bool) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	raw, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	socket, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	// Where the client writes slowly it reads meanwhile, and may wait for more still: Read would wait for that.
	err = socket.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		yes = errors.Is(err, syscall.EAGAIN)
	})
	return err == nil && yes
}

// errPresumed says that the log is not what was presumed of it. Nothing was written.
var errPresumed = errors.New("the log is not what was presumed of it")

// presume appends all that is queued in one answer of the server. It presumes that the log still
// ends where this process left it, and that none of the events is there; the server is asked to
// make sure of both in the same transaction. It fails with errPresumed where the requests are to be
// left to a batch that looks first, as also those are after which something follows.
func (b *batch) presume(ctx context.Context) error {
	b.start(b.w.head)
	b.requests = b.w.log.queue.Take()
	if len(b.requests) == 0 {
		return nil // all were withdrawn
	}
	if slices.ContainsFunc(b.requests, (*queue.Request).Follows) {
		return errPresumed
	}
	var begun []string // deployments whose first events these are, as is presumed
	for _, r := range b.requests {
		for _, e := range r.Events {
			if first, registered := b.w.registered[e.Deployment]; registered {
				b.registered[e.Deployment] = first
			} else {
				begun = append(begun, e.Deployment)
			}
		}
		if b.place(r); r.Err != nil {
			return errPresumed
		}
	}
	bytes := size(b.rows)
	if bytes > partBytes {
		return errPresumed // it is sent in parts: only between answers the server ends who hangs
	}
	all := &pgx.Batch{}
	b.lock(all)
	all.Queue(`SELECT 1 / count(*) FROM (SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1) AS newest
		WHERE seq = $1 AND hash = $2 AND NOT EXISTS (SELECT FROM events WHERE deployment = ANY($3))`, b.from.seq, b.from.hash[:], begun)
	b.insert(all, b.rows)
	all.Queue("COMMIT")
	if err := b.w.log.queue.Broken(); err != nil {
		return unwritten{err} // locks may be given up by now
	}
	switch err := b.w.ask(ctx, all, bytes); {
	case err == nil:
		return nil
	case b.w.conn.IsClosed(): // so nobody knows whether it was written
		return b.w.fail(err)
	default: // the server says what is wrong before it commits, so nothing was written
		undo := &pgx.Batch{}
		undo.Queue("ROLLBACK")
		if undone := b.w.ask(ctx, undo, 0); undone != nil {
			b.w.disconnect()
		}
		if isCode(err, lockTimeout) {
			return err // nobody is to wait for as long once more
		}
		return errPresumed
	}
}

// retry is a batch of the same requests that looks first.
func (b *batch) retry() *batch {
	other := newBatch(b.w)
	other.pending = append(b.pending, b.requests...)
	for _, r := range other.pending {
		r.Err = nil
	}
	return other
}
