// Package builds is the tenant of the reconcile loop that works off build groups. Builds
// folds and commands. A Controller has jobs done by a Builder, on workers: it records that a
// job begins before it does, and all that follows from its end together with that.
package builds

import (
	"context"
	"encoding/json"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
)

// Builds are all build groups of a log, folded from its events: one state, so that their
// order is one, and one process at a time has jobs done. It is safe for concurrent use.
type Builds struct {
	*reconcile.Fold[*build.State]
}

// New knows nothing until it Follows. The subscribers receive every event of the log that
// it folds, one at a time.
func New(log deploylog.Log, now func() time.Time, subscribers ...func(deploylog.Event)) *Builds {
	b := &Builds{reconcile.NewFold(reconcile.Kind[*build.State]{
		One: "queue", Many: "builds", NameOf: record.NameOf, Begins: record.GroupTriggered, Begin: build.New, Exists: func(*build.State) bool { return true },
		Missing: build.ErrNoGroup, Remedy: "deployster build submit -f FILE",
	}, log, now, subscribers)}
	b.KeepStates(reconcile.States[*build.State]{
		Version: build.SnapshotVersion,
		Target:  func(name string) deploylog.Target { return record.Group(name) }, Restore: build.Restore,
		Copy: func(s *build.State) func() (json.RawMessage, error) { return s.Copy().Encode },
	})
	return b
}

// Command proposes a command and appends what it comes to.
func (b *Builds) Command(ctx context.Context, c build.Command) ([]deploylog.Event, error) {
	if events, sent, err := b.Send(ctx, groupOf(c), c, 0); sent {
		return events, err
	}
	return b.Change(ctx, record.Entity, true, func(s *build.State) ([]deploylog.Event, error) {
		return s.Propose(c, b.Now())
	})
}

// groupOf is the group that a command is for; "" is a new one.
func groupOf(c build.Command) string {
	switch c := c.(type) {
	case build.Cancel:
		return c.Group
	case build.Retry:
		return c.Group
	default:
		return ""
	}
}

// State calls do with the state of all groups, which it must not keep. Where there never
// was a group it is that of none.
func (b *Builds) State(do func(*build.State) error) (err error) {
	b.Locked(func() {
		s, err2 := b.Find(record.Entity)
		if err2 != nil {
			s = build.New(record.Entity)
		}
		err = do(s)
	})
	return err
}
