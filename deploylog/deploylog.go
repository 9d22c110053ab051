// Package deploylog is the deployment log: one append-only history of
// everything that happened, and the only source of truth.
//
// An entry says that, within a deployment, an event happened to a target at a
// revision. Targets are typed paths, "resource/db" or "stage/web/beta"; the
// part before the first slash is the target's kind. Every kind has three
// marker events, KIND-started, KIND-finished-successfully and KIND-failed, and
// the queries look only for the markers of the kind they ask about, so other
// steps can be added between them freely (seed "Deployment Log").
//
// Stores live below this directory; deploylog/logtest holds the suite that
// every store passes.
package deploylog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"time"
)

// Event is one entry of the log. Append assigns Seq, and ID and CreatedAt
// where they are zero.
type Event struct {
	Seq        int64           `json:"seq"`                // position in the log, from 1, without gaps
	ID         string          `json:"id"`                 // ULID
	Deployment string          `json:"deployment"`         // what happened together
	Target     Target          `json:"target"`             // what it happened to
	Revision   string          `json:"revision,omitempty"` // which version of it
	Name       string          `json:"event"`              // kebab-case, past tense
	Attempt    int             `json:"attempt"`            // from 1; (deployment, target, event, attempt) is unique
	CreatedAt  time.Time       `json:"created_at"`         // UTC, nanoseconds
	Data       json.RawMessage `json:"data,omitempty"`     // details; readers ignore fields they do not know
}

// Target is a typed path such as "resource/db".
type Target string

// Kind is the part of the target before its first slash.
func (t Target) Kind() string {
	kind, _, _ := strings.Cut(string(t), "/")
	return kind
}

// Started is the name of the marker event that begins an attempt at a target of
// this kind.
func (t Target) Started() string { return t.Kind() + "-started" }

// Succeeded is the name of the marker event that ends an attempt well.
func (t Target) Succeeded() string { return t.Kind() + "-finished-successfully" }

// Failed is the name of the marker event that ends an attempt badly.
func (t Target) Failed() string { return t.Kind() + "-failed" }

// Ended is the name of the marker event that ends an attempt with an outcome.
func (t Target) Ended(o Outcome) (name string, err error) {
	switch o {
	case Succeeded:
		return t.Succeeded(), nil
	case Failed:
		return t.Failed(), nil
	}
	return "", fmt.Errorf("latest event of %s: unknown outcome %q, ask for %q or %q", t, o, Succeeded, Failed)
}

// Filter selects events; zero fields select everything.
type Filter struct {
	After      int64     // only events with a greater Seq
	Until      int64     // only events with a Seq not greater; 0 is no limit
	Deployment string    //
	Target     Target    // exactly this target, or with a trailing "/" everything below it
	Name       string    // exactly this event
	Since      time.Time // only events created at or after it
	Last       int       // only the newest n of what the rest selects; 0 is all
}

// Selects reports whether a filter selects an event, as far as the event alone says that: Last
// is not considered.
func (f Filter) Selects(e Event) bool {
	switch {
	case e.Seq <= f.After || f.Until > 0 && e.Seq > f.Until:
		return false
	case f.Deployment != "" && e.Deployment != f.Deployment, f.Name != "" && e.Name != f.Name, e.CreatedAt.Before(f.Since):
		return false
	}
	at, under := string(f.Target), strings.HasSuffix(string(f.Target), "/")
	return at == "" || string(e.Target) == at || under && strings.HasPrefix(string(e.Target), at)
}

// Log is a deployment log. All methods are safe for concurrent use, also by
// several processes on one store.
type Log interface {
	// ID identifies the store; it never changes.
	ID() string

	// Append adds the events in order, all or none, and returns them with
	// what it assigned once they are durable. A repeated (deployment, target,
	// event, attempt) fails with ErrDuplicate and adds nothing. A write that
	// fails is ErrUnwritten; after it every further Append fails with
	// ErrPoisoned until the log is opened again.
	Append(ctx context.Context, events ...Event) ([]Event, error)

	// Read yields the selected events in log order. It ends after the first
	// error, which it yields.
	Read(ctx context.Context, f Filter) iter.Seq2[Event, error]

	// Watch yields the selected events as Read does and goes on with those
	// appended later, by any process, until ctx is done. f.Until must be 0.
	// Where the log ends before f.After it waits, or fails at once.
	Watch(ctx context.Context, f Filter) iter.Seq2[Event, error]

	// Latest returns the event of the given outcome for the target whose
	// revision was registered last; ok is false when there is none. The order
	// of registration is the order of the first events of deployments, never
	// that of the revision strings.
	Latest(ctx context.Context, t Target, o Outcome) (e Event, ok bool, err error)

	// InProgress returns the started events of the target that have neither
	// succeeded nor failed in their deployment, in order of registration.
	InProgress(ctx context.Context, t Target) ([]Event, error)

	// Lock waits for the named lock, which one holder has at a time over all
	// processes on the store; a process that dies lets go of it. TryLock does
	// not wait and fails with ErrLocked.
	Lock(ctx context.Context, name string) (unlock func(), err error)
	TryLock(name string) (unlock func(), err error)

	// Locked reports whether somebody has the named lock. Asking takes nothing:
	// it never makes a TryLock fail.
	Locked(name string) (bool, error)

	// Verify reads the whole store and fails with ErrCorrupt where it is not
	// what was appended, or never stood at one of the known heads. It returns
	// what it checked.
	Verify(ctx context.Context, known ...Head) (Verification, error)

	Close() error
}

// LockPruner is a Log whose locks leave something behind when nobody holds them.
// Pruning never lets two have one lock, and is safe beside any who take and release
// locks, also of those that are pruned.
type LockPruner interface {
	// PruneLock removes what is left of a lock that will hardly be taken again. A lock
	// that somebody holds stays.
	PruneLock(name string) error

	// PruneLocks removes what is left of the locks that nobody holds and that were not
	// taken since a time; zero is all. With dryRun it removes nothing and returns what it would.
	PruneLocks(ctx context.Context, before time.Time, dryRun bool) (Pruned, error)
}

// Pruned is what was removed that belonged to a log.
type Pruned struct {
	Count  int
	Bytes  int64
	Oldest time.Time // when the oldest of them was last used or made; zero without any
}

// Add counts a file.
func (p *Pruned) Add(f fs.FileInfo) {
	p.Count, p.Bytes = p.Count+1, p.Bytes+f.Size()
	if p.Oldest.IsZero() || f.ModTime().Before(p.Oldest) {
		p.Oldest = f.ModTime()
	}
}

// Outcome is what Latest looks for.
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
)

// Verification is the result of reading a whole log.
type Verification struct {
	Events int64  // how many were checked
	Head   string // hash over all of them, hexadecimal: equal heads, equal logs
}

// Anchor is the head in the form that is noted elsewhere.
func (v Verification) Anchor() Head { return Head{Seq: v.Events, Hash: v.Head} }

// The errors on which callers branch.
var (
	ErrDuplicate = errors.New("event is already in the log")
	ErrPoisoned  = errors.New("log refuses writes after a failed one")
	ErrUnwritten = errors.New("log could not be written") // of the write that failed: whether its events are there is known once the log is opened again
	ErrLocked    = errors.New("lock is held by another process")
	ErrCorrupt   = errors.New("log is corrupt")
	ErrInvalid   = errors.New("event is not valid")
)

// TurnLog is a Log that tells which process has the turn to write, while something waits for that for
// longer than a moment; "" is that nothing does.
type TurnLog interface {
	KeptBy() string
}

// KeptError is that a caller waits no longer for another process, which has the turn to write, or a lock.
// Nothing was recorded.
type KeptError struct {
	By   string // which process has it, and whether that goes on
	Lock string // that the caller waited for; "" is the turn to write
	Here bool   // another caller of this process has the lock, while By has the turn to write
	Err  error  // why it is not waited for any longer
}

func (e *KeptError) Error() string { return fmt.Sprintf("%s: %v", e.Holder(e.By), e.Err) }

// Holder says what was waited for, and that by has it.
func (e *KeptError) Holder(by string) string {
	switch {
	case e.Lock == "":
		return "the turn to write is kept by " + by
	case e.Here:
		return fmt.Sprintf("another caller of this process has the lock %q, while the turn to write is kept by %s", e.Lock, by)
	default:
		return fmt.Sprintf("the lock %q is held by %s", e.Lock, by)
	}
}

// Unwrap returns why it is not waited for any longer.
func (e *KeptError) Unwrap() error { return e.Err }
