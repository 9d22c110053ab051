package sqlite

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
)

func snapshotFile(name string) string { return fmt.Sprint(name, ".", os.Geteuid()) }

// snapped is a log of five events with a snapshot up to the third.
func snapped(t *testing.T) (l *Log, s deploylog.Snapshot, file string) {
	l = newLog(t)
	events := samples(0, 5)
	events[0].Data = nil
	events = must.Get(l.Append(t.Context(), events...))(t)
	s = deploylog.Snapshot{Seq: 3, Events: []deploylog.Event{events[0], events[2]}}
	require.NoError(t, l.KeepSnapshot(t.Context(), "web", s))
	return l, s, filepath.Join(l.snapshotDir(), snapshotFile("web"))
}

func wantSnapshot(t *testing.T, l *Log, want *deploylog.Snapshot) {
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
		info := must.Get(os.Stat(path))(t)
		assert.Equal(t, mode, info.Mode(), "%s has the mode %v", path, info.Mode())
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
			return os.WriteFile(file, bytes.Replace(must.Get(os.ReadFile(file))(t), []byte("snapshot 1"), []byte("snapshot 2"), 1), 0o600)
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
	readOnly := must.Get(Open(t.Context(), l.path, Options{ReadOnly: true}))(t)
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
	assert.Len(t, must.Get(os.ReadDir(l.snapshotDir()))(t), 1)
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
		left := must.Get(filepath.Glob(filepath.Join(l.snapshotDir(), ".new-*")))(t)
		unfinished = len(left)
	}
	old := time.Now().Add(-2 * abandonedAfter)
	for _, e := range must.Get(os.ReadDir(l.snapshotDir()))(t) {
		require.NoError(t, os.Chtimes(filepath.Join(l.snapshotDir(), e.Name()), old, old))
	}
	all := must.Get(l.PruneSnapshots(time.Time{}, false))(t)
	assert.Equal(t, unfinished, all.Count, "of %d unfinished ones, %+v were removed", unfinished, all)
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
		got := must.Get(l.PruneSnapshots(at.Add(time.Second), dryRun))(t)
		assert.True(t, got.Count == want.Count && got.Bytes == want.Bytes && got.Oldest.Equal(want.Oldest), "%+v was removed, want %+v", got, want)
	}
	wantSnapshot(t, l, nil)
	_, ok := l.Snapshot(t.Context(), "new")
	assert.True(t, ok, "the new one was removed")
	none := newLog(t)
	got := must.Get(none.PruneSnapshots(time.Now(), false))(t)
	assert.True(t, got == (deploylog.Pruned{}), "where there are none, %+v was removed", got)
}

// Locks that are taken, asked for and released by many processes, while each of these
// also prunes all of them, have one holder at a time.
func TestPrunedLocksExclude(t *testing.T) {
	l := newLog(t)
	path := l.path
	processes := make([]*process, 3)
	for i := range processes {
		processes[i] = start(t, "contend", path, "resource/db")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	for range 2 {
		done.Go(func() { assert.NoError(t, contend(ctx, l, "resource/db")) })
	}
	// One dies while it may hold the lock: nobody else is kept from it.
	turns := func(n int) {
		for range n {
			assert.NoError(t, takeTurn(ctx, l, "resource/db"))
		}
	}
	turns(ringtest.Cases(6, 30))
	killed := processes[0].cmd
	require.NoError(t, killed.Process.Kill())
	_ = killed.Wait()
	_ = os.Remove(marker(l, killed.Process.Pid))
	turns(ringtest.Cases(6, 30))
	cancel()
	done.Wait()
	for _, p := range processes[1:] {
		_ = p.stdin.Close()
		assert.NoError(t, p.cmd.Wait(), "a process")
	}
}

// contend takes turns with a lock until its context is done, and prunes all the time.
func contend(ctx context.Context, l *Log, name string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var pruning sync.WaitGroup
	pruning.Go(func() {
		for ctx.Err() == nil {
			_, everything := l.PruneLocks(context.Background(), time.Time{}, false)
			_, nothing := l.PruneLocks(context.Background(), time.Time{}, true)
			_, asked := l.Locked(name)
			if err := errors.Join(l.PruneLock(name), everything, nothing, asked); err != nil {
				cancel(err)
			}
		}
	})
	for ctx.Err() == nil {
		if err := takeTurn(ctx, l, name); err != nil {
			cancel(err)
		}
	}
	pruning.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// turn takes a lock and fails when somebody else has it at the same time: each holder
// has a file that names its process, and there is never one of another that lives.
func takeTurn(ctx context.Context, l *Log, name string) error {
	unlock, err := l.Lock(ctx, name)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer unlock()
	mine := marker(l, os.Getpid())
	f, err := os.OpenFile(mine, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("another of this process holds the lock, too: %w", err)
	}
	others, err := filepath.Glob(marker(l, -1))
	for _, other := range others {
		var pid int
		if _, scanned := fmt.Sscanf(filepath.Base(other), "inside-%d", &pid); scanned == nil && pid != os.Getpid() && alive(pid) {
			err = errors.Join(err, fmt.Errorf("process %d holds the lock, too", pid))
		}
	}
	return errors.Join(err, f.Close(), os.Remove(mine))
}

// alive reports whether a process is there and was not killed.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(syscall.Kill(pid, 0), nil)
	}
	var command, state string
	_, _ = fmt.Sscanf(string(stat), "%d %s %s", &pid, &command, &state)
	return state != "Z"
}

func marker(l *Log, pid int) string {
	if pid < 0 {
		return filepath.Join(filepath.Dir(l.path), "inside-*")
	}
	return filepath.Join(filepath.Dir(l.path), fmt.Sprintf("inside-%d", pid))
}

// A child that is being started has the files of its parent until it executes its
// program. It does not keep what its parent lets go of meanwhile.
func TestAChildThatIsBeingStartedHoldsNoLock(t *testing.T) {
	l := newLog(t)
	unlock := must.Get(l.TryLock("resource/db"))(t)
	var file, open syscall.Stat_t
	require.NoError(t, syscall.Stat(filepath.Join(l.lockDir(), lockFile("resource/db")), &file))
	inherited := 0
	for fd := range 1000 {
		if syscall.Fstat(fd, &open) != nil || open.Dev != file.Dev || open.Ino != file.Ino {
			continue
		}
		child := must.Get(syscall.Dup(fd))(t)
		defer syscall.Close(child)
		inherited++
		break
	}
	unlock()
	again := must.Get(l.TryLock("resource/db"))(t)
	require.Equal(t, 1, inherited, "with %d descriptors of the child", inherited)
	again()
}

func TestPrunedLocks(t *testing.T) {
	l := newLog(t)
	now := time.Now()
	assert.Equal(t, 0, must.Get(l.PruneLocks(t.Context(), now, false))(t).Count)
	taken := func(name string, ago time.Duration) func() {
		unlock := must.Get(l.TryLock(name))(t)
		at := now.Add(-ago)
		require.NoError(t, os.Chtimes(filepath.Join(l.lockDir(), lockFile(name)), at, at))
		return unlock
	}
	names := func() (n int) { entries := must.Get(os.ReadDir(l.lockDir()))(t); return len(entries) }
	defer taken("held for long", 100*time.Hour)()
	for name, ago := range map[string]time.Duration{"old": 50 * time.Hour, "older": 60 * time.Hour, "new": time.Hour} {
		unlock := taken(name, ago)
		unlock()
		at := now.Add(-ago)
		require.NoError(t, os.Chtimes(filepath.Join(l.lockDir(), lockFile(name)), at, at))
	}
	// What is no lock's file is none of its business.
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, errors.Join(
		os.WriteFile(outside, nil, 0o600), os.Symlink(outside, filepath.Join(l.lockDir(), "link")),
		os.Mkdir(filepath.Join(l.lockDir(), "directory"), 0o700), syscall.Mkfifo(filepath.Join(l.lockDir(), "pipe"), 0o600),
	))
	before := now.Add(-24 * time.Hour)
	want := deploylog.Pruned{Count: 2, Oldest: now.Add(-60 * time.Hour)}
	for _, dryRun := range []bool{true, true, false} {
		p := must.Get(l.PruneLocks(t.Context(), before, dryRun))(t)
		assert.True(t, p.Count == want.Count && p.Oldest.Sub(want.Oldest).Abs() <= time.Second, "dry run %v: %+v, want %+v", dryRun, p, want)
	}
	assert.Equal(t, 5, names(), "files are left")
	assert.ErrorIs(t, errOf(l.TryLock("held for long")), deploylog.ErrLocked, "the lock that was held for long")
	if held, err := l.Locked("never taken"); held || err != nil || names() != 5 {
		t.Errorf("asking for a lock that was never taken: %v, %v; %d files", held, err, names())
	}
}
