// Package queue has the appends of a process wait for the one who writes them into a log, so
// that many callers cost little more than one: the writer takes all that wait, and makes them
// durable at once. What can be done for an append before, its caller does in its own time.
package queue

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
)

// Queue is that of one log. All methods are safe for concurrent use.
type Queue struct {
	now     func() time.Time
	entropy *ulid.MonotonicEntropy

	drawing sync.Mutex // from entropy
	mu      sync.Mutex
	queue   []*Request
	broken  error         // why nothing is written any more
	waiting chan struct{} // holds a token while the queue may have requests
}

// New makes a queue. The time is that of events without one; entropy has the random bytes of
// new IDs, and nil is crypto/rand.
func New(now func() time.Time, entropy io.Reader) *Queue {
	if entropy == nil {
		entropy = rand.Reader
	}
	return &Queue{now: now, entropy: ulid.Monotonic(entropy, 0), waiting: make(chan struct{}, 1)}
}

// Request is one caller's events on their way into the log.
type Request struct {
	Events  []deploylog.Event
	Digests [][sha256.Size]byte // of the events
	Err     error               // decided while its transaction is still open

	taken  atomic.Bool            // by the writer, or by the caller who withdrew it
	leaves atomic.Bool            // its caller waits no longer, but the writer has taken it
	done   chan error             // its outcome, sent once
	placed chan []deploylog.Event // receives what nobody can read yet, once its events are there; nil where nothing follows
	more   chan *Request          // sends what is to follow; nil is nothing
}

// ID makes an ID for what happens at a time. Those of one millisecond sort in the order in
// which they were made.
func (q *Queue) ID(at time.Time) (string, error) {
	q.drawing.Lock()
	defer q.drawing.Unlock()
	id, err := ulid.New(ulid.Timestamp(at), q.entropy)
	if err != nil {
		return "", fmt.Errorf("make an event id: %w", err)
	}
	return id.String(), nil
}

// Append has events written, and right after them what then returns; it may be nil. See
// deploylog.Log and deploylog.ThenAppender. What the writer has taken is carried through even
// when ctx ends, so that its outcome is always known; what still waits is withdrawn.
func (q *Queue) Append(ctx context.Context, events []deploylog.Event, then func([]deploylog.Event) []deploylog.Event) ([]deploylog.Event, error) {
	r, err := q.request(events)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if then != nil {
		r.follows()
	}
	if err := q.submit(r); err != nil {
		return nil, err
	}
	all := []*Request{r} // each follows the one before
	for gone := ctx.Done(); ; {
		last := all[len(all)-1]
		select {
		case unread := <-last.placed:
			var more *Request
			if more, err = q.following(last, then, unread); more != nil {
				all = append(all, more)
			}
		case failed := <-r.done:
			if errors.Is(failed, errWithdrawn) {
				failed = ctx.Err()
			}
			if failed != nil {
				return nil, failed
			}
			written := r.Events
			for _, more := range all[1:] {
				if err := <-more.done; err != nil {
					return written, err
				}
				written = append(written, more.Events...)
			}
			return written, err
		case <-gone:
			if r.taken.CompareAndSwap(false, true) {
				return nil, ctx.Err()
			}
			r.leaves.Store(true)
			if r.taken.CompareAndSwap(false, true) { // it was returned meanwhile
				return nil, ctx.Err()
			}
			gone = nil
		}
	}
}

// following gives the writer what is to follow the events of a request, for which it waits.
func (q *Queue) following(r *Request, then func([]deploylog.Event) []deploylog.Event, unread []deploylog.Event) (more *Request, err error) {
	defer func() { r.more <- more }()
	if events := then(unread); len(events) > 0 {
		if more, err = q.request(events); err == nil {
			more.follows()
		}
	}
	return more, err
}

// request completes and checks events in the caller's own time, to leave as
// little as possible for the one writer.
func (q *Queue) request(events []deploylog.Event) (*Request, error) {
	r := &Request{
		Events:  make([]deploylog.Event, len(events)),
		Digests: make([][sha256.Size]byte, len(events)),
		done:    make(chan error, 1),
	}
	now := q.now()
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
			id, err := q.ID(now)
			if err != nil {
				return nil, err
			}
			e.ID = id
		}
		r.Events[i] = e
		r.Digests[i] = chain.Digest(e)
	}
	return r, nil
}

func (q *Queue) submit(r *Request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken != nil {
		return q.broken
	}
	q.queue = append(q.queue, r)
	select {
	case q.waiting <- struct{}{}:
	default:
	}
	return nil
}

// Waiting receives when there may be something to write.
func (q *Queue) Waiting() <-chan struct{} { return q.waiting }

// Idle reports whether nothing waits.
func (q *Queue) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) == 0
}

// Waits are the requests in the queue, some of which may be withdrawn before they are taken.
func (q *Queue) Waits() []*Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.queue)
}

// Take removes from the queue the requests whose callers still wait. Each of them is to End.
func (q *Queue) Take() []*Request {
	q.mu.Lock()
	queue := q.queue
	q.queue = nil
	q.mu.Unlock()
	taken := queue[:0]
	for _, r := range queue {
		if r.taken.CompareAndSwap(false, true) {
			taken = append(taken, r)
		}
	}
	return taken
}

// errWithdrawn ends a request whose caller waits no longer.
var errWithdrawn = errors.New("withdrawn")

// Return has requests wait again that were taken, before all others. Those whose callers wait no longer end
// instead.
func (q *Queue) Return(requests []*Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var wait []*Request
	for _, r := range requests {
		r.Err = nil
		r.taken.Store(false) // before it is known whether its caller leaves, who withdraws it from now on
		if r.leaves.Load() && r.taken.CompareAndSwap(false, true) {
			r.done <- errWithdrawn
			continue
		}
		wait = append(wait, r)
	}
	q.queue = append(wait, q.queue...)
}

// Refuse has what waits fail.
func (q *Queue) Refuse(why error) {
	for _, r := range q.Take() {
		r.done <- why
	}
}

// Break has all further requests fail.
func (q *Queue) Break(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.broken = why
}

// Broken is why all further requests fail; nil is that they do not.
func (q *Queue) Broken() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.broken
}

// Duplicate notes that an event of the request is in the log already.
func (r *Request) Duplicate(e deploylog.Event) { r.Err = describe(e, deploylog.ErrDuplicate) }

// follows has the caller asked what follows the events of the request.
func (r *Request) follows() {
	r.placed, r.more = make(chan []deploylog.Event, 1), make(chan *Request, 1)
}

// Follows reports whether something may follow the events of the request.
func (r *Request) Follows() bool { return r.placed != nil }

// Following tells the caller of the events that nobody can read yet, and waits for what is to
// follow them; nil is nothing.
func (r *Request) Following(unread []deploylog.Event) *Request {
	r.placed <- unread
	return <-r.more
}

// End tells the caller the outcome: Err, or why nothing was written.
func (r *Request) End(failed error) {
	if failed != nil {
		r.Err = failed
	}
	r.done <- r.Err
}

// describe names the event that an error is about.
func describe(e deploylog.Event, err error) error {
	return fmt.Errorf("%.80q of %.80q in deployment %.80q, attempt %d: %w", e.Name, string(e.Target), e.Deployment, e.Attempt, err)
}
