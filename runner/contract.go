package runner

import (
	"context"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

// Recorder makes a recorded event durable before it returns. When it fails,
// the run stops: what cannot be recorded must not be done.
type Recorder interface {
	Record(ctx context.Context, e report.Event) error
}

// Observer is notified of every event as it happens. Calls are serialized and must
// return quickly.
type Observer interface {
	Observe(e report.Event)
}

// Guard keeps two runs from working on one resource at once. Enter returns
// once no other run works on it and nothing that a dead run started for it is
// still running; waiting is called with a sentence when that takes a while.
type Guard interface {
	Enter(ctx context.Context, resource string, waiting func(string)) (leave func(), err error)

	// EnterThing returns once no other run makes, takes over or removes what a key identifies, which may be of another
	// manifest. called is what people call it.
	EnterThing(ctx context.Context, key, called string, waiting func(string)) (leave func(), err error)
}

// Confirmer asks a person. It is called from one goroutine at a time. Its error is failure.ErrQuit where
// nothing else is to begin.
type Confirmer interface {
	Confirm(ctx context.Context, q Question) (bool, error)
}

// Question is what a person is asked before something is changed.
type Question struct {
	Resource string
	Type     string
	Diff     []diff.Change     // what differs, for the first question about a resource
	Actions  []protocol.Action // what would be done: one, or all of the resource's
}

// ConfirmMode says how often a person is asked.
type ConfirmMode string

// The confirm modes (seed "Deployment lifecycle & resource protocol"). Once is
// asked by whoever calls Apply, with a Plan at hand; within Apply it is No.
const (
	ConfirmNo       ConfirmMode = "NO"
	ConfirmOnce     ConfirmMode = "ONCE"
	ConfirmResource ConfirmMode = "RESOURCE"
	ConfirmAction   ConfirmMode = "ACTION"
)

// Absence is what is known of a resource that cannot be asked whether it is
// there.
type Absence string

// What can be known of it.
const (
	Unproven     Absence = ""              // it may well be there
	Verified     Absence = "VERIFIED"      // its type said that it is gone, and nothing touched it since
	NeverCreated Absence = "NEVER APPLIED" // no run ever came to it, which does not say that it is not there
)
