package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/deploylog"
)

// Waits is the header of an interim answer (102). It says which process has the turn to write, for which
// the request waits.
const Waits = "Deployster-Waits"

// The times after which a request that waits is told so. A client takes few interim answers.
const (
	firstTold = 2 * time.Second
	laterTold = 25 * time.Second
)

// waiting tells a caller that its request waits for another process.
type waiting struct {
	log deploylog.TurnLog
	w   http.ResponseWriter

	mu    sync.Mutex
	over  bool // the answer is about to be written
	timer *time.Timer
}

type waitingKey struct{}

// mayWait has an operation tell its caller if it waits: one that may record something.
func (s *Server) mayWait(ctx huma.Context, op Operation, r *http.Request, w http.ResponseWriter) huma.Context {
	log, tells := s.Log.(deploylog.TurnLog)
	if !tells || op.Method == http.MethodGet || !r.ProtoAtLeast(1, 1) {
		return ctx
	}
	return huma.WithValue(ctx, waitingKey{}, &waiting{log: log, w: w})
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
	by := t.log.KeptBy()
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
