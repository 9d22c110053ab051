package postgres_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
)

// A snapshot is of use to this log with this history, and to no other.
func TestASnapshotIsOfOneHistory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache", "snapshots")
	opened := func(schema string) *postgres.Log {
		l, err := postgres.Open(t.Context(), server.URL(schema), postgres.Options{Snapshots: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	l, other := opened("snapshots"), opened("other_snapshots")
	for _, each := range []*postgres.Log{l, other} {
		if _, err := each.Append(t.Context(), event("d", "a"), event("d", "b")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.KeepSnapshot(t.Context(), "pipeline", deploylog.Snapshot{Seq: 2, Events: []deploylog.Event{}}); err != nil {
		t.Fatal(err)
	}
	if s, ok := opened("snapshots").Snapshot(t.Context(), "pipeline"); !ok || s.Seq != 2 {
		t.Errorf("%+v, %v", s, ok)
	}
	if _, ok := other.Snapshot(t.Context(), "pipeline"); ok {
		t.Error("it is of another log")
	}
	if err := open(t, server.URL("snapshots")).KeepSnapshot(t.Context(), "pipeline", deploylog.Snapshot{}); err == nil {
		t.Error("one was kept nowhere")
	}
	sql(t, server, "snapshots", "SET session_replication_role = replica; UPDATE events SET hash = sha256(hash) WHERE seq = 2")
	if _, ok := l.Snapshot(t.Context(), "pipeline"); ok {
		t.Error("it is of another history")
	}
	if pruned, err := l.PruneSnapshots(time.Now().Add(time.Hour), false); err != nil || pruned.Count != 1 {
		t.Errorf("%+v, %v", pruned, err)
	}
}
