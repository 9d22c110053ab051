package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
	"github.com/deployster-go/deployster/deploylog/queue"
)

// position is where a log ends.
type position struct {
	seq  int64
	hash chain.Link
}

// presumeTime is for how long it is presumed that nobody else appends, after that was so. Who
// has not appended for longer may as well wait for two answers, of which the first one tells a
// connection that was lost meanwhile from one that is lost while events are on their way.
const presumeTime = 100 * time.Millisecond

// mayPresume reports whether there is reason to presume so, and the connection is there: whether it
// is lost is better known before something is sent. The server says nothing that it was not asked
// for, but that it ends the connection.
func (w *writer) mayPresume() bool {
	if w.conn == nil || w.conn.IsClosed() || time.Since(w.alone) >= presumeTime {
		return false
	}
	conn := w.conn.PgConn().Conn()
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
	silent := false
	err = socket.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && silent
}

// presume appends all that is queued in one answer of the server. It presumes that the log still
// ends where this process left it, and that none of the events is there; the server is asked to
// make sure of both in the same transaction. Where it is not so, nothing is written, and the
// requests are left to a batch that looks first, as those are after which something follows.
// It reports whether all is written.
func (b *batch) presume(ctx context.Context) bool {
	b.start(b.w.head)
	b.requests = b.w.log.queue.Take()
	if len(b.requests) == 0 {
		return true // all were withdrawn
	}
	if slices.ContainsFunc(b.requests, (*queue.Request).Follows) {
		return false
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
	}
	for _, r := range b.requests {
		if b.place(r); r.Err != nil {
			return false
		}
	}
	all := &pgx.Batch{}
	b.take(all)
	all.Queue(`SELECT 1 / count(*) FROM (SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1) AS newest
		WHERE seq = $1 AND hash = $2 AND NOT EXISTS (SELECT FROM events WHERE deployment = ANY($3))`, b.from.seq, b.from.hash[:], begun)
	b.store(all)
	err := b.w.conn.SendBatch(ctx, all).Close()
	if err == nil {
		return true
	}
	// What the server says and outlives, it says before the commit. Otherwise nobody knows.
	if b.w.conn.IsClosed() {
		b.doubt = &doubt{*b.rows[len(b.rows)-1].event, err}
	} else if _, err := b.w.conn.Exec(ctx, "ROLLBACK"); err != nil {
		b.w.disconnect()
	}
	return false
}

// doubt is that a batch may have been written, and why that is not known.
type doubt struct {
	last  deploylog.Event // of the batch: it is there with all others, or none is
	cause error
}

// look asks whether it was written.
func (d *doubt) look(all *pgx.Batch, written *bool) {
	all.Queue("SELECT EXISTS (SELECT FROM events WHERE seq = $1 AND id = $2)", d.last.Seq, d.last.ID).QueryRow(func(row pgx.Row) error { return row.Scan(written) })
}

// instead is a batch of the same requests that looks first.
func (b *batch) instead() *batch {
	other := newBatch(b.w)
	other.taken, other.doubt = append(b.taken, b.requests...), b.doubt
	for _, r := range other.taken {
		r.Err = nil
	}
	return other
}
