package notification

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
)

// pauses are those between the tries to tell the same.
var pauses = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute}

// Notifier tells by rules.
type Notifier struct {
	Log       deploylog.Log
	Rules     []Rule
	Approvals Approvals
	Logger    *slog.Logger

	// Pauses are those between the tries to tell the same, after the last of which it is put
	// aside; nil is 1 s, 5 s, 30 s, 2 min and 10 min.
	Pauses []time.Duration

	// Send sends a message; nil is by what the rule says.
	Send func(ctx context.Context, r Rule, m Message) error
}

// Run tells until ctx ends, or the log fails. Of several that run on one log, one tells by a
// rule, and the others stand by. What is being told when ctx ends is told again by the next.
func (n *Notifier) Run(ctx context.Context) error {
	if n.Pauses == nil {
		n.Pauses = pauses
	}
	if n.Send == nil {
		n.Send = send
	}
	if err := n.retire(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var telling sync.WaitGroup
	for _, r := range n.Rules {
		telling.Go(func() {
			err := crash.Do("notifying by "+r.Name, func() error { return n.follow(ctx, r) })
			if err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	telling.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// retire ends the rules that are not in the file any more: should one come back, it begins
// with what comes then.
func (n *Notifier) retire(ctx context.Context) error {
	all, err := Read(ctx, n.Log)
	if err != nil {
		return err
	}
	for _, s := range all {
		if !s.Active || n.has(s.Name) {
			continue
		}
		unlock, err := n.Log.TryLock(lockOf(s.Name))
		if errors.Is(err, deploylog.ErrLocked) {
			continue // another server has it, with another file
		}
		if err != nil {
			return fmt.Errorf("ending the notification %s: %w", s.Name, err)
		}
		err = write(ctx, n.Log, s.Name, Ended, payload{Through: s.Through})
		unlock()
		if err != nil && !errors.Is(err, deploylog.ErrDuplicate) {
			return err
		}
	}
	return nil
}

func (n *Notifier) has(name string) bool {
	for _, r := range n.Rules {
		if r.Name == name {
			return true
		}
	}
	return false
}

// follow tells by one rule.
func (n *Notifier) follow(ctx context.Context, r Rule) error {
	unlock, err := n.Log.Lock(ctx, lockOf(r.Name))
	if err != nil {
		return fmt.Errorf("taking the lock of the notification %s: %w", r.Name, err)
	}
	defer unlock()
	through, err := n.begin(ctx, r)
	if err != nil {
		return err
	}
	for e, err := range n.Log.Watch(ctx, deploylog.Filter{After: through}) {
		if err != nil {
			return fmt.Errorf("watching the log for the notification %s: %w", r.Name, err)
		}
		told := e
		if again := r.retried(e); again > 0 {
			if told, err = n.event(ctx, again); err != nil {
				n.Logger.Warn("what is to be told again is not in the log", "notification", r.Name, "event", again, "error", err)
				continue
			}
		} else if tells, err := r.tells(e, n.Approvals); err != nil {
			return fmt.Errorf("finding out whether the notification %s tells of event %d: %w", r.Name, e.Seq, err)
		} else if !tells {
			continue
		}
		if err := n.tell(ctx, r, told, e.Seq); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// begin returns the event up to which all is told. A new rule begins with what comes now.
func (n *Notifier) begin(ctx context.Context, r Rule) (through int64, err error) {
	all, err := Read(ctx, n.Log)
	if err != nil {
		return 0, err
	}
	if s := find(all, r.Name); s != nil && s.Active {
		return s.Through, nil
	}
	for e, err := range n.Log.Read(ctx, deploylog.Filter{Last: 1}) {
		if err != nil {
			return 0, fmt.Errorf("reading the newest event for the notification %s: %w", r.Name, err)
		}
		through = e.Seq
	}
	err = write(ctx, n.Log, r.Name, Begun, payload{Through: through})
	return through, err
}

// event is the one with a number.
func (n *Notifier) event(ctx context.Context, seq int64) (found deploylog.Event, err error) {
	for e, err := range n.Log.Read(ctx, deploylog.Filter{After: seq - 1, Until: seq}) {
		return e, err
	}
	return found, fmt.Errorf("there is no event %d", seq)
}

// tell tells an event, tries again, and records how it ended. All up to through is told then.
func (n *Notifier) tell(ctx context.Context, r Rule, e deploylog.Event, through int64) error {
	k, _, err := KindOf(e, n.Approvals)
	if err != nil || k == "" {
		return err // nothing is told of an approval stage that is none any more
	}
	m := r.message(n.Log.ID(), e, k)
	for try := 1; ; try++ {
		failed := n.Send(ctx, r, m)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case failed == nil:
			err := write(ctx, n.Log, r.Name, Delivered, payload{Event: e.Seq, Through: through, Tries: try})
			return err
		}
		cause := clean(failed.Error())
		if try > len(n.Pauses) {
			n.Logger.Error("a notification could not be delivered, and is put aside", "notification", r.Name, "event", e.Seq, "tries", try, "error", cause)
			err := write(ctx, n.Log, r.Name, Abandoned, payload{Event: e.Seq, Through: through, Tries: try, Error: cause})
			return err
		}
		n.Logger.Warn("a notification could not be delivered, and is tried again", "notification", r.Name, "event", e.Seq, "try", try, "after", n.Pauses[try-1], "error", cause)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(n.Pauses[try-1]):
		}
	}
}

// ErrNotAbandoned is wrapped where nothing is to be told again.
var ErrNotAbandoned = errors.New("no such notification was put aside")

// Notifications is their kind where a log is a server's, to which commands are sent.
const Notifications = "notifications"

// Retry has what was put aside told again.
type Retry struct {
	Event int64 // 0 is all of the rule
	By    string
}

// commanded is a log that is a server's, which records what it is asked for.
type commanded interface {
	Command(ctx context.Context, kind, name string, command any, asOf int64) ([]deploylog.Event, error)
}

// Do has what a rule put aside told again.
func (r Retry) Do(ctx context.Context, log deploylog.Log, rule string) (written []deploylog.Event, err error) {
	if server, sends := log.(commanded); sends {
		return server.Command(ctx, Notifications, rule, r, 0)
	}
	all, err := Read(ctx, log)
	if err != nil {
		return nil, err
	}
	s := find(all, rule)
	if s == nil {
		return nil, fmt.Errorf("%w: the log knows no notification %.200q", ErrNotAbandoned, rule)
	}
	var events []deploylog.Event
	for _, a := range s.Abandoned {
		if a.Again || r.Event != 0 && a.Event != r.Event {
			continue
		}
		e, err := encode(rule, Retried, payload{Event: a.Event, Through: a.through, By: r.By})
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("%w: of %s", ErrNotAbandoned, rule)
	}
	if written, err = log.Append(ctx, events...); err != nil {
		return nil, fmt.Errorf("recording that the notification %s is told again: %w", rule, err)
	}
	return written, nil
}
