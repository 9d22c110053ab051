package postgres

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
	"github.com/deployster-go/deployster/deploylog/queue"
)

// batch is one transaction of the writer and the requests in it. Nobody else appends while it
// lasts, so what was looked for once stays as it was; what was presumed before is checked in it once.
type batch struct {
	w        *writer
	pending  []*queue.Request // which were taken from the queue, and are added first
	requests []*queue.Request
	from     position // of the log before it
	seq      int64    // of the last event in it
	turn     bool     // it has the turn to append
	bytes    int
	head     chain.Link
	rows     []row
	known    map[key]bool            // events that are in the log, or in the batch
	looked   map[*queue.Request]bool // what was looked for

	registered map[string]int64 // where deployments began of which events are added
}

func newBatch(w *writer) *batch {
	return &batch{w: w, known: map[key]bool{}, looked: map[*queue.Request]bool{}, registered: map[string]int64{}}
}

// row is an event of a batch, and what is stored with it.
type row struct {
	event      *deploylog.Event
	registered int64
	hash       chain.Link
}

// key is what an event is once in a log by.
type key struct {
	deployment string
	target     deploylog.Target
	name       string
	attempt    int
}

func keyOfEvent(e deploylog.Event) key { return key{e.Deployment, e.Target, e.Name, e.Attempt} }

// start has the batch follow what is in the log.
func (b *batch) start(from position) { b.from, b.seq, b.head = from, from.seq, from.hash }

// lock begins the transaction, in which the process waits for its turn.
func (b *batch) lock(all *pgx.Batch) {
	// What comes next in it is to see what was appended during the wait.
	all.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
	all.Queue("SELECT pg_advisory_xact_lock($1)", b.w.log.key("append")).Exec(func(pgconn.CommandTag) error {
		b.turn = true
		return nil
	})
}

// begin begins the transaction, waits for its turn, finds out where the log stands, and looks for
// what waits to be appended then: that takes one answer of the server.
func (b *batch) begin(ctx context.Context) error {
	if err := b.w.connect(ctx); err != nil {
		return err
	}
	all := &pgx.Batch{}
	b.lock(all)
	all.Queue("SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1").QueryRow(func(newest pgx.Row) error {
		var seq int64
		var hash []byte
		err := newest.Scan(&seq, &hash)
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		b.start(position{seq, chain.LinkOf(hash)})
		return err
	})
	bytes := b.look(all, append(slices.Clip(b.pending), b.w.log.queue.Waits()...))
	return b.w.ask(ctx, all, bytes)
}

// maxYields is how often a batch gives way to callers who are about to append.
const maxYields = 8

// gather adds what is queued, and what comes in meanwhile.
func (b *batch) gather(ctx context.Context) error {
	for yields := 0; b.seq-b.from.seq < batchEvents && b.bytes < batchBytes; {
		requests := b.pending
		if b.pending = nil; len(requests) == 0 {
			requests = b.w.log.queue.Take()
		}
		if len(requests) == 0 {
			if yields == maxYields {
				break
			}
			yields++
			runtime.Gosched()
			continue
		}
		if err := b.lookNow(ctx, requests); err != nil {
			b.requests = append(b.requests, requests...)
			return err
		}
		for i, r := range requests {
			if err := b.add(ctx, r); err != nil {
				b.requests = append(b.requests, requests[i+1:]...)
				return err
			}
		}
	}
	return nil
}

// lookNow looks for what has come since the transaction began.
func (b *batch) lookNow(ctx context.Context, requests []*queue.Request) error {
	all := &pgx.Batch{}
	bytes := b.look(all, requests)
	if all.Len() == 0 {
		return nil
	}
	return b.w.ask(ctx, all, bytes)
}

// look has it asked what of the requests is in the log, and where their deployments began. Nothing
// is asked of what was looked for already. It returns how many bytes that takes.
func (b *batch) look(all *pgx.Batch, requests []*queue.Request) (bytes int) {
	var deployments, targets, names, unregistered []string
	var attempts []int64
	ask := func() {
		b.lookFor(all, deployments, targets, names, attempts)
		deployments, targets, names, attempts = nil, nil, nil, nil
	}
	part := 0
	for _, r := range requests {
		if b.looked[r] {
			continue
		}
		b.looked[r] = true
		for _, e := range r.Events {
			n := keyBytes + 2*len(e.Deployment) + len(e.Target) + len(e.Name)
			if bytes += n; part+n > partBytes && part > 0 {
				ask()
				part = 0
			}
			part += n
			deployments, targets, names, attempts = append(deployments, e.Deployment), append(targets, string(e.Target)), append(names, e.Name), append(attempts, int64(e.Attempt))
			if first, registered := b.w.registered[e.Deployment]; registered {
				b.registered[e.Deployment] = first
			} else if _, registered := b.registered[e.Deployment]; !registered {
				unregistered = append(unregistered, e.Deployment)
			}
		}
	}
	if len(deployments) > 0 {
		ask()
	}
	if len(unregistered) > 0 {
		slices.Sort(unregistered)
		b.lookForBegun(all, slices.Compact(unregistered))
	}
	return bytes
}

// lookFor has it asked which of some events are in the log.
func (b *batch) lookFor(all *pgx.Batch, deployments, targets, names []string, attempts []int64) {
	all.Queue(`SELECT deployment, target, event, attempt FROM events
		JOIN unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS wanted (deployment, target, event, attempt)
		USING (deployment, target, event, attempt)`, deployments, targets, names, attempts).Query(func(rows pgx.Rows) error {
		var k key
		_, err := pgx.ForEachRow(rows, []any{&k.deployment, &k.target, &k.name, &k.attempt}, func() error {
			b.known[k] = true
			return nil
		})
		return err
	})
}

// lookForBegun has it asked where deployments began.
func (b *batch) lookForBegun(all *pgx.Batch, deployments []string) {
	all.Queue(`SELECT d, (SELECT registered FROM events WHERE deployment = d LIMIT 1) FROM unnest($1::text[]) AS d`, deployments).Query(func(rows pgx.Rows) error {
		var deployment string
		var first *int64
		_, err := pgx.ForEachRow(rows, []any{&deployment, &first}, func() error {
			if first != nil {
				b.registered[deployment] = *first
			}
			return nil
		})
		return err
	})
}

// add adds a request of which look was called, and what is to follow it. It fails only where
// the transaction cannot go on.
func (b *batch) add(ctx context.Context, r *queue.Request) error {
	b.requests = append(b.requests, r)
	if b.place(r); r.Err != nil || !r.Follows() {
		return nil
	}
	more := r.Following(b.unread(len(b.rows) - len(r.Events)))
	if more == nil {
		return nil
	}
	if err := b.lookNow(ctx, []*queue.Request{more}); err != nil {
		b.requests = append(b.requests, more)
		return err
	}
	return b.add(ctx, more)
}

// place gives the events of a request their places, or none of them where one is there already.
func (b *batch) place(r *queue.Request) {
	own := map[key]bool{}
	for _, e := range r.Events {
		k := keyOfEvent(e)
		if b.known[k] || own[k] {
			r.Duplicate(e)
			return
		}
		own[k] = true
	}
	for i := range r.Events {
		e := &r.Events[i]
		b.seq++
		first, begun := b.registered[e.Deployment]
		if !begun {
			first = b.seq
			b.registered[e.Deployment] = first
		}
		b.head = b.head.Next(b.seq, first, r.Digests[i])
		b.rows = append(b.rows, row{e, first, b.head})
		b.known[keyOfEvent(*e)] = true
		b.bytes += len(e.Data)
		e.Seq = b.seq
	}
}

// unread returns the events of the batch. The first so many are those of other callers, who may
// change them afterwards.
func (b *batch) unread(others int) []deploylog.Event {
	events := make([]deploylog.Event, len(b.rows))
	for i, r := range b.rows {
		if events[i] = *r.event; i < others {
			events[i].Data = slices.Clone(r.event.Data)
		}
	}
	return events
}

// end tells the callers how the batch ended. Where it was written, the writer remembers what it knows
// of the log, and whether nobody else appends to it.
func (b *batch) end(err error) {
	w, wrote := b.w, err == nil && b.seq > b.from.seq
	if wrote {
		// With several callers looking first is better: others queue meanwhile, and share the transaction.
		w.alone = time.Time{}
		if b.from == w.head && len(b.requests) == 1 {
			w.alone = time.Now()
		}
		w.head = position{b.seq, b.head}
	}
	if err == nil {
		w.remember(b.registered)
	}
	for _, r := range b.requests {
		r.End(err)
	}
	if err != nil {
		w.log.queue.Refuse(err) // what came after it must not be there without it
	} else if wrote {
		w.log.news.grew()
	}
}
