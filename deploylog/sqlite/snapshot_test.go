package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// snapshotFile is that of this user.
func snapshotFile(name string) string { return fmt.Sprint(name, ".", os.Geteuid()) }

// snapped is a log of five events with a snapshot up to the third.
func snapped(t *testing.T) (l *Log, s deploylog.Snapshot, file string) {
	t.Helper()
	l = newLog(t)
	events := samples(0, 5)
	events[0].Data = nil
	events, err := l.Append(t.Context(), events...)
	require.NoError(t, err)
	s = deploylog.Snapshot{Seq: 3, Events: []deploylog.Event{events[0], events[2]}}
	require.NoError(t, l.KeepSnapshot(t.Context(), "web", s))
	return l, s, filepath.Join(l.snapshotDir(), snapshotFile("web"))
}

func wantSnapshot(t *testing.T, l *Log, want *deploylog.Snapshot) {
	t.Helper()
	got, ok := l.Snapshot(t.Context(), "web")
	assert.True(t, ok == (want != nil) && (!ok || reflect.DeepEqual(got, *want)), "the snapshot is %+v, %t, want %+v", got, ok, want)
}

func TestASnapshotIsReadAsItWasKept(t *testing.T) {
	l, s, file := snapped(t)
	wantSnapshot(t, l, &s)
	_, ok := l.Snapshot(t.Context(), "other")
	assert.False(t, ok, "there is another one")
	s.Seq, s.Events = 5, s.Events[:1]
	require.NoError(t, l.KeepSnapshot(t.Context(), "web", s))
	wantSnapshot(t, l, &s)
	again := openLog(t, l.path)
	wantSnapshot(t, again, &s)
	for path, mode := range map[string]os.FileMode{file: 0o600, l.snapshotDir(): 0o700 | os.ModeDir} {
		info, err := os.Stat(path)
		assert.True(t, err == nil && info.Mode() == mode, "%s has the mode %v, %v", path, info.Mode(), err)
	}
	require.NoError(t, os.RemoveAll(l.snapshotDir()))
	wantSnapshot(t, again, nil)
	require.NoError(t, again.KeepSnapshot(t.Context(), "web", s))
	wantSnapshot(t, l, &s)
}

func TestADamagedSnapshotIsNone(t *testing.T) {
	l, s, file := snapped(t)
	whole := read(t, file)
	for i := 0; i < len(whole); i += ringtest.Cases(13, 1) {
		for _, damaged := range [][]byte{whole[:i], slices.Concat(whole[:i], []byte{whole[i] ^ 1}, whole[i+1:]), slices.Concat(whole[:i], whole[i+1:])} {
			require.NoError(t, os.WriteFile(file, damaged, 0o600))
			got, ok := l.Snapshot(t.Context(), "web")
			require.False(t, ok, "damaged at byte %d it is %+v", i, got)
		}
	}
	require.NoError(t, os.WriteFile(file, whole, 0o600))
	wantSnapshot(t, l, &s)
}

// What is not this user's file, as this program wrote it, is not believed.
func TestAForeignSnapshotIsNone(t *testing.T) {
	for what, change := range map[string]func(l *Log, file string) error{
		"may be written by others": func(_ *Log, file string) error { return os.Chmod(file, 0o620) },
		"is of another user":       func(_ *Log, file string) error { return os.Chown(file, 12345, -1) },
		"is a link":                func(_ *Log, file string) error { return linked(file) },
		"is a pipe": func(_ *Log, file string) error {
			if err := os.Remove(file); err != nil {
				return err
			}
			return syscall.Mkfifo(file, 0o600)
		},
		"is of another form": func(_ *Log, file string) error {
			return os.WriteFile(file, bytes.Replace(must(os.ReadFile(file)), []byte("snapshot 1"), []byte("snapshot 2"), 1), 0o600)
		},
	} {
		t.Run(what, func(t *testing.T) {
			l, s, file := snapped(t)
			require.NoError(t, change(l, file))
			wantSnapshot(t, l, nil)
			require.NoError(t, l.KeepSnapshot(t.Context(), "web", s))
			wantSnapshot(t, l, &s)
		})
	}
}

func linked(file string) error {
	if err := os.Rename(file, file+".moved"); err != nil {
		return err
	}
	return os.Symlink(file+".moved", file)
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// A log that was restored from a backup, and went on otherwise, has another history under
// the same identity; one that was copied has the same.
func TestASnapshotIsOfOneHistory(t *testing.T) {
	ctx := t.Context()
	l := newLog(t)
	path := l.path
	write := func(l *Log, from, n int) {
		t.Helper()
		for i := range n {
			require.NoError(t, errOf(l.Append(ctx, sample(from+i))))
		}
	}
	moved := func(l *Log, to string) *Log {
		t.Helper()
		require.NoError(t, l.Close())
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
		for _, suffix := range []string{"", anchorSuffix} {
			require.NoError(t, os.WriteFile(to+suffix, read(t, l.path+suffix), 0o600))
		}
		if _, err := os.Stat(l.snapshotDir()); err == nil && filepath.Dir(to) != filepath.Dir(l.path) {
			require.NoError(t, os.CopyFS(to+".snapshots", os.DirFS(l.snapshotDir())))
		}
		return openLog(t, to)
	}
	write(l, 0, 2)
	backup := filepath.Join(t.TempDir(), "backup.db")
	l = moved(moved(l, backup), path)
	write(l, 2, 3)
	s := deploylog.Snapshot{Seq: 4}
	require.NoError(t, l.KeepSnapshot(ctx, "web", s))
	wantSnapshot(t, l, &s)

	copied := moved(l, filepath.Join(t.TempDir(), "copy.db"))
	require.NoError(t, os.Chmod(filepath.Join(copied.snapshotDir(), snapshotFile("web")), 0o600))
	wantSnapshot(t, copied, &s)

	restored := moved(openLog(t, backup), path)
	wantSnapshot(t, restored, nil) // it is ahead of the log
	write(restored, 7, 5)
	wantSnapshot(t, restored, nil)
	assert.Equal(t, copied.ID(), restored.ID(), "the logs are not those that were meant")

	other := openLog(t, filepath.Join(t.TempDir(), "other.db"))
	write(other, 0, 5)
	require.NoError(t, os.CopyFS(other.path+".snapshots", os.DirFS(copied.snapshotDir())))
	wantSnapshot(t, other, nil)
}

func TestWhereNoSnapshotCanBeKeptNothingIsLeft(t *testing.T) {
	l, s, file := snapped(t)
	readOnly, err := Open(t.Context(), l.path, Options{ReadOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = readOnly.Close() })
	wantSnapshot(t, readOnly, &s)
	assert.Error(t, readOnly.KeepSnapshot(t.Context(), "web", s), "a log that is only read keeps one")
	s.Seq = 6
	assert.Error(t, l.KeepSnapshot(t.Context(), "web", s), "one that is ahead of the log is kept")
	require.NoError(t, os.RemoveAll(l.snapshotDir()))
	require.NoError(t, os.WriteFile(l.snapshotDir(), nil, 0o600))
	s.Seq = 5
	assert.Error(t, l.KeepSnapshot(t.Context(), "web", s), "one is kept where there is no directory")
	wantSnapshot(t, l, nil)
	require.NoError(t, os.Remove(l.snapshotDir()))
	require.NoError(t, os.MkdirAll(file, 0o700))
	assert.Error(t, l.KeepSnapshot(t.Context(), "web", s), "one takes the place of a directory")
	entries, err := os.ReadDir(l.snapshotDir())
	assert.True(t, err == nil && len(entries) == 1, "there are %v, %v", entries, err)
}

// snap keeps snapshots, one after the other, until it is killed.
func snap(ctx context.Context, l *Log, name string) error {
	for i := 0; ctx.Err() == nil; i++ {
		s := deploylog.Snapshot{Seq: int64(1 + i%3)}
		for seq := range s.Seq {
			e := sample(i)
			e.Seq, e.CreatedAt = seq+1, time.Unix(int64(i), 0)
			e.Data = bytes.Repeat([]byte("x"), 1<<20)
			s.Events = append(s.Events, e)
		}
		if err := l.KeepSnapshot(context.Background(), name, s); err != nil {
			return err
		}
		if _, err := os.Stdout.WriteString("kept\n"); err != nil {
			return err
		}
	}
	return nil
}

// Whoever is killed while writing leaves the snapshot of before, or the new one, whole.
func TestWhoIsKilledLeavesNoHalfSnapshot(t *testing.T) {
	l, _, _ := snapped(t)
	unfinished := 0
	for i := range ringtest.Cases(4, 10) {
		p, other := start(t, "snap", l.path, "web"), start(t, "snap", l.path, "web")
		for range i % 3 {
			p.line(t)
		}
		other.line(t)
		wait := time.Duration(i) * time.Millisecond
		<-time.After(wait)
		for _, p := range []*process{p, other} {
			require.NoError(t, p.cmd.Process.Kill())
			_ = p.cmd.Wait()
		}
		s, ok := l.Snapshot(t.Context(), "web")
		require.True(t, ok && len(s.Events) == int(s.Seq), "after %d kills it is of event %d, with %d events, %t", i, s.Seq, len(s.Events), ok)
		left, err := filepath.Glob(filepath.Join(l.snapshotDir(), ".new-*"))
		require.NoError(t, err)
		unfinished = len(left)
	}
	old := time.Now().Add(-2 * abandonedAfter)
	entries, err := os.ReadDir(l.snapshotDir())
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, os.Chtimes(filepath.Join(l.snapshotDir(), e.Name()), old, old))
	}
	all, err := l.PruneSnapshots(time.Time{}, false)
	assert.True(t, err == nil && all.Count == unfinished, "of %d unfinished ones, %+v were removed, %v", unfinished, all, err)
	_, ok := l.Snapshot(t.Context(), "web")
	assert.True(t, ok, "the snapshot was removed, too")
}

func TestSnapshotsOfManyAtOnce(t *testing.T) {
	l, s, _ := snapped(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				assert.NoError(t, l.KeepSnapshot(t.Context(), "web", s))
				_, ok := l.Snapshot(t.Context(), "web")
				assert.True(t, ok, "there is none")
			}
		})
	}
	all.Wait()
}

func TestOldSnapshotsArePruned(t *testing.T) {
	l, s, file := snapped(t)
	require.NoError(t, l.KeepSnapshot(t.Context(), "new", s))
	at := time.Now().Add(-48 * time.Hour).Truncate(time.Second)
	require.NoError(t, os.Chtimes(file, at, at))
	want := deploylog.Pruned{Count: 1, Bytes: int64(len(read(t, file))), Oldest: at}
	for _, dryRun := range []bool{true, false} {
		got, err := l.PruneSnapshots(at.Add(time.Second), dryRun)
		if err != nil || got.Count != want.Count || got.Bytes != want.Bytes || !got.Oldest.Equal(want.Oldest) {
			t.Errorf("%+v was removed, %v, want %+v", got, err, want)
		}
	}
	wantSnapshot(t, l, nil)
	_, ok := l.Snapshot(t.Context(), "new")
	assert.True(t, ok, "the new one was removed")
	none := newLog(t)
	got, err := none.PruneSnapshots(time.Now(), false)
	assert.True(t, err == nil && got == (deploylog.Pruned{}), "where there are none, %+v was removed, %v", got, err)
}
