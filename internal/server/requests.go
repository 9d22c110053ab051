package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/deploylog"
)

// A request that has an idempotency key is done once, however often it is sent: what it came
// to is found again in the log, by whichever server has the log then. The mark is part of one
// of the events, so that either both are recorded or neither.

// remembered is how long a request is not done again.
const remembered = 24 * time.Hour

// maxRemembered is how many requests are remembered, at least; of more, the oldest are not.
const maxRemembered = 100_000

// mark is what an event says of the request that it was recorded for.
type mark struct {
	ID     string `json:"id"`     // hash of who asks, and their key
	Of     string `json:"of"`     // hash of what is asked for
	Before int    `json:"before"` // events of the request before this one
	Events int    `json:"events"`
}

// request is one that is to be done once.
type request struct {
	ID, Of string
	marked bool // an event of it is recorded
}

// newRequest returns the request of a caller who sends a key with it.
func newRequest(who, key string, of ...string) *request {
	return &request{ID: hashed(who, key), Of: hashed(of...)}
}

func hashed(texts ...string) string {
	sum := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(sum, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

type requestKey struct{}

// errRepeated is why nothing is recorded for a request that was done before.
var errRepeated = errors.New("the request was done before")

// done is what a request came to.
type done struct {
	of    string
	first int64 // event
	n     int
	at    time.Time
}

// requests are those that were done, as the log says.
type requests struct {
	log deploylog.Log
	now func() time.Time

	mu    sync.Mutex
	head  int64
	known map[string]done
	order []string // of known, the oldest first
}

// find is what a request came to, if it was done.
func (r *requests) find(ctx context.Context, id string) (d done, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := deploylog.Filter{After: r.head}
	if r.head == 0 {
		f.Since = r.now().Add(-remembered)
	}
	if r.known == nil {
		r.known = map[string]done{}
	}
	for e, err := range r.log.Read(ctx, f) {
		if err != nil {
			return d, false, fmt.Errorf("reading which requests were done: %w", err)
		}
		r.head = e.Seq
		if m := marked(e.Data); m != nil {
			r.known[m.ID] = done{of: m.Of, first: e.Seq - int64(m.Before), n: m.Events, at: e.CreatedAt}
			r.order = append(r.order, m.ID)
		}
	}
	r.forget()
	d, ok = r.known[id]
	return d, ok, nil
}

// forget forgets what is long ago.
func (r *requests) forget() {
	old := 0
	for _, id := range r.order {
		if len(r.order)-old <= maxRemembered && r.now().Sub(r.known[id].at) < remembered {
			break
		}
		delete(r.known, id)
		old++
	}
	r.order = slices.Delete(r.order, 0, old)
}

// marked is what the data of an event says of a request; nil is nothing.
func marked(data []byte) *mark {
	if !bytes.Contains(data, []byte(`"request":`)) {
		return nil
	}
	var of struct {
		Request *mark `json:"request"`
	}
	if json.Unmarshal(data, &of) != nil || of.Request == nil || of.Request.ID == "" || of.Request.Before < 0 || of.Request.Events < 1 {
		return nil
	}
	return of.Request
}

// recording is the log as what is commanded is appended to it.
type recording struct {
	deploylog.Log
	requests *requests
	failed   func(error) // may be nil
}

// append appends, and says where that is of no use any more.
func (l recording) append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	written, err := l.Log.Append(ctx, events...)
	if l.failed != nil && (errors.Is(err, deploylog.ErrPoisoned) || errors.Is(err, deploylog.ErrUnwritten)) {
		l.failed(err)
	}
	return written, err
}

// recording is the log of commands, beside which snapshots are kept as beside any.
func (s *Server) recording() deploylog.Log {
	l := recording{s.Log, s.requests, s.Failed}
	if snapshots, keeps := s.Log.(deploylog.SnapshotLog); keeps {
		return struct {
			recording
			deploylog.SnapshotLog
		}{l, snapshots}
	}
	return l
}

// Append implements deploylog.Log. What is appended says for which request, if that has a key.
func (l recording) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	r, _ := ctx.Value(requestKey{}).(*request)
	if r == nil || r.marked || len(events) == 0 {
		return l.append(ctx, events...)
	}
	// Who appends has the decide lock, so no other process does the same between the two.
	if _, did, err := l.requests.find(ctx, r.ID); err != nil {
		return nil, err
	} else if did {
		return nil, errRepeated
	}
	events = slices.Clone(events)
	smallest := 0
	for i := range events {
		if len(events[i].Data) < len(events[smallest].Data) {
			smallest = i
		}
	}
	events[smallest].Data = withMark(events[smallest].Data, mark{r.ID, r.Of, smallest, len(events)})
	written, err := l.append(ctx, events...)
	r.marked = err == nil
	return written, err
}

// withMark is the data of an event that also says of which request it is.
func withMark(data json.RawMessage, m mark) json.RawMessage {
	text, err := json.Marshal(m)
	if err != nil {
		return data // a mark can be written
	}
	rest := bytes.TrimSpace(data)
	switch {
	case len(rest) == 0:
		return fmt.Appendf(nil, `{"request":%s}`, text)
	case rest[0] != '{':
		return data
	}
	rest = bytes.TrimSpace(rest[1:])
	if rest[0] == '}' {
		return fmt.Appendf(nil, `{"request":%s}`, text)
	}
	return fmt.Appendf(nil, `{"request":%s,%s`, text, rest)
}

// once has a request done, unless it was done before: then it is answered as it was.
func (s *Server) once(ctx context.Context, r *request, do func(context.Context) ([]deploylog.Event, error)) ([]deploylog.Event, error) {
	if r == nil {
		return do(ctx)
	}
	events, err := do(context.WithValue(ctx, requestKey{}, r))
	if err == nil && len(events) > 0 {
		return events, nil
	}
	before, did, failed := s.requests.find(ctx, r.ID)
	switch {
	case failed != nil:
		return nil, errors.Join(err, failed)
	case !did:
		return events, err
	case before.of != r.Of:
		return nil, huma.Error422UnprocessableEntity("the Idempotency-Key was used for another request: each has one of its own")
	}
	events = nil
	for e, err := range s.Log.Read(ctx, deploylog.Filter{After: before.first - 1, Until: before.first + int64(before.n) - 1}) {
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}
