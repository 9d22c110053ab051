package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/ringtest"
)

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
		done.Go(func() {
			assert.NoError(t, contend(ctx, l, "resource/db"))
		})
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
	unlock, err := l.TryLock("resource/db")
	require.NoError(t, err)
	var file, open syscall.Stat_t
	require.NoError(t, syscall.Stat(filepath.Join(l.lockDir(), lockFile("resource/db")), &file))
	inherited := 0
	for fd := range 1000 {
		if syscall.Fstat(fd, &open) != nil || open.Dev != file.Dev || open.Ino != file.Ino {
			continue
		}
		child, err := syscall.Dup(fd)
		require.NoError(t, err)
		defer syscall.Close(child)
		inherited++
		break
	}
	unlock()
	again, err := l.TryLock("resource/db")
	require.True(t, err == nil && inherited == 1, "with %d descriptors of the child: %v", inherited, err)
	again()
}

func TestPrunedLocks(t *testing.T) {
	l := newLog(t)
	now := time.Now()
	if p, err := l.PruneLocks(t.Context(), now, false); err != nil || p.Count != 0 {
		t.Errorf("without any lock %+v, %v", p, err)
	}
	taken := func(name string, ago time.Duration) func() {
		unlock, err := l.TryLock(name)
		require.NoError(t, err)
		at := now.Add(-ago)
		require.NoError(t, os.Chtimes(filepath.Join(l.lockDir(), lockFile(name)), at, at))
		return unlock
	}
	names := func() (n int) {
		entries, err := os.ReadDir(l.lockDir())
		require.NoError(t, err)
		return len(entries)
	}
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
		p, err := l.PruneLocks(t.Context(), before, dryRun)
		assert.True(t, err == nil && p.Count == want.Count && p.Oldest.Sub(want.Oldest).Abs() <= time.Second, "dry run %v: %+v, %v, want %+v", dryRun, p, err, want)
	}
	assert.Equal(t, 5, names(), "files are left")
	assert.ErrorIs(t, errOf(l.TryLock("held for long")), deploylog.ErrLocked, "the lock that was held for long")
	if held, err := l.Locked("never taken"); held || err != nil || names() != 5 {
		t.Errorf("asking for a lock that was never taken: %v, %v; %d files", held, err, names())
	}
}
