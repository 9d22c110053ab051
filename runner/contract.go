package runner

import (
	"context"
	"errors"

	"github.com/deployster-go/deployster/protocol"
)

// Recorder makes a recorded event durable before it returns. When it fails,
// the run stops: what cannot be recorded must not be done.
type Recorder interface {
	Record(ctx context.Context, e Event) error
}

// Observer is notified of every event as it happens. Calls are serialized and must
// return quickly.
type Observer interface {
	Observe(e Event)
}

// Guard keeps two runs from working on one resource at once. Enter returns
// once no other run works on it and nothing that a dead run started for it is
// still running; waiting is called with a sentence when that takes a while.
type Guard interface {
	Enter(ctx context.Context, resource string, waiting func(string)) (leave func(), err error)
}

// Confirmer asks a person. It is called from one goroutine at a time.
type Confirmer interface {
	Confirm(ctx context.Context, q Question) (bool, error)
}

// ErrQuit is the error of a Confirmer whose answer is no, also to all that was
// still to begin: what is being done is finished, and nothing else is begun,
// whatever KeepGoing says.
var ErrQuit = errors.New("declined, with all that was still to begin")

// Question is what a person is asked before something is changed.
type Question struct {
	Resource string
	Type     string
	Diff     []Change          // what differs, for the first question about a resource
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

// Plan is what an Apply would do, as far as it can be known without doing it, or
// what a Destroy would.
type Plan struct {
	Run        string
	Destroy    bool
	Resources  []ResourcePlan // in graph order, or in that of their removal
	Undeclared []Undeclared   // what runs made, is no longer declared, and stays
}

// Changes reports whether anything is not VALID, or there and to be removed.
func (p *Plan) Changes() bool {
	for _, r := range p.Resources {
		if r.Status != Valid && r.Status != Absent && !p.Destroy || r.Status == Present {
			return true
		}
	}
	return false
}

// ResourcePlan is the plan for one resource.
type ResourcePlan struct {
	Name      string
	Type      string
	DependsOn []string
	Status    Status   // Valid, Stale, Unknown, Failed or Skipped; of a Destroy, and of what is Undeclared, Present or Absent
	After     []string // Unknown: the resources whose apply makes it known
	Tentative Status   // Unknown: Valid or Stale, as its type says before those are applied; "" where it cannot say; Exists, Diff, Actions and Config are no more than tentative then, and parts may be protocol.Unknown
	ReadOnly  bool     // may not be changed: Failed, because it is not as configured
	Exists    bool     // Stale, or ReadOnly: there is something, but not as configured
	Replace   bool     // Stale: what there is is removed first, by Actions, and made again then
	Diff      []Change
	Actions   []protocol.Action
	Reason    ReasonCode // Failed, Skipped: why
	Error     string     // the same as a sentence
	MadeBy    string     // run that made what is removed because it is no longer declared; "" is declared

	// What an Apply that is bound to the plan must find again (Spec.Bound).
	// Values are masked; the hashes are of the values before that, and "" where
	// there is no Spec.Fingerprint.
	ImageID     string         // of the type: id of its content
	ImageDigest string         // of the type, in a registry; "" if it never was in one
	Config      map[string]any // resolved; nil while it waits for a dependency
	ConfigHash  string
	State       map[string]any // Valid, Stale: as observed; nil when it does not exist
	StateHash   string
	ActionsHash string // Stale
	KeptHash    string // Stale: of what was kept of it; "" where nothing was
}
