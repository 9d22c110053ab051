package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/waittest"
)

// whole says how counters are kept whole; encode is called when one is encoded.
func whole(encode func() error) reconcile.States[*counter] {
	return reconcile.States[*counter]{
		Target: func(name string) deploylog.Target { return deploylog.Target("counter/" + name) }, After: 1,
		Copy: func(c *counter) func() (json.RawMessage, error) {
			head := c.head
			return func() (json.RawMessage, error) {
				text, _ := json.Marshal(head)
				return text, encode()
			}
		},
		Restore: func(name string, data json.RawMessage) (*counter, error) {
			c := &counter{name: name}
			return c, json.Unmarshal(data, &c.head)
		},
	}
}

// While a snapshot is encoded others ask, and no other snapshot is begun.
func TestASnapshotIsEncodedWithoutTheLock(t *testing.T) {
	kept := &reconciletest.Snapshots{Log: reconciletest.InMemory(t)()}
	append1 := func(n int) {
		_, err := kept.Append(t.Context(), (&counter{name: "a", goal: 9}).event("counter-created", n))
		require.NoError(t, err)
	}
	append1(1)
	f, encoded := folded(kept), 0
	f.KeepStates(whole(func() error {
		encoded++
		if encoded > 1 {
			return nil
		}
		append1(2)
		asked := make(chan error, 1)
		go func() { asked <- f.Follow(t.Context(), 0) }()
		return waittest.Receive(t, asked, "another to follow the log while a snapshot is encoded")
	}))
	for want := int64(1); want <= 2; want++ {
		require.NoError(t, f.Follow(t.Context(), 0))
		if s, ok := kept.Snapshot(t.Context(), "counters"); !ok || s.Seq != want || encoded != int(want) || f.Head() != 2 {
			t.Fatalf("there is a snapshot of event %d, %t, after %d were encoded; event %d is followed", s.Seq, ok, encoded, f.Head())
		}
		if want == 1 {
			continue // the next one is that of what was followed while this one was encoded
		}
		again := folded(kept)
		again.KeepStates(whole(func() error { return nil }))
		if err := again.Follow(t.Context(), 0); err != nil || again.Head() != 2 {
			t.Errorf("whoever begins with it has followed %d: %v", again.Head(), err)
		}
	}
}

// full is a log beside which there is room for snapshots at times.
type full struct {
	deploylog.Log
	has func() bool // whether there is room
}

func (*full) Snapshot(context.Context, string) (s deploylog.Snapshot, ok bool) { return s, false }
func (f *full) KeepSnapshot(context.Context, string, deploylog.Snapshot) error {
	if f.has() {
		return nil
	}
	return errors.New("the disk is full")
}
func (*full) PruneSnapshots(time.Time, bool) (p deploylog.Pruned, err error) { return p, nil }

// It is said once, and again only after there was room.
func TestALoopSaysOnceThatNoSnapshotCanBeKept(t *testing.T) {
	for name, c := range map[string]struct {
		room []bool // for the first snapshots; there is none for later ones
		says int
	}{
		"there never is room":            {nil, 1},
		"there is for a while":           {[]bool{false, true}, 2},
		"there is none after some while": {[]bool{true, true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inSite(t, func(s *site) {
				s.create("a", 9)
				tries := 0
				f := folded(&full{s.log, func() bool { tries++; return tries <= len(c.room) && c.room[tries-1] }})
				f.KeepStates(whole(func() error { return nil }))
				setup := s.setup(reconcile.Options{UntilIdle: true})
				setup.Fold = f
				require.NoError(t, reconcile.New(setup).Run(s.Context()))
				const says = "no snapshot of the counters can be kept, so that every process that begins reads all of the log: the disk is full"
				s.wantNotices(slices.Repeat([]string{says}, c.says)...)
				assert.GreaterOrEqual(t, tries, 4)
			})
		})
	}
}
