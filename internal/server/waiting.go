package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/phrase"
)

// Waits is the header of an interim answer (102). It says which process has the turn to write, for which
// the request waits. Only a request that has the header itself gets such an answer: there are clients
// and proxies that take any answer for the last one.
const Waits = "Deployster-Waits"

// The times after which a request that waits is told so. A client takes few interim answers.
const (
	firstTold = 2 * time.Second
	laterTold = 25 * time.Second
)

// waiting tells a caller that its request waits for another process.
type waiting struct {
	by func() string // which process is waited for; "" is none
	w  http.ResponseWriter

	mu    sync.Mutex
	over  bool // the answer is about to be written
	timer *time.Timer
}

type waitingKey struct{}

// mayWait has an operation tell its caller if it waits: one that may record something.
func (s *Server) mayWait(ctx huma.Context, op Operation, r *http.Request, w http.ResponseWriter) huma.Context {
	log, tells := s.Log.(deploylog.TurnLog)
	if !tells || op.Method == http.MethodGet || !r.ProtoAtLeast(1, 1) || r.Header.Get(Waits) == "" {
		return ctx
	}
	by := func() string { return holderFor(ctx.Context(), log.KeptBy()) }
	return huma.WithValue(ctx, waitingKey{}, &waiting{by: by, w: w})
}

// holderFor is what a caller is told of who has the turn to write: the names of machines, users and
// commands are for those who have a role for everything.
func holderFor(ctx context.Context, holder string) string {
	who := identity.Of(ctx)
	if holder == "" || who.May(identity.Operator, "", "") || who.May(identity.Approver, "", "") {
		return phrase.Plain(holder)
	}
	return "another process"
}

// begin begins to tell the caller of a request. end is called before anything of its answer is written.
func begin(ctx context.Context) (end func()) {
	t, tells := ctx.Value(waitingKey{}).(*waiting)
	if !tells {
		return func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(firstTold, t.tell)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.over = true
		t.timer.Stop()
		t.w.Header().Del(Waits)
	}
}

func (t *waiting) tell() {
	by := t.by()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	if by == "" {
		t.timer.Reset(firstTold)
		return
	}
	t.timer.Reset(laterTold)
	t.w.Header().Set(Waits, by)
	t.w.WriteHeader(http.StatusProcessing)
}
