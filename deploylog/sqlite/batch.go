package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"runtime"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
	"github.com/deployster-go/deployster/deploylog/queue"
)

// batch is one transaction of the writer and the requests in it.
type batch struct {
	w        *writer
	requests []*queue.Request
	from     int64 // seq of the last event before it
	seq      int64 // and of the last one in it
	head     chain.Link
	marks    []mark
	slot     int // of the anchor, which it is to be written to
	followed int // requests that follow others of the batch, for which nobody waits but these
}

func (b *batch) begin() error {
	if err := b.w.stmts.begin.exec(); err != nil {
		return err
	}
	row := make([]driver.Value, 2)
	if _, err := b.w.stmts.head.row(row); err != nil {
		return errors.Join(err, b.w.stmts.rollback.exec())
	}
	seq, isSeq := row[0].(int64)
	hash, isHash := row[1].([]byte)
	if !isSeq || !isHash {
		return errors.Join(corrupt("the log has no head"), b.w.stmts.rollback.exec())
	}
	b.from, b.seq, b.head = seq, seq, chain.LinkOf(hash)
	if err := b.anchored(); err != nil {
		return errors.Join(err, b.w.stmts.rollback.exec())
	}
	return nil
}

// anchored fails where acknowledged events were lost while the log was open.
func (b *batch) anchored() error {
	a, slot, err := b.w.anchor.read()
	if err != nil {
		return err
	}
	b.slot = slot
	if a.log == b.w.log && a.seq < b.from { // an earlier version appended, or a crash came between commit and anchor
		return nil
	}
	return a.holds(context.Background(), nil, head{id: b.w.log, seq: b.from, hash: b.head}, b.w.path)
}

// gather adds what is queued, and what comes in meanwhile.
func (b *batch) gather() error {
	for yields := 0; b.seq-b.from < batchLimit; {
		requests := b.w.queue.Take()
		for i, r := range requests {
			if err := b.add(r); err != nil {
				b.requests = append(b.requests, requests[i+1:]...)
				return err
			}
		}
		if len(requests) > 0 {
			continue
		}
		// Those whom the last batch set free are about to append again: worth
		// a moment, since they would wait for a whole sync.
		if b.callers() >= b.w.together || yields == maxYields {
			break
		}
		yields++
		runtime.Gosched()
	}
	return nil
}

// callers is how many wait for the batch.
func (b *batch) callers() int { return len(b.requests) - b.followed }

// add adds a request, and what is to follow it. It fails only where the transaction cannot go on.
func (b *batch) add(r *queue.Request) error {
	b.requests = append(b.requests, r)
	if err := b.insertAll(r); err != nil || r.Err != nil || !r.Follows() {
		return err
	}
	more := r.Following(b.unread(len(b.marks) - len(r.Events)))
	if more == nil {
		return nil
	}
	b.followed++
	return b.add(more)
}

// unread returns the events of the batch. The first so many are those of other callers, who may
// change them afterwards.
func (b *batch) unread(others int) []deploylog.Event {
	events := make([]deploylog.Event, len(b.marks))
	for i, m := range b.marks {
		if events[i] = *m.event; i < others {
			events[i].Data = slices.Clone(m.event.Data)
		}
	}
	return events
}

// insertAll inserts the events of one request, or none of them where one is already in the log.
func (b *batch) insertAll(r *queue.Request) error {
	if len(r.Events) == 1 { // a single statement undoes itself
		return b.insert(r)
	}
	if err := b.w.stmts.savepoint.exec(); err != nil {
		return err
	}
	seq, head, marks := b.seq, b.head, len(b.marks)
	if err := b.insert(r); err != nil {
		return err
	}
	if r.Err != nil {
		b.seq, b.head, b.marks = seq, head, b.marks[:marks]
		clear(b.w.registered)
		if err := b.w.stmts.revert.exec(); err != nil {
			return err
		}
	}
	return b.w.stmts.release.exec()
}

func (b *batch) insert(r *queue.Request) error {
	for i := range r.Events {
		e := &r.Events[i]
		seq := b.seq + 1
		registered, err := b.registered(e.Deployment, seq)
		if err != nil {
			return err
		}
		head := b.head.Next(seq, registered, r.Digests[i])
		var data driver.Value
		if e.Data != nil {
			data = string(e.Data)
		}
		err = b.w.stmts.insert.exec(seq, e.ID, e.Deployment, string(e.Target), e.Revision, e.Name, int64(e.Attempt),
			e.CreatedAt.UnixNano(), data, registered, head[:])
		if isDuplicate(err) {
			r.Duplicate(*e)
			return nil
		}
		if err != nil {
			return err
		}
		if registered == seq {
			b.w.remember(e.Deployment, seq)
		}
		b.marks = append(b.marks, mark{e, registered})
		e.Seq, b.seq, b.head = seq, seq, head
	}
	return nil
}

// registered is where the deployment began: at seq, when it is new.
func (b *batch) registered(deployment string, seq int64) (int64, error) {
	if first, ok := b.w.registered[deployment]; ok {
		return first, nil
	}
	row := make([]driver.Value, 1)
	ok, err := b.w.stmts.registered.row(row, deployment)
	if err != nil {
		return 0, err
	}
	if !ok {
		return seq, nil
	}
	first, ok := row[0].(int64)
	if !ok {
		return 0, corrupt("an event of deployment %q has no registration", deployment)
	}
	b.w.remember(deployment, first)
	return first, nil
}

// commit makes the batch durable, and with it the anchor of the last one, and
// moves the anchor on.
func (b *batch) commit() error {
	if b.seq == b.from {
		return b.w.stmts.rollback.exec()
	}
	if err := b.answer(); err != nil {
		return err
	}
	if err := b.w.stmts.advance.exec(b.seq, b.head[:]); err != nil {
		return err
	}
	if err := b.w.anchor.during(func() error { return b.w.stmts.commit.exec() }); err != nil {
		return err
	}
	if b.w.set.committed != nil {
		b.w.set.committed()
	}
	return b.w.anchor.advance(anchor{b.w.log, b.seq, b.head}, b.slot)
}

// remember caches where a deployment began, which never changes.
func (w *writer) remember(deployment string, first int64) {
	const limit = 1024 // deployments at work at one time are far fewer
	if len(w.registered) >= limit {
		clear(w.registered)
	}
	w.registered[deployment] = first
}
